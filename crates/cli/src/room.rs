//! Where the files of a configuration are kept, and on what terms.

use std::net::SocketAddr;
use toolbooth_config::Settings;
use toolbooth_config::settings::UnknownFile;
use toolbooth_core::call::inject::{UnknownName, Uses};
use toolbooth_core::fault::Problem;
use toolbooth_engine::{FileRoom, FileTerms};
use toolbooth_store::{BlobPlace, Blobs};

/// The room for files that the settings name; `address` is where the gateway listens, if it does.
pub fn room(settings: &Settings, address: Option<SocketAddr>) -> Result<FileRoom, Problem> {
    let place = match &settings.blobs.url {
        Some(url) => url.expose().parse().map_err(|error| Problem::of(&error))?,
        None => BlobPlace::Disk(settings.data_dir.join("blobs")),
    };
    let files = &settings.files;
    let terms = FileTerms {
        // Where nobody listens, nobody can fetch a file, whatever the address would be.
        public_url: address.map(|address| settings.public_url.clone().unwrap_or_else(|| reached_at(address))),
        url_lives: files.url_seconds,
        grace: files.grace_seconds,
        max_bytes: files.max_upload_bytes,
        uses: if files.single_use { Uses::Once } else { Uses::Many },
        unknown: match files.unknown {
            UnknownFile::Refuse => UnknownName::Refused,
            UnknownFile::PassThrough => UnknownName::PassThrough,
        },
    };
    let key = files.key.as_ref().map(|key| key.expose().as_bytes().to_vec());
    Ok(FileRoom { blobs: Blobs::new(place), terms, key })
}

/// An address by which servers on this machine reach the gateway.
fn reached_at(mut address: SocketAddr) -> String {
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
    fn addresses_can_be_dialled() {
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
