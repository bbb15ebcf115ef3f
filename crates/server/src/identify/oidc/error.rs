//! Errors of signing a user of the console in.

use toolbooth_core::fault::{Blame, Fault};

/// Why a user could not be signed in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The gateway has no client at an identity provider.
    #[error("this gateway does not sign users in at an identity provider")]
    NotConfigured,
    /// The provider does not answer, or its answer is not usable.
    #[error("the identity provider cannot be reached at the moment")]
    Unreachable,
    /// The browser has no record of the sign-in, or the answer belongs to another one.
    #[error("this sign-in was not started in this browser")]
    Foreign,
    /// The sign-in took too long, or was completed before.
    #[error("this sign-in has expired or was completed before")]
    Over,
    /// The provider did not sign the user in.
    #[error("the identity provider did not sign you in (`{error}`)")]
    Denied {
        /// The provider's error code.
        error: String,
    },
    /// The provider did not accept the code or the client.
    #[error("the identity provider refused to complete the sign-in (`{error}`)")]
    CodeRefused {
        /// The provider's error code.
        error: String,
    },
    /// The ID token is missing or not valid.
    #[error("the identity provider's ID token was not accepted")]
    BadIdToken,
}

impl Fault for LoginError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotConfigured => "auth.login-not-configured",
            Self::Unreachable => "auth.provider-unreachable",
            Self::Foreign => "auth.login-foreign",
            Self::Over => "auth.login-over",
            Self::Denied { .. } => "auth.login-denied",
            Self::CodeRefused { .. } => "auth.login-refused",
            Self::BadIdToken => "auth.bad-id-token",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::NotConfigured | Self::Foreign | Self::Over | Self::Denied { .. } => Blame::Caller,
            Self::Unreachable | Self::CodeRefused { .. } | Self::BadIdToken => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotConfigured => {
                "set `auth.mode` to `jwt` and `auth.console.client_id`, or sign in with a token".into()
            }
            Self::Unreachable => "try again in a moment; the gateway's log has the reason".into(),
            Self::Foreign => {
                "sign in again in one browser window, at the address in the setting `public_url`, with cookies enabled"
                    .into()
            }
            Self::Over => "sign in again".into(),
            Self::Denied { .. } => {
                "sign in again, or ask the provider's administrator for access to this application".into()
            }
            Self::CodeRefused { .. } => {
                "sign in again; if it happens each time, check `auth.console.client_id`, `auth.console.client_secret` \
                 and the redirect URI that is registered at the provider"
                    .into()
            }
            Self::BadIdToken => {
                "sign in again; if it happens each time, the gateway's log has the reason".into()
            }
        })
    }
}
