//! Enterprise-Managed Authorization: exchanges an ID token at a company's identity provider for an assertion
//! to a server's authorization server.

use super::HttpFetch;
use super::error::AuthorizeError;
use super::fetch::{Fetcher, PostBody};
use super::guard::{NetworkReach, UrlGuard};
use super::method::Assertions;
use async_trait::async_trait;
use serde::Deserialize;
use std::sync::Arc;
use toolbooth_core::secret::SecretText;
use tracing::debug;
use url::form_urlencoded::Serializer;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// An identity provider that knows the person on whose behalf the gateway acts.
pub struct IdentityProvider {
    /// Its token exchange endpoint.
    pub token_endpoint: String,
    /// The gateway's client id there.
    pub client_id: String,
    /// The person's ID token, issued to that client.
    pub id_token: SecretText,
    /// The HTTP client.
    pub http: Arc<dyn HttpFetch>,
}

#[derive(Deserialize)]
struct TokenExchangeResponse {
    access_token: String,
    issued_token_type: String,
}

#[async_trait]
impl Assertions for IdentityProvider {
    async fn assertion(&self, issuer: &str, resource: &str) -> Result<SecretText, AuthorizeError> {
        let form = Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("requested_token_type", ASSERTION_TYPE)
            .append_pair("audience", issuer)
            .append_pair("resource", resource)
            .append_pair("subject_token", self.id_token.expose())
            .append_pair("subject_token_type", "urn:ietf:params:oauth:token-type:id_token")
            .append_pair("client_id", &self.client_id)
            .finish();
        // The operator configured the provider, so its own location determines the allowed addresses.
        let refused = |error: &dyn std::fmt::Display| {
            debug!(%error, "the identity provider issued no assertion");
            AuthorizeError::NoAssertion
        };
        let guard = UrlGuard::new(&self.token_endpoint, Some(NetworkReach::Public))
            .map_err(|error| refused(&error))?;
        let fetcher = Fetcher { http: &*self.http, guard: &guard };
        let answer =
            fetcher.post("identity provider", &self.token_endpoint, PostBody::Form(form), None).await;
        let answer = answer.map_err(|error| refused(&error))?;
        match answer.json::<TokenExchangeResponse>() {
            Some(exchanged)
                if answer.status.is_success() && exchanged.issued_token_type == ASSERTION_TYPE =>
            {
                Ok(SecretText::expanded("${id_jag}", exchanged.access_token))
            }
            _ => Err(refused(&answer.status)),
        }
    }
}
