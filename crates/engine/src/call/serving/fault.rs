//! Why a provider of any kind did not serve a call.

use crate::call::deadline::FromTimeout;
use crate::call::dispatch_failure::InnerQuestion;
use std::time::Duration;
use toolbooth_core::call::CallFault;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::error::SentStatus;
use toolbooth_upstream::llm::LlmError;
use toolbooth_upstream::rest_tool::RestError;
use toolbooth_wire::RpcError;

/// The reason why a provider did not serve a call.
#[derive(Debug)]
pub(crate) enum ProviderFault {
    /// The request to its server failed.
    Upstream(UpstreamError),
    /// Its server answered with a JSON-RPC error.
    Rpc(RpcError),
    /// The request to its HTTP service failed.
    Rest(RestError),
    /// The model did not answer.
    Llm(LlmError),
    /// It did not answer in time.
    Timeout(Duration),
    /// The call is refused in the form in which this provider would get it.
    Call(CallFault),
    /// Its tool requires an approval first.
    Asks(Box<InnerQuestion>),
    /// It cannot serve any call.
    Useless(String),
    /// A hook withheld its result.
    Withheld(Problem),
    /// A problem of the gateway itself, such as a full queue.
    Other(Problem),
}

impl FromTimeout for ProviderFault {
    /// Names the provider instead of the server: the server of a manifest tool is an internal detail.
    fn timed_out(_server: &str, after: Duration) -> Self {
        Self::Timeout(after)
    }
}

impl From<UpstreamError> for ProviderFault {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

impl From<CallFault> for ProviderFault {
    fn from(fault: CallFault) -> Self {
        Self::Call(fault)
    }
}

impl ProviderFault {
    /// Whether the provider may have acted on the call.
    pub(crate) fn sent(&self) -> SentStatus {
        match self {
            Self::Upstream(error) => error.sent(),
            Self::Rpc(_) | Self::Timeout(_) | Self::Withheld(_) => SentStatus::Maybe,
            Self::Rest(error) => error.sent(),
            // A request to a model has no side effects.
            Self::Llm(_) | Self::Call(_) | Self::Asks(_) | Self::Useless(_) | Self::Other(_) => {
                SentStatus::No
            }
        }
    }

    /// Whether the fault counts against the provider and not only against this call: a caller must not be able to
    /// take a provider away from others by sending odd arguments.
    pub(crate) fn is_the_providers(&self) -> bool {
        !matches!(
            self,
            Self::Call(_)
                | Self::Asks(_)
                | Self::Other(_)
                | Self::Withheld(_)
                | Self::Useless(_)
                | Self::Upstream(UpstreamError::TooLarge { .. })
                | Self::Rest(RestError::BadRequest { .. } | RestError::TooLarge { .. })
        )
    }

    /// Whether another attempt with the same provider may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Upstream(error) => may_pass(error),
            Self::Rest(error) => error.is_transient(),
            Self::Llm(error) => {
                matches!(error, LlmError::Unreachable { .. } | LlmError::RateLimited | LlmError::CutOff)
            }
            Self::Rpc(_) => true,
            Self::Timeout(_)
            | Self::Call(_)
            | Self::Asks(_)
            | Self::Useless(_)
            | Self::Withheld(_)
            | Self::Other(_) => false,
        }
    }

    /// How long the provider asks to wait before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Upstream(error) => retry_after(error),
            Self::Rest(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Converts the fault for the caller.
    pub(crate) fn problem(&self, provider: &str) -> Problem {
        match self {
            Self::Upstream(error) => Problem::of(error),
            Self::Rpc(error) => Problem {
                code: "call.server-error",
                blame: Blame::Upstream,
                message: format!("`{provider}` answered with error {}", error.code),
                hint: None,
            },
            Self::Rest(error) => named(provider, Problem::of(error)),
            Self::Llm(error) => Problem::of(error),
            Self::Timeout(after) => Problem {
                code: "call.timeout",
                blame: Blame::Upstream,
                message: format!("provider `{provider}` did not answer within {} ms", after.as_millis()),
                hint: Some("raise `default_timeout` of the tool".into()),
            },
            Self::Call(fault) => Problem::of(fault),
            Self::Asks(question) => question.problem(),
            Self::Useless(why) => Problem {
                code: "provider.useless",
                blame: Blame::Gateway,
                message: format!("provider `{provider}` cannot serve calls: {why}"),
                hint: Some("`toolbooth tools show NAME` shows the state of its providers".into()),
            },
            Self::Withheld(problem) | Self::Other(problem) => problem.clone(),
        }
    }
}

fn named(provider: &str, problem: Problem) -> Problem {
    Problem { message: format!("provider `{provider}`: {}", problem.message), ..problem }
}

/// Whether another attempt may succeed after this error.
pub(crate) fn may_pass(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Unreachable { .. }
        | UpstreamError::Lost { .. }
        | UpstreamError::SessionExpired { .. }
        | UpstreamError::Overloaded { .. }
        | UpstreamError::Busy { .. }
        | UpstreamError::BadAnswer { .. } => true,
        // The supervisor is about to reconnect it.
        UpstreamError::NotConnected { retry_in, .. } => retry_in.is_some(),
        UpstreamError::StartFailed { .. }
        | UpstreamError::StartTimeout { .. }
        | UpstreamError::Timeout { .. }
        | UpstreamError::TooLarge { .. }
        | UpstreamError::NeedsAuth { .. }
        | UpstreamError::NeedsKey { .. }
        | UpstreamError::ShareUsed { .. }
        | UpstreamError::Flooded { .. }
        | UpstreamError::AskedTooMuch { .. }
        | UpstreamError::NotStarted(_) => false,
    }
}

/// How long to wait for a server that is down or overloaded.
pub(crate) fn retry_after(error: &UpstreamError) -> Option<Duration> {
    match error {
        // Slightly later than the reconnect, so that it has begun by then.
        UpstreamError::NotConnected { retry_in, .. } => retry_in.map(|wait| wait + Duration::from_millis(50)),
        UpstreamError::Overloaded { retry_after, .. } => *retry_after,
        _ => None,
    }
}
