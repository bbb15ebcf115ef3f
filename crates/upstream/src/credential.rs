//! The credential for a server: the gateway's own, or one that a user has stored for their own calls. Nothing else a
//! caller sent can become one.

mod user_keys;

pub use user_keys::{KeyChange, MAX_KEY_BYTES, UserKeyError, UserKeyStatus, UserKeys};

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
    /// The keys of all users. Nothing is sent with it: each connection has the credential of one user.
    UserKeys(Arc<UserKeys>),
    /// The key of one user, as a header.
    OfUser(HeaderName, HeaderValue),
}

impl fmt::Debug for ServerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(..) => "Fixed(..)",
            Self::OAuth(_) => "OAuth(..)",
            Self::UserKeys(_) => "UserKeys(..)",
            Self::OfUser(..) => "OfUser(..)",
        })
    }
}

impl ServerCredential {
    /// The credential of a configuration; `None` if the value is not valid in a header. OAuth and users' keys are set up
    /// elsewhere because they need a vault.
    pub fn fixed(auth: &OutboundAuth) -> Option<Self> {
        let (name, text) = match auth {
            OutboundAuth::None | OutboundAuth::OAuth(_) | OutboundAuth::UserKey(_) => {
                return Some(Self::None);
            }
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
            Self::None | Self::UserKeys(_) => None,
            Self::Fixed(name, value) | Self::OfUser(name, value) => Some((name.clone(), value.clone())),
            Self::OAuth(authorizer) => {
                // Boxed: most servers need no token, and the large future would be part of every call.
                let token = Box::pin(authorizer.bearer()).await?;
                let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose())).ok()?;
                value.set_sensitive(true);
                Some((AUTHORIZATION, value))
            }
        }
    }

    /// OAuth tokens to mask in everything the server sends. Configured secrets and users' keys are masked separately.
    pub(crate) fn secrets(&self) -> [KnownSecrets; 2] {
        match self {
            Self::OAuth(authorizer) => authorizer.secrets(),
            Self::None | Self::Fixed(..) | Self::UserKeys(_) | Self::OfUser(..) => Default::default(),
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
            Self::UserKeys(_) | Self::OfUser(..) => Remedy::GiveKey,
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
            Self::None | Self::Fixed(..) | Self::UserKeys(_) | Self::OfUser(..) => None,
        }
    }
}
