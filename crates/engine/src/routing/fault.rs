//! Why a provider did not serve a call, whatever kind it is.

use super::InnerQuestion;
use std::time::Duration;
use toolbooth_core::call::CallFault;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::error::Sent;
use toolbooth_upstream::llm::LlmError;
use toolbooth_upstream::rest_tool::RestError;
use toolbooth_wire::RpcError;

/// A provider did not serve a call.
#[derive(Debug)]
pub(crate) enum ProviderFault {
    /// Its server could not be asked.
    Upstream(UpstreamError),
    /// Its server answered with an error of the protocol.
    Rpc(RpcError),
    /// Its service could not be asked.
    Rest(RestError),
    /// The model did not answer.
    Llm(LlmError),
    /// It did not answer in time.
    Overdue(Duration),
    /// The call as it would be made there is refused.
    Call(CallFault),
    /// Its tool asks something first.
    Asks(Box<InnerQuestion>),
    /// It serves nothing, and why.
    Useless(String),
    /// Something of the gateway's own, such as a full queue.
    Other(Problem),
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
    /// Whether it may have acted on the call.
    pub(crate) fn sent(&self) -> Sent {
        match self {
            Self::Upstream(error) => error.sent(),
            Self::Rpc(_) | Self::Overdue(_) => Sent::Maybe,
            Self::Rest(error) => error.sent(),
            // A model that was asked has done nothing to the world.
            Self::Llm(_) | Self::Call(_) | Self::Asks(_) | Self::Useless(_) | Self::Other(_) => Sent::No,
        }
    }

    /// Whether it says something about the provider, and not about this call alone: nobody can take a provider
    /// away from others by calling it with odd arguments.
    pub(crate) fn is_the_providers(&self) -> bool {
        !matches!(
            self,
            Self::Call(_)
                | Self::Asks(_)
                | Self::Other(_)
                | Self::Useless(_)
                | Self::Upstream(UpstreamError::TooLarge { .. })
                | Self::Rest(RestError::BadRequest { .. } | RestError::TooLarge { .. })
        )
    }

    /// Whether another try with the same provider may go better. A server that is known to be down is tried
    /// again by those who look after it; a call waits for it only if it went down during the call.
    pub(crate) fn may_pass(&self, failures: u32) -> bool {
        match self {
            Self::Upstream(error) => may_pass(error, failures),
            Self::Rest(error) => error.may_pass(),
            Self::Llm(error) => {
                matches!(error, LlmError::Unreachable { .. } | LlmError::RateLimited | LlmError::CutOff)
            }
            Self::Rpc(_) => true,
            Self::Overdue(_) | Self::Call(_) | Self::Asks(_) | Self::Useless(_) | Self::Other(_) => false,
        }
    }

    /// How long it asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Upstream(error) => retry_after(error),
            Self::Rest(error) => error.retry_after(),
            _ => None,
        }
    }

    /// As it travels to a door.
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
            Self::Overdue(after) => Problem {
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
                message: format!("provider `{provider}` serves nothing: {why}"),
                hint: Some("`toolbooth tools show NAME` tells how its providers stand".into()),
            },
            Self::Other(problem) => problem.clone(),
        }
    }
}

fn named(provider: &str, problem: Problem) -> Problem {
    Problem { message: format!("provider `{provider}`: {}", problem.message), ..problem }
}

/// Whether another try may go better after this error.
pub(crate) fn may_pass(error: &UpstreamError, failures: u32) -> bool {
    match error {
        UpstreamError::Unreachable { .. }
        | UpstreamError::Lost { .. }
        | UpstreamError::SessionExpired { .. }
        | UpstreamError::Busy { .. }
        | UpstreamError::BadAnswer { .. } => true,
        UpstreamError::NotConnected { retry_in, .. } => failures > 1 && retry_in.is_some(),
        UpstreamError::StartFailed { .. }
        | UpstreamError::StartTimeout { .. }
        | UpstreamError::Timeout { .. }
        | UpstreamError::TooLarge { .. }
        | UpstreamError::NeedsAuth { .. }
        | UpstreamError::ShareUsed { .. }
        | UpstreamError::Flooded { .. }
        | UpstreamError::AskedTooMuch { .. }
        | UpstreamError::NotStarted(_) => false,
    }
}

/// When a server that is down is tried again.
pub(crate) fn retry_after(error: &UpstreamError) -> Option<Duration> {
    match error {
        // A moment later, so that it is on its way by then.
        UpstreamError::NotConnected { retry_in, .. } => retry_in.map(|wait| wait + Duration::from_millis(50)),
        _ => None,
    }
}
