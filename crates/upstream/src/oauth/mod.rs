//! The OAuth client: obtains and keeps the gateway's own tokens for the servers behind it.
//!
//! An [`Authorizer`] belongs to one server. The transport asks it for the current token before each request
//! and passes each refusal to it (401, or 403 `insufficient_scope`). The authorizer does the rest: discovery,
//! registration, consent, refresh and step-up. Nothing is fetched, parsed or kept in memory before a server's
//! first refusal.

mod authorizer;
mod challenge;
mod discovery;
mod enterprise;
mod error;
mod fetch;
mod guard;
mod key;
mod login;
mod method;
mod record;
mod registration;
mod scopes;
mod token;

#[cfg(test)]
mod tests;

pub use authorizer::{Authorizer, RetryDecision, SignInStart, VaultChange};
pub use enterprise::IdentityProvider;
pub use error::{AuthorizeError, HttpError, OAuthError};
pub use guard::NetworkReach;
pub use key::{SigningKey, SigningKeyError};
pub use method::{Assertions, AuthorizationMethod};

use async_trait::async_trait;
use bytes::Bytes;

/// Sends one HTTP request. Follows no redirects, limits the body size, and applies a timeout.
///
/// Each request carries a [`NetworkReach`] in its extensions. Implementations resolve host names themselves,
/// check every address with [`NetworkReach::allows`], and connect to the checked address.
#[async_trait]
pub trait HttpFetch: Send + Sync {
    /// Sends `request` and returns the whole response, with any status.
    async fn fetch(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError>;
}

/// Takes a person to an authorization page and returns the redirect.
#[async_trait]
pub trait Browser: Send + Sync {
    /// Opens `url` and returns the complete redirect URL, which begins with `redirect_uri`.
    async fn authorize(&self, url: &str, redirect_uri: &str) -> Result<String, AuthorizeError>;
}

/// Stores credentials between runs. The values are secrets; an empty value means "deleted".
///
/// One vault holds the credentials of one configured server for one principal: two entries with the same URL
/// can be two accounts. Replicas share it, and so does a login in another process.
#[async_trait]
pub trait TokenVault: Send + Sync {
    /// Loads the value of `key`.
    async fn load(&self, key: &str) -> Option<Bytes>;
    /// Loads the value of `key`, or says why it cannot be read now. For values that are changed: what cannot be read must
    /// not be replaced.
    async fn try_load(&self, key: &str) -> Result<Option<Bytes>, String> {
        Ok(self.load(key).await)
    }
    /// Saves `value` under `key` and replaces the previous value.
    async fn save(&self, key: &str, value: Bytes);
    /// Whether another replica has deleted the value of `key`. A value that cannot be loaded for another reason is not
    /// deleted.
    async fn is_deleted(&self, _key: &str) -> bool {
        false
    }
    /// Waits for the turn to change values that depend on earlier ones; it ends when the guard is dropped. `None` if no
    /// other replica uses the vault; an error if another replica does not end its turn, or the turn cannot be asked for.
    async fn turn(&self) -> Result<Option<VaultTurn>, String> {
        Ok(None)
    }
}

/// Ends a turn at a vault when it is dropped.
pub type VaultTurn = Box<dyn std::any::Any + Send + Sync>;

/// The gateway's identity as an OAuth client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The name on the consent page.
    pub name: String,
    /// The redirect URI.
    pub redirect_uri: String,
    /// The HTTPS URL of the gateway's client metadata document, if it is published.
    pub cimd_url: Option<String>,
}
