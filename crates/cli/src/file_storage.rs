//! Builds the file storage of a gateway from its settings.

use std::net::SocketAddr;
use std::time::Duration;
use toolbooth_config::settings::UnknownFile;
use toolbooth_config::{Settings, Sources};
use toolbooth_core::call::inject::{UnknownName, Uses};
#[cfg(feature = "s3")]
use toolbooth_core::fault::Blame;
use toolbooth_core::fault::Problem;
use toolbooth_engine::{FileStorage, FileTerms};
use toolbooth_store::{BlobUrl, Blobs, FileQuota};

/// The configured file storage; `address` is the gateway's listen address, if it has one.
pub fn open(
    settings: &Settings,
    sources: &Sources,
    address: Option<SocketAddr>,
) -> Result<FileStorage, Problem> {
    let place = match &settings.blobs.url {
        Some(url) => url.expose().parse()?,
        None => BlobUrl::Disk(settings.data_dir.join("blobs")),
    };
    let blobs = match place {
        BlobUrl::Memory => Blobs::in_memory(),
        BlobUrl::Disk(folder) => Blobs::in_folder(folder),
        BlobUrl::Bucket { name, prefix } => in_bucket(settings, sources, name, prefix)?,
    };
    let key = settings.files.key.as_ref().map(|key| key.expose().as_bytes().to_vec());
    Ok(FileStorage { blobs, terms: terms(settings, address), key })
}

/// The settings of files, which a reload replaces; `address` is the gateway's listen address, if it has one.
pub fn terms(settings: &Settings, address: Option<SocketAddr>) -> FileTerms {
    let files = &settings.files;
    FileTerms {
        // Without a listener, file URLs cannot be fetched.
        public_url: address.map(|address| settings.public_url.clone().unwrap_or_else(|| reached_at(address))),
        url_lives: files.url_seconds,
        grace: files.grace_seconds,
        max_bytes: files.max_upload_bytes,
        quota: FileQuota { files: files.user_files, bytes: files.user_bytes },
        keep: files.keep_days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600)),
        max_uses: files.max_uses,
        uses: if files.single_use { Uses::Once } else { Uses::Many },
        unknown: match files.unknown {
            UnknownFile::Error => UnknownName::Refused,
            UnknownFile::PassThrough => UnknownName::PassThrough,
        },
    }
}

#[cfg(not(feature = "s3"))]
fn in_bucket(_: &Settings, _: &Sources, _: String, _: String) -> Result<Blobs, Problem> {
    Err(Problem::of(&toolbooth_store::BlobError::NotBuilt))
}

/// A bucket from the settings; the usual AWS environment variables are the defaults.
#[cfg(feature = "s3")]
fn in_bucket(settings: &Settings, sources: &Sources, name: String, prefix: String) -> Result<Blobs, Problem> {
    use toolbooth_core::secret::SecretText;
    let variable = |names: &[&str]| {
        let found = names.iter().find_map(|name| sources.env.get(*name));
        found.filter(|value| !value.is_empty()).cloned()
    };
    let secret = |setting: &Option<SecretText>, name: &str| {
        let from_variable =
            || variable(&[name]).map(|value| SecretText::expanded(format!("${{{name}}}"), value));
        setting.clone().or_else(from_variable)
    };
    let blobs = &settings.blobs;
    let access_key = secret(&blobs.access_key, "AWS_ACCESS_KEY_ID");
    let secret_key = secret(&blobs.secret_key, "AWS_SECRET_ACCESS_KEY");
    let (Some(access_key), Some(secret_key)) = (access_key, secret_key) else {
        return Err(Problem {
            code: "blobs.no-keys",
            blame: Blame::Gateway,
            message: "`blobs.url` names a bucket, but no access keys are configured".into(),
            hint: Some("set `blobs.access_key` and `blobs.secret_key`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into()),
        });
    };
    let bucket = toolbooth_store::blobs::Bucket {
        name,
        prefix,
        endpoint: blobs.endpoint.clone().or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])),
        region: blobs.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"])),
        // A session token belongs to the access key of the environment only.
        session_token: blobs.access_key.is_none().then(|| secret(&None, "AWS_SESSION_TOKEN")).flatten(),
        access_key,
        secret_key,
    };
    Ok(toolbooth_engine::files::open_bucket(&bucket)?)
}

/// The URL at which programs on this machine reach the gateway.
pub fn reached_at(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let loopback: std::net::IpAddr = match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(loopback);
    }
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_can_be_connected_to() {
        let cases = [
            ("127.0.0.1:8665", "http://127.0.0.1:8665"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:81", "http://[::1]:81"),
            ("10.0.0.7:8665", "http://10.0.0.7:8665"),
        ];
        for (address, expected) in cases {
            assert_eq!(reached_at(address.parse().expect("an address")), expected);
        }
    }
}
