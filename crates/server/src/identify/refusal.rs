//! Why somebody is not let in. What exactly was wrong with a credential is nobody's business but the log's.

use super::metadata::{Resource, Shown};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use toolbooth_core::fault::{Blame, Fault};

/// Somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unidentified {
    /// Nothing was shown.
    #[error("this gateway needs to know who calls")]
    Missing,
    /// What was shown does not count.
    #[error("the credential was not accepted")]
    Refused,
    /// Too many bad credentials came from the same address.
    #[error("too many bad credentials came from your address")]
    Throttled {
        /// How long to wait.
        seconds: u64,
    },
    /// Another user of the machine than the one who runs the gateway.
    #[error("this gateway is for the user who runs it")]
    OtherUser,
    /// Whoever could say cannot be asked.
    #[error("who calls cannot be found out at the moment")]
    Unavailable,
    /// No such persona for this caller, whether or not there is one for others.
    #[error("there is no persona `{name}` for you")]
    Persona {
        /// The name that was asked for.
        name: String,
    },
}

impl Unidentified {
    /// No such persona for this caller.
    pub(crate) fn persona(name: &str) -> Self {
        Self::Persona { name: name.chars().take(64).collect() }
    }

    /// A persona was named in a way that cannot be read.
    pub(crate) fn unreadable_persona() -> Self {
        Self::Persona { name: "?".into() }
    }

    /// Writes the headers that belong to the refusal of a request to `path`.
    pub fn stamp(&self, resource: &Resource, request: &HeaderMap, path: &str, headers: &mut HeaderMap) {
        let shown = match self {
            Self::Missing => Shown::Nothing,
            Self::Refused => Shown::Unacceptable,
            Self::Unavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
                return;
            }
            Self::Throttled { seconds } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
                return;
            }
            Self::Persona { .. } | Self::OtherUser => return,
        };
        let challenge = resource.challenge(request, path, shown);
        if let Some(value) = challenge.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(WWW_AUTHENTICATE, value);
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Refused => StatusCode::UNAUTHORIZED,
            Self::Persona { .. } | Self::OtherUser => StatusCode::FORBIDDEN,
            Self::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Fault for Unidentified {
    fn code(&self) -> &'static str {
        match self {
            Self::Missing => "auth.required",
            Self::Refused => "auth.refused",
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
                "send `Authorization: Bearer TOKEN`; the command line takes TOOLBOOTH_TOKEN".into()
            }
            Self::Refused => "it may have expired or been taken back; ask whoever runs the gateway".into(),
            Self::Throttled { seconds } => format!("wait {seconds} s; a credential that was good before still is"),
            Self::OtherUser => {
                "run a gateway of your own, or ask its user for `auth.local_users: any` or another `auth.mode`".into()
            }
            Self::Unavailable => "try again; whoever runs the gateway finds the reason in its log".into(),
            Self::Persona { .. } => "leave the persona out, or ask whoever runs the gateway for it".into(),
        })
    }
}
