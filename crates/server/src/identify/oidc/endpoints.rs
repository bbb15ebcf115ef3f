//! The endpoints of the provider, from the metadata of the issuer.

use super::error::LoginError;
use super::{OidcClient, REQUEST_TIMEOUT};
use crate::identify::issuer;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_upstream::oauth::NetworkReach;
use url::Url;

/// The endpoints are looked up again after this time.
const FRESH: Duration = Duration::from_secs(600);
/// Endpoints that could not be looked up again are used for this long.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// How long requests do not wait for a provider that failed to answer.
const SILENCE: Duration = Duration::from_secs(5);

/// The endpoints that were looked up last.
#[derive(Default)]
pub(super) struct KnownEndpoints {
    endpoints: Option<(Arc<ProviderEndpoints>, Instant)>,
    failed: Option<Instant>,
}

/// The endpoints of the provider.
pub(super) struct ProviderEndpoints {
    pub(super) authorization: Url,
    pub(super) token: (Url, NetworkReach),
    pub(super) end_session: Option<Url>,
    pub(super) secret_in: SecretPlace,
    /// Whether the provider names itself in each answer (RFC 9207).
    pub(super) answers_with_issuer: bool,
}

/// Where the client secret is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretPlace {
    /// In the header `Authorization`.
    Header,
    /// In the form.
    Body,
}

/// The metadata of a provider.
#[derive(Deserialize)]
struct ProviderMetadata {
    authorization_endpoint: String,
    token_endpoint: String,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl OidcClient {
    /// The endpoints of the provider. One lookup at a time; the others wait for it.
    pub(super) async fn endpoints(&self) -> Result<Arc<ProviderEndpoints>, LoginError> {
        let mut known = self.known.lock().await;
        let usable = |limit: Duration| {
            known.endpoints.as_ref().filter(|(_, at)| at.elapsed() < limit).map(|(found, _)| found.clone())
        };
        if let Some(fresh) = usable(FRESH) {
            return Ok(fresh);
        }
        let stale = usable(STALE);
        if known.failed.is_some_and(|failed| failed.elapsed() < SILENCE) {
            return stale.ok_or(LoginError::Unreachable);
        }
        let found = tokio::time::timeout(REQUEST_TIMEOUT, self.discover()).await;
        match found.unwrap_or_else(|_| Err("it did not answer in time".into())) {
            Ok(endpoints) => {
                let endpoints = Arc::new(endpoints);
                *known =
                    KnownEndpoints { endpoints: Some((endpoints.clone(), Instant::now())), failed: None };
                Ok(endpoints)
            }
            Err(why) => {
                tracing::warn!("the endpoints of the identity provider could not be looked up: {why}");
                known.failed = Some(Instant::now());
                stale.ok_or(LoginError::Unreachable)
            }
        }
    }

    /// Looks the endpoints up, and returns why they cannot be used.
    pub(in crate::identify) async fn check_endpoints(&self) -> Result<(), String> {
        self.discover().await.map(drop)
    }

    async fn discover(&self) -> Result<ProviderEndpoints, String> {
        let of_issuer = &self.settings.issuer;
        let found: ProviderMetadata = issuer::metadata(&*self.http, of_issuer).await?;
        let methods = found.code_challenge_methods_supported;
        if methods.is_some_and(|methods| methods.iter().all(|method| method != "S256")) {
            return Err("it does not support PKCE with S256".into());
        }
        let checked = |name, url: &str| issuer::endpoint(of_issuer, name, url);
        let secret_in = match found.token_endpoint_auth_methods_supported {
            Some(methods) if methods.iter().all(|method| method != "client_secret_basic") => {
                SecretPlace::Body
            }
            _ => SecretPlace::Header,
        };
        let end_session = found.end_session_endpoint.as_deref();
        Ok(ProviderEndpoints {
            authorization: checked("authorization_endpoint", &found.authorization_endpoint)?.0,
            token: checked("token_endpoint", &found.token_endpoint)?,
            end_session: end_session
                .and_then(|url| checked("end_session_endpoint", url).ok())
                .map(|(url, _)| url),
            secret_in,
            answers_with_issuer: found.authorization_response_iss_parameter_supported,
        })
    }
}
