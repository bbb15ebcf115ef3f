//! How a call is dispatched.

use super::summary::AttemptLog;
use std::time::Duration;
use toolbooth_core::call::{Approval, ServesPlanStep};
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use uuid::Uuid;

/// How the client answers the questions of a modern server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionHandling {
    /// In a new request: the questions are returned as the answer to this one.
    Returned,
    /// Over the link, while this call continues.
    DuringCall,
    /// The same, by a person without an MCP client. The person is also asked to open the URLs that a legacy server demands
    /// with an error; then the gateway sends the call again, which a client would do itself.
    ByPerson,
}

impl QuestionHandling {
    /// The handling for a call that cannot be repeated by the client.
    #[must_use]
    pub(crate) fn during_call(self) -> Self {
        match self {
            Self::Returned => Self::DuringCall,
            Self::DuringCall | Self::ByPerson => self,
        }
    }
}

/// The ids of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallIds {
    /// The id of this call.
    pub(crate) call: Uuid,
    /// The id shared by all attempts and replays of the call; the idempotency key is derived from it.
    pub(crate) key: Uuid,
}

/// How to dispatch a call.
#[derive(Debug, Clone)]
pub(crate) struct DispatchOptions {
    /// The ids of the call.
    pub(crate) ids: CallIds,
    /// The client's answers and the request state, if this request continues an earlier one.
    pub(crate) round: Round,
    /// Whether the client wants progress notifications.
    pub(crate) progress: ProgressMode,
    /// How the client answers a server's questions.
    pub(crate) questions: QuestionHandling,
    /// Whether a long result may be passed on in pieces.
    pub(crate) reading: ResultReading,
    /// A person's approval of the called tool.
    pub(crate) approval: Option<Approval>,
    /// Approvals of tools behind the called one.
    pub(crate) inner_approvals: Vec<Approval>,
    /// Whether the call is a step of a plan that a person approved.
    pub(crate) planned: ServesPlanStep,
    /// The caller's deadline, which comes before the tool's own.
    pub(crate) timeout: Option<Duration>,
    /// How long the steps of a skill wait for a person's approval; `None` for the configured time.
    pub(crate) approval_wait: Option<Duration>,
    /// Collects the failed attempts of the call.
    pub(crate) attempts: AttemptLog,
}
