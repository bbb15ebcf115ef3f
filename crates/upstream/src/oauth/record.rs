//! The records that are stored between runs, and their keys.
//!
//! Registrations are keyed by issuer, and tokens by issuer and resource, so that nothing issued by one
//! authorization server, or for one resource, can be used for another.

use super::TokenVault;
use super::guard::origin_of;
use super::scopes::Scopes;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use toolbooth_core::clock::Clock;

/// The origin of a server's current tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenOrigin {
    pub(super) issuer: String,
    pub(super) resource: String,
    /// The client id that was used; a configured one stays bound to `issuer`.
    pub(super) client_id: String,
    /// All scopes requested so far.
    pub(super) requested: Scopes,
    /// Whether the tokens can be obtained again at any time without a person.
    #[serde(default)]
    pub(super) unattended: bool,
}

/// A client registration at one authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OAuthClient {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) auth: ClientAuth,
    /// The registered redirect URI.
    pub(super) redirect_uri: String,
    /// Expiry of the secret, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuth {
    /// It does not; PKCE protects the code.
    None,
    /// `client_secret_basic`.
    Basic,
    /// `client_secret_post`.
    Post,
}

/// The tokens of one issuer for one resource.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSet {
    pub(super) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// When to renew the access token, in Unix seconds; absent means that it is used until refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renew_at: Option<u64>,
}

impl TokenSet {
    /// Whether the access token may still be used.
    pub(super) fn is_fresh(&self, clock: &Clock) -> bool {
        self.renew_at.is_none_or(|renew_at| unix_seconds(clock) < renew_at)
    }
}

impl fmt::Debug for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSet").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient").field("id", &self.id).field("auth", &self.auth).finish_non_exhaustive()
    }
}

/// Seconds since 1970, which stay meaningful after a restart.
pub(super) fn unix_seconds(clock: &Clock) -> u64 {
    clock.wall().as_secs()
}

/// Typed access to a vault.
pub(super) struct Records<'a>(pub(super) &'a dyn TokenVault);

impl Records<'_> {
    pub(super) async fn origin(&self, server: &str) -> Option<TokenOrigin> {
        self.load(&token_origin_key(server)).await
    }

    pub(super) async fn keep_origin(&self, server: &str, origin: &TokenOrigin) {
        self.keep(&token_origin_key(server), origin).await;
    }

    pub(super) async fn forget_origin(&self, server: &str) {
        self.0.save(&token_origin_key(server), Bytes::new()).await;
    }

    pub(super) async fn client(&self, issuer: &str) -> Option<OAuthClient> {
        self.load(&client_key(issuer)).await
    }

    pub(super) async fn keep_client(&self, issuer: &str, client: &OAuthClient) {
        self.keep(&client_key(issuer), client).await;
    }

    pub(super) async fn forget_client(&self, issuer: &str) {
        self.0.save(&client_key(issuer), Bytes::new()).await;
    }

    pub(super) async fn tokens(&self, issuer: &str, resource: &str) -> Option<TokenSet> {
        self.load(&tokens_key(issuer, resource)).await
    }

    pub(super) async fn keep_tokens(&self, issuer: &str, resource: &str, tokens: &TokenSet) {
        self.keep(&tokens_key(issuer, resource), tokens).await;
    }

    pub(super) async fn forget_tokens(&self, issuer: &str, resource: &str) {
        self.0.save(&tokens_key(issuer, resource), Bytes::new()).await;
    }

    async fn load<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        // An unreadable record counts as absent: the worst consequence is another login.
        self.0.load(key).await.and_then(|bytes| serde_json::from_slice(&bytes).ok())
    }

    async fn keep<T: Serialize>(&self, key: &str, record: &T) {
        if let Ok(bytes) = serde_json::to_vec(record) {
            self.0.save(key, bytes.into()).await;
        }
    }
}

// URLs contain no spaces, so keys are unambiguous.
pub(super) fn token_origin_key(server: &str) -> String {
    // The URL may contain secrets, and keys are less protected than values.
    let digest = Sha256::digest(server.as_bytes());
    // Stored tokens of earlier versions have this key, too.
    format!("oauth/trail {} {}", origin_of(server), URL_SAFE_NO_PAD.encode(&digest[..16]))
}

fn client_key(issuer: &str) -> String {
    format!("oauth/client {issuer}")
}

fn tokens_key(issuer: &str, resource: &str) -> String {
    format!("oauth/tokens {issuer} {resource}")
}
