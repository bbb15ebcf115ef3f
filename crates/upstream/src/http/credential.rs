//! The gateway's own credential toward a server. Nothing a caller sent can become one.

use crate::error::Remedy;
use crate::oauth::{Authorizer, Next, OAuthError};
use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_core::server::OutboundAuth;

/// What is shown to a server.
#[derive(Clone, Default)]
pub enum Credential {
    /// Nothing.
    #[default]
    None,
    /// The same header every time.
    Fixed(HeaderName, HeaderValue),
    /// Tokens that are obtained, refreshed and renewed after a challenge.
    OAuth(Arc<Authorizer>),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(..) => "Fixed(..)",
            Self::OAuth(_) => "OAuth(..)",
        })
    }
}

impl Credential {
    /// The credential of a configuration; `None` for a value no header can hold. OAuth is set up
    /// elsewhere, as it needs a vault.
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

    /// The header that shows the credential; nothing, where there is none to show.
    pub async fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::None => None,
            Self::Fixed(name, value) => Some((name.clone(), value.clone())),
            Self::OAuth(authorizer) => {
                // Boxed, as most servers want no token: every call would carry the room for getting one.
                let token = Box::pin(authorizer.bearer()).await?;
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
                value.set_sensitive(true);
                Some((AUTHORIZATION, value))
            }
        }
    }

    /// What a server must not repeat of it, beyond what its configuration says.
    pub(crate) fn secrets(&self) -> [KnownSecrets; 2] {
        match self {
            Self::None | Self::Fixed(..) => Default::default(),
            Self::OAuth(authorizer) => authorizer.secrets(),
        }
    }

    /// Puts the credential on a request.
    pub async fn apply(&self, headers: &mut HeaderMap) {
        if let Some((name, value)) = self.header().await {
            headers.insert(name, value);
        }
    }

    /// Whether a challenge can be answered at all.
    pub fn can_ask(&self) -> bool {
        matches!(self, Self::OAuth(_))
    }

    /// What would help against a refusal.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::OAuth(_) => Remedy::SignIn,
            Self::None | Self::Fixed(..) => Remedy::Configure,
        }
    }

    /// Answers a challenge; `None` when there is no way to.
    pub async fn challenged(&self, status: u16, challenge: Option<&str>) -> Option<Next> {
        match self {
            Self::OAuth(authorizer) => match Box::pin(authorizer.challenged(status, challenge)).await {
                Ok(next) => Some(next),
                // That is no failure but a state, and the state is shown.
                Err(OAuthError::NeedsLogin { .. }) => None,
                Err(error) => {
                    tracing::warn!("authorisation failed: {error}");
                    None
                }
            },
            Self::None | Self::Fixed(..) => None,
        }
    }
}
