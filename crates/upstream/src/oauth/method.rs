//! Authorization methods: a person's consent, or a credential that the gateway holds.

use super::discovery::AuthServer;
use super::error::{AuthorizeError, OAuthError};
use super::fetch::Fetcher;
use super::key::SigningKey;
use super::record::{TokenSet, unix_seconds};
use super::token::{self, TokenGrant, TokenRequest};
use super::{Browser, login};
use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::OAuthEntry;

/// How the gateway obtains tokens.
#[derive(Clone, Default)]
pub enum AuthorizationMethod {
    /// A person gives consent in a browser. For an authorization server for machine clients only, the
    /// configured client id and secret are used.
    #[default]
    Person,
    /// The configured client signs its own assertion (`private_key_jwt`).
    Key(Arc<SigningKey>),
    /// A third party issues assertions for the gateway: a workload platform, or a company's identity
    /// provider.
    Assertion(Arc<dyn Assertions>),
}

/// Issues signed assertions for the gateway (RFC 7523).
#[async_trait]
pub trait Assertions: Send + Sync {
    /// An assertion for the authorization server `issuer`, to be exchanged for a token for `resource`.
    async fn assertion(&self, issuer: &str, resource: &str) -> Result<SecretText, AuthorizeError>;
}

impl AuthorizationMethod {
    /// Whether tokens from `server` can be obtained at any time without a person.
    pub(super) fn is_unattended(&self, server: &AuthServer, entry: &OAuthEntry) -> bool {
        match self {
            Self::Person => server.is_for_machines() && entry.client_secret.is_some(),
            Self::Key(_) | Self::Assertion(_) => true,
        }
    }

    /// Obtains tokens; a person is asked through `browser`.
    pub(super) async fn obtain(
        &self,
        fetcher: &Fetcher<'_>,
        browser: Option<&dyn Browser>,
        token_request: &TokenRequest<'_>,
    ) -> Result<TokenSet, OAuthError> {
        let TokenRequest { server, client, resource, scopes, clock } = token_request;
        let request = |grant| token::request(fetcher, token_request, grant);
        match self {
            Self::Key(key) => {
                let assertion = key.client_assertion(&client.id, &server.issuer, unix_seconds(clock))?;
                request(TokenGrant::SignedCredentials { scopes, assertion: assertion.expose() }).await
            }
            Self::Assertion(source) => {
                let assertion = source.assertion(&server.issuer, resource).await?;
                request(TokenGrant::Assertion { scopes, assertion: assertion.expose() }).await
            }
            Self::Person if server.is_for_machines() && client.secret.is_some() => {
                request(TokenGrant::Credentials(scopes)).await
            }
            Self::Person => {
                let browser =
                    browser.ok_or_else(|| OAuthError::NeedsLogin { server: fetcher.guard.origin() })?;
                let code = login::ask(browser, server, client, resource, scopes).await?;
                request(TokenGrant::Code { code: &code.code, verifier: &code.verifier }).await
            }
        }
    }
}
