//! Errors of identifying a caller.

use super::metadata::{CredentialState, Resource};
use super::refusal_reason::RefusalReason;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use toolbooth_core::fault::{Blame, Fault};

/// A caller could not be identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// The request has no credential.
    #[error("this gateway requires a credential")]
    Missing,
    /// The request did not come through the proxy that names its user.
    #[error("this gateway requires a trusted proxy that names the user")]
    NotProxied {
        /// The header with the user's name.
        user_header: String,
        /// The header with the proxy's secret.
        secret_header: String,
    },
    /// The credential is not valid.
    #[error("the credential was not accepted{}", suffix(.0))]
    Refused(RefusalReason),
    /// Too many bad credentials came from one address.
    #[error("too many invalid credentials were sent from your address")]
    Throttled {
        /// How long to wait.
        seconds: u64,
    },
    /// The peer is another local user than the one who runs the gateway.
    #[error("this gateway only serves the user who runs it")]
    OtherUser,
    /// The identity provider or the token store cannot be reached.
    #[error("the gateway cannot check credentials at the moment")]
    Unavailable,
    /// The persona does not exist, or this caller may not use it.
    #[error("persona `{name}` does not exist or you may not use it")]
    Persona {
        /// The requested name.
        name: String,
    },
}

/// The reason that the client may know, for the end of the message.
fn suffix(reason: &RefusalReason) -> String {
    reason.for_client().map(|why| format!(": {why}")).unwrap_or_default()
}

impl Unidentified {
    /// Why the credential was refused, if the client may know it.
    pub(crate) fn reason_for_client(&self) -> Option<&'static str> {
        match self {
            Self::Refused(reason) => reason.for_client(),
            _ => None,
        }
    }

    /// A refused credential that is not a signed token; the reason is for the log only.
    pub(crate) fn refused(why: &'static str) -> Self {
        Self::Refused(RefusalReason::Other(why))
    }

    /// The persona does not exist, or this caller may not use it.
    pub(crate) fn persona(name: &str) -> Self {
        Self::Persona { name: name.chars().take(64).collect() }
    }

    /// The name of the persona is not readable.
    pub(crate) fn unreadable_persona() -> Self {
        Self::Persona { name: "?".into() }
    }

    /// Sets the response headers for a rejected request to `path`.
    pub fn set_response_headers(
        &self,
        resource: &Resource,
        request: &HeaderMap,
        path: &str,
        headers: &mut HeaderMap,
    ) {
        let credential = match self {
            Self::Missing => CredentialState::Missing,
            Self::Refused(reason) => CredentialState::Invalid(reason.for_client()),
            Self::Unavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
                return;
            }
            Self::Throttled { seconds } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
                return;
            }
            Self::Persona { .. } | Self::OtherUser | Self::NotProxied { .. } => return,
        };
        let challenge = resource.challenge(request, path, credential);
        if let Some(value) = challenge.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(WWW_AUTHENTICATE, value);
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::NotProxied { .. } | Self::Refused(_) => StatusCode::UNAUTHORIZED,
            Self::Persona { .. } | Self::OtherUser => StatusCode::FORBIDDEN,
            Self::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Fault for Unidentified {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing | Self::NotProxied { .. } => "auth.required",
            Self::Refused(_) => "auth.refused",
            Self::Throttled { .. } => "auth.too-many-attempts",
            Self::OtherUser => "auth.other-user",
            Self::Unavailable => "auth.unavailable",
            Self::Persona { .. } => "persona.unknown",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Unavailable => Blame::Gateway,
            _ => Blame::Caller,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing => {
                "send `Authorization: Bearer TOKEN`; on the command line, run `toolbooth login`, or set TOOLBOOTH_TOKEN"
                    .into()
            }
            Self::NotProxied { user_header, secret_header } => format!(
                "send the request through the proxy, which sets `{user_header}` and `{secret_header}`; \
                 on the gateway's own machine, use the command line without TOOLBOOTH_URL"
            ),
            Self::Refused(_) => {
                "it may have expired or been revoked; ask the gateway's administrator for a new one".into()
            }
            Self::Throttled { seconds } => format!("wait {seconds} s; valid credentials still work"),
            Self::OtherUser => {
                "run your own gateway, or ask its user to set `auth.local_users: any` or another `auth.mode`"
                    .into()
            }
            Self::Unavailable => "try again later; the gateway's log has the reason".into(),
            Self::Persona { .. } => {
                "omit the persona, or ask the gateway's administrator for access to it".into()
            }
        })
    }
}
