//! What can go wrong between the gateway and an HTTP service.

use crate::error::Sent;
use crate::oauth::HttpError;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};

/// A template that no request can be made of. What it says is not repeated: it may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is no address.
    #[error("`url` is no http or https address")]
    NotAnAddress,
    /// An argument would choose whom is asked.
    #[error("`url` has an argument in its scheme, host or port")]
    HostFromArgument,
    /// It holds a name and a password.
    #[error("`url` holds a user name; give credentials in `headers`")]
    UserInfo,
    /// An argument would choose the name of a parameter.
    #[error("`url` has an argument for the name of a parameter")]
    QueryName,
    /// A header that cannot be sent.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
}

/// A service could not be asked, or did not answer as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// The arguments do not make a request.
    #[error("no request can be made: {what}")]
    BadRequest {
        /// What is wrong.
        what: String,
    },
    /// The name leads to an address that may not be reached.
    #[error("the service's name leads to an address that may not be reached from here")]
    Blocked,
    /// Nothing was sent.
    #[error("the service cannot be reached: {reason}")]
    Unreachable {
        /// Why, in our words.
        reason: String,
    },
    /// The connection broke.
    #[error("the service went away during the call: {reason}")]
    Lost {
        /// Why, in our words.
        reason: String,
    },
    /// It sends requests to somebody else.
    #[error("the service sends the request elsewhere, which is not followed")]
    Redirected,
    /// It takes no requests now.
    #[error("the service is asked too often just now (HTTP 429)")]
    RateLimited {
        /// When it takes some again.
        retry_after: Option<Duration>,
    },
    /// It does not take the gateway's credential.
    #[error("the service does not take the gateway's credential (HTTP 401)")]
    NeedsAuth,
    /// It failed.
    #[error("the service failed (HTTP {status})")]
    Failed {
        /// With which status.
        status: u16,
        /// When it may work again.
        retry_after: Option<Duration>,
    },
    /// Its answer is over the limit.
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
            _ => Self::Unreachable { reason: "its name leads nowhere".into() },
        }
    }

    /// Whether the service may have acted on the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::BadRequest { .. }
            | Self::Blocked
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::NeedsAuth => Sent::No,
            Self::Lost { .. } | Self::Redirected | Self::Failed { .. } | Self::TooLarge { .. } => Sent::Maybe,
        }
    }

    /// When the service says that it may be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether another try may go better.
    pub fn may_pass(&self) -> bool {
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
                "give the address itself in `url`, or `allow_private: true`, if the service is in a private network"
                    .into(),
            ),
            Self::Redirected => Some("give the address that it redirects to in `url`".into()),
            Self::RateLimited { retry_after: Some(wait) } => {
                Some(format!("it takes requests again in {} s", wait.as_secs().max(1)))
            }
            Self::NeedsAuth => Some("look at the provider's `headers`".into()),
            Self::Lost { .. } => {
                Some("the service may have acted on the call: check before you repeat it".into())
            }
            _ => None,
        }
    }
}
