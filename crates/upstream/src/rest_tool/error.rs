//! Errors between the gateway and an HTTP service.

use crate::error::SentStatus;
use crate::oauth::HttpError;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};

/// An invalid template. Its text is not repeated, because it may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is not a URL.
    #[error("`url` is not an http or https URL")]
    NotAnAddress,
    /// An argument would choose the target.
    #[error("`url` has an argument in its scheme, host or port")]
    HostFromArgument,
    /// It contains a user name or a password.
    #[error("`url` contains a user name; put credentials into `headers`")]
    UserInfo,
    /// An argument would choose the name of a parameter.
    #[error("`url` has an argument in the name of a parameter")]
    QueryName,
    /// A header that cannot be sent.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
}

/// A request to a service failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// The arguments do not form a valid request.
    #[error("the request cannot be built: {what}")]
    BadRequest {
        /// What is wrong.
        what: String,
    },
    /// The host name resolves to an address that is not allowed.
    #[error("the service's host name resolves to an address that is not allowed")]
    Blocked,
    /// The request was not sent.
    #[error("the service cannot be reached: {reason}")]
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// The connection was lost.
    #[error("the service disconnected during the call: {reason}")]
    Lost {
        /// The reason.
        reason: String,
    },
    /// The service redirects to another origin, too often, or for a request that is not safe to repeat.
    #[error("the service redirects the request, which is not followed")]
    Redirected,
    /// The rate limit was exceeded.
    #[error("the service limits the request rate (HTTP 429)")]
    RateLimited {
        /// When it accepts requests again.
        retry_after: Option<Duration>,
    },
    /// It rejects the gateway's credential.
    #[error("the service rejects the gateway's credential (HTTP 401)")]
    NeedsAuth,
    /// It returned an error.
    #[error("the service failed (HTTP {status})")]
    Failed {
        /// The HTTP status.
        status: u16,
        /// When it may work again.
        retry_after: Option<Duration>,
    },
    /// The response is over the size limit.
    #[error("the service sent an answer over the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

impl RestError {
    pub(super) fn of(error: HttpError) -> Self {
        match error {
            HttpError::Blocked => Self::Blocked,
            _ => Self::Unreachable { reason: "its host name could not be resolved".into() },
        }
    }

    /// Whether the service may have processed the request.
    pub fn sent(&self) -> SentStatus {
        match self {
            Self::BadRequest { .. }
            | Self::Blocked
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::NeedsAuth => SentStatus::No,
            Self::Lost { .. } | Self::Redirected | Self::Failed { .. } | Self::TooLarge { .. } => {
                SentStatus::Maybe
            }
        }
    }

    /// When the service accepts requests again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Lost { .. } | Self::RateLimited { .. } | Self::Failed { .. }
        )
    }
}

impl Fault for RestError {
    fn code(&self) -> &'static str {
        match self {
            Self::BadRequest { .. } => "provider.bad-request",
            Self::Blocked => "provider.blocked-address",
            Self::Unreachable { .. } => "provider.unreachable",
            Self::Lost { .. } => "provider.lost",
            Self::Redirected => "provider.redirected",
            Self::RateLimited { .. } => "provider.rate-limited",
            Self::NeedsAuth => "provider.needs-auth",
            Self::Failed { .. } => "provider.failed",
            Self::TooLarge { .. } => "provider.answer-too-large",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::BadRequest { .. } => Blame::Caller,
            Self::Blocked | Self::NeedsAuth => Blame::Gateway,
            _ => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Blocked => Some(
                "if the service is in a private network, use its IP address in `url` or set `allow_private: true`"
                    .into(),
            ),
            Self::Redirected => Some("set `url` to the address that it redirects to".into()),
            Self::RateLimited { retry_after: Some(wait) } => {
                Some(format!("it accepts requests again in {} s", wait.as_secs().max(1)))
            }
            Self::NeedsAuth => Some("check the provider's `headers`".into()),
            Self::Lost { .. } => {
                Some("the service may have processed the call: check before you repeat it".into())
            }
            _ => None,
        }
    }
}
