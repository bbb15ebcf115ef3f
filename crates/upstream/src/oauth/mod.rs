//! OAuth as a client: how the gateway obtains and keeps its own tokens for the servers behind it.
//!
//! An [`Authorizer`] belongs to one server. The transport asks it for the current token before each request
//! and shows it each refusal (401, or 403 `insufficient_scope`); everything else happens in here: finding the
//! authorization server, registering, sending a person to agree, refreshing, stepping up.
//! Nothing is fetched, parsed or kept in memory before a server first refuses.

mod authorizer;
mod challenge;
mod discovery;
mod enterprise;
mod error;
mod fetch;
mod guard;
mod key;
mod login;
mod means;
mod record;
mod registration;
mod scopes;
mod token;

#[cfg(test)]
mod tests;

pub use authorizer::{Authorizer, Next, SignIn};
pub use enterprise::IdentityProvider;
pub use error::{AuthorizeError, HttpError, OAuthError};
pub use guard::Reach;
pub use key::{KeyError, SigningKey};
pub use means::{Assertions, Means};

use async_trait::async_trait;
use bytes::Bytes;

/// Sends one HTTP request. It follows no redirect, bounds the body, and applies a deadline.
///
/// Each request carries a [`Reach`] in its extensions. Names are resolved here, not by the caller, so an
/// implementation checks every resolved address with [`Reach::allows`] and connects to the address it checked.
#[async_trait]
pub trait Http: Send + Sync {
    /// Sends `request` and gives the whole answer, whatever its status.
    async fn fetch(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError>;
}

/// Takes a person to an authorization page and brings back where the page sent them.
#[async_trait]
pub trait Browser: Send + Sync {
    /// Opens `url` and returns the complete redirect, a URL that begins with `redirect_uri`.
    async fn authorize(&self, url: &str, redirect_uri: &str) -> Result<String, AuthorizeError>;
}

/// Keeps credentials between runs. The values are secrets; an empty value means "forgotten".
///
/// One vault holds the credentials of one configured server for one principal: two entries with the same address
/// can stand for two accounts. Replicas share it, and so does a login that happens in another process.
#[async_trait]
pub trait TokenVault: Send + Sync {
    /// What was saved under `key`.
    async fn load(&self, key: &str) -> Option<Bytes>;
    /// Saves `value` under `key`, replacing what was there.
    async fn save(&self, key: &str, value: Bytes);
}

/// How the gateway presents itself to authorization servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The name that people read on the consent page.
    pub name: String,
    /// Where the authorization page sends the person back to.
    pub redirect_uri: String,
    /// An HTTPS address where the gateway's client metadata document is published, if there is one.
    pub cimd_url: Option<String>,
}
