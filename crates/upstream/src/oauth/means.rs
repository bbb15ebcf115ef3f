//! By what means a token is obtained: a person who agrees, or something the gateway holds itself.

use super::discovery::AuthServer;
use super::error::{AuthorizeError, OAuthError};
use super::fetch::Fetcher;
use super::key::SigningKey;
use super::record::{Client, Tokens};
use super::scopes::Scopes;
use super::token::{self, Grant};
use super::{Browser, login};
use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::OAuthEntry;

/// By what means the gateway authorizes itself.
#[derive(Clone, Default)]
pub enum Means {
    /// A person agrees in a browser. Where an authorization server is made for machines alone, the configured
    /// client id and secret speak for themselves.
    #[default]
    Person,
    /// The configured client signs for itself (`private_key_jwt`).
    Key(Arc<SigningKey>),
    /// Someone else vouches for the gateway: a workload's platform, or a company's identity provider.
    Assertion(Arc<dyn Assertions>),
}

/// Vouches for the gateway by signed assertions (RFC 7523).
#[async_trait]
pub trait Assertions: Send + Sync {
    /// An assertion for the authorization server `issuer`, to be traded for a token for `resource`.
    async fn assertion(&self, issuer: &str, resource: &str) -> Result<SecretText, AuthorizeError>;
}

/// What an authorization is about.
pub(super) struct Wish<'a> {
    pub(super) server: &'a AuthServer,
    pub(super) client: &'a Client,
    pub(super) resource: &'a str,
    pub(super) scopes: &'a Scopes,
}

impl Means {
    /// Whether tokens from `server` can be had at any time, without anyone's attention.
    pub(super) fn are_unattended(&self, server: &AuthServer, entry: &OAuthEntry) -> bool {
        match self {
            Self::Person => server.is_for_machines() && entry.client_secret.is_some(),
            Self::Key(_) | Self::Assertion(_) => true,
        }
    }

    /// Obtains tokens for `wish`; a person is asked through `browser`.
    pub(super) async fn obtain(
        &self,
        fetcher: &Fetcher<'_>,
        browser: Option<&dyn Browser>,
        wish: &Wish<'_>,
    ) -> Result<Tokens, OAuthError> {
        let Wish { server, client, resource, scopes } = wish;
        let request = |grant| token::request(fetcher, server, client, resource, grant);
        match self {
            Self::Key(key) => {
                let assertion = key.client_assertion(&client.id, &server.issuer)?;
                request(Grant::SignedCredentials { scopes, assertion: assertion.expose() }).await
            }
            Self::Assertion(source) => {
                let assertion = source.assertion(&server.issuer, resource).await?;
                request(Grant::Assertion { scopes, assertion: assertion.expose() }).await
            }
            Self::Person if server.is_for_machines() && client.secret.is_some() => {
                request(Grant::Credentials(scopes)).await
            }
            Self::Person => {
                let browser =
                    browser.ok_or_else(|| OAuthError::NeedsLogin { server: fetcher.guard.origin() })?;
                let code = login::ask(browser, server, client, resource, scopes).await?;
                request(Grant::Code { code: &code.code, verifier: &code.verifier }).await
            }
        }
    }
}
