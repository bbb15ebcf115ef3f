//! Obtains new tokens for a server without a person: with the refresh token, or with the gateway's own credential.

use super::super::discovery::{self, AuthServer};
use super::super::error::{OAuthError, clip};
use super::super::fetch::Fetcher;
use super::super::guard::UrlGuard;
use super::super::record::{Records, TokenSet};
use super::super::registration::{client_for, client_of};
use super::super::token::{self, TokenGrant};
use super::{Authorizer, Flow, Login, is_about_the_client};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::debug;

/// A token that was just renewed and is refused again is not renewed again.
const RENEWAL_PAUSE: Duration = Duration::from_secs(60);

impl Authorizer {
    /// Renews the current token before a call, and discovers its authorization server again if necessary.
    pub(super) async fn renew_for_call(&self, flow: &mut Flow) -> Result<Arc<Login>, OAuthError> {
        let login = self.login().ok_or_else(|| OAuthError::NeedsLogin { server: self.name() })?;
        let guard = UrlGuard::new(&self.server, self.reach)?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let server = match flow.server.take().filter(|server| server.issuer == login.origin.issuer) {
            Some(server) => server,
            None => discovery::describe(&fetcher, &login.origin.issuer).await?,
        };
        flow.server = Some(server.clone());
        // This token has expired, so a recent renewal is not a reason to refuse another.
        flow.renewed = None;
        if login.tokens.refresh.is_none() && login.origin.unattended {
            return self.obtain_again(&fetcher, &server, &login).await;
        }
        self.renew(flow, &fetcher, &server, &login).await
    }

    /// Obtains expired tokens again, if that needs no person.
    async fn obtain_again(
        &self,
        fetcher: &Fetcher<'_>,
        server: &AuthServer,
        login: &Login,
    ) -> Result<Arc<Login>, OAuthError> {
        if !self.method.is_unattended(server, &self.entry) {
            return Err(OAuthError::NeedsLogin { server: self.name() });
        }
        let records = Records(&*self.vault);
        let client = client_for(server, &self.entry, &self.identity, fetcher, &records, &self.clock).await?;
        let origin = login.origin.clone();
        let token_request = self.token_request(server, &client, &origin);
        let tokens = self.obtain(fetcher, &token_request).await?;
        Ok(self.keep(origin, tokens).await)
    }

    /// Exchanges the refresh token for new tokens; `TokenRefused` if it does not exist or cannot be used.
    pub(super) async fn renew(
        &self,
        flow: &mut Flow,
        fetcher: &Fetcher<'_>,
        server: &AuthServer,
        login: &Login,
    ) -> Result<Arc<Login>, OAuthError> {
        let refused =
            |error: &str| OAuthError::TokenRefused { issuer: clip(&server.issuer), error: error.into() };
        let refresh = login.tokens.refresh.as_deref().ok_or_else(|| refused("no refresh token"))?;
        if flow.renewed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return Err(refused("just renewed"));
        }
        let records = Records(&*self.vault);
        let client = client_of(server, &self.entry, &self.identity, &records, &self.clock).await;
        let client = client
            .filter(|client| client.id == login.origin.client_id)
            .ok_or_else(|| refused("the refresh token belongs to another client"))?;
        flow.renewed = Some(Instant::now());
        let origin = login.origin.clone();
        let token_request = self.token_request(server, &client, &origin);
        match token::request(fetcher, &token_request, TokenGrant::Refresh(refresh)).await {
            Ok(mut tokens) => {
                // If the authorization server does not rotate refresh tokens, the old one stays valid.
                tokens.refresh = tokens.refresh.or_else(|| login.tokens.refresh.clone());
                debug!("the token for {} was renewed", self.name());
                Ok(self.keep(origin, tokens).await)
            }
            Err(OAuthError::TokenRefused { issuer, error }) => {
                if is_about_the_client(&error) {
                    records.forget_client(&server.issuer).await;
                }
                // It will not be accepted later either, and must not be tried before every call.
                self.keep(origin, TokenSet { refresh: None, ..login.tokens.clone() }).await;
                Err(OAuthError::TokenRefused { issuer, error })
            }
            Err(error) => Err(error),
        }
    }
}
