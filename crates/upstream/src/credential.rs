//! The gateway's own credential for a server. Nothing a caller sent can become one.

use crate::error::Remedy;
use crate::oauth::{Authorizer, OAuthError, RetryDecision};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::OutboundAuth;

/// The credential for a server.
#[derive(Clone, Default)]
pub enum ServerCredential {
    /// No credential.
    #[default]
    None,
    /// A fixed header.
    Fixed(HeaderName, HeaderValue),
    /// OAuth tokens, renewed when they expire or are refused.
    OAuth(Arc<Authorizer>),
}

impl fmt::Debug for ServerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(..) => "Fixed(..)",
            Self::OAuth(_) => "OAuth(..)",
        })
    }
}

impl ServerCredential {
    /// The credential of a configuration; `None` if the value is not valid in a header. OAuth is set up
    /// elsewhere because it needs a vault.
    pub fn fixed(auth: &OutboundAuth) -> Option<Self> {
        let (name, text) = match auth {
            OutboundAuth::None | OutboundAuth::OAuth(_) => return Some(Self::None),
            OutboundAuth::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose())),
            OutboundAuth::ApiKey { header, key } => {
                (HeaderName::from_bytes(header.as_bytes()).ok()?, key.expose().to_owned())
            }
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(Self::Fixed(name, value))
    }

    /// The header with the credential, if there is one.
    pub async fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::None => None,
            Self::Fixed(name, value) => Some((name.clone(), value.clone())),
            Self::OAuth(authorizer) => {
                // Boxed: most servers need no token, and the large future would be part of every call.
                let token = Box::pin(authorizer.bearer()).await?;
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
                value.set_sensitive(true);
                Some((AUTHORIZATION, value))
            }
        }
    }

    /// OAuth tokens to mask in everything the server sends. Configured secrets are masked separately.
    pub(crate) fn secrets(&self) -> [KnownSecrets; 2] {
        match self {
            Self::None | Self::Fixed(..) => Default::default(),
            Self::OAuth(authorizer) => authorizer.secrets(),
        }
    }

    /// Adds the credential to a request.
    pub async fn apply(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.header().await {
            headers.insert(name, value);
        }
    }

    /// Whether a challenge can be answered.
    pub fn can_renew(&self) -> bool {
        matches!(self, Self::OAuth(_))
    }

    /// What fixes a refused credential.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::OAuth(_) => Remedy::SignIn,
            Self::None | Self::Fixed(..) => Remedy::Configure,
        }
    }

    /// Answers a challenge; `None` if that is not possible.
    pub async fn challenged(&self, status: u16, challenge: Option<&str>) -> Option<RetryDecision> {
        match self {
            Self::OAuth(authorizer) => match Box::pin(authorizer.challenged(status, challenge)).await {
                Ok(next) => Some(next),
                // This is a state rather than a failure, and the state is shown.
                Err(OAuthError::NeedsLogin { .. }) => None,
                Err(error) => {
                    tracing::warn!("authorization failed: {error}");
                    None
                }
            },
            Self::None | Self::Fixed(..) => None,
        }
    }
}
