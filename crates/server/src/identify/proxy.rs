//! A trusted proxy: it names the user in one header and authenticates itself with a secret in another.

use super::refusal::Unidentified;
use super::{is_name, one};
use http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use toolbooth_core::secret::SecretText;

/// The headers that the proxy sends.
#[derive(Debug)]
pub struct Proxy {
    /// As configured, for messages. Lookups ignore the case.
    user_header: String,
    secret_header: String,
    /// A digest has a fixed length, so the comparison does not leak the length of the secret.
    secret: [u8; 32],
}

impl Proxy {
    /// A proxy that sends these headers. Header names are case-insensitive.
    pub fn new(user_header: &str, secret_header: &str, secret: &SecretText) -> Self {
        Self {
            user_header: user_header.to_owned(),
            secret_header: secret_header.to_owned(),
            secret: Sha256::digest(secret.expose().as_bytes()).into(),
        }
    }

    /// The user that the proxy names. Checks the proxy's secret first.
    pub(super) fn user<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Unidentified> {
        let mut secrets = headers.get_all(&self.secret_header).iter();
        let secret = secrets.next().ok_or_else(|| self.not_used())?;
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        if !bool::from(digest.ct_eq(&self.secret)) || secrets.next().is_some() {
            return Err(Unidentified::refused("the secret of the proxy is wrong or given twice"));
        }
        let user = one(headers, &self.user_header)
            .map_err(|()| Unidentified::refused("the proxy does not name one user"))?;
        let user = user.ok_or_else(|| self.not_used())?;
        // Some proxies join a repeated header into one value with a comma.
        if !is_name(user) || user.contains(|c: char| c == ',' || c.is_whitespace()) {
            return Err(Unidentified::refused("the proxy does not name one user"));
        }
        Ok(user)
    }

    /// The error for a request that did not come through the proxy.
    fn not_used(&self) -> Unidentified {
        let (user_header, secret_header) = (self.user_header.clone(), self.secret_header.clone());
        Unidentified::NotProxied { user_header, secret_header }
    }
}
