//! A call that was not served: the problem, the attempts, and whether a server may have received it.

use crate::dead_letters::{AttemptTimes, FailedCall, attempt, provider_of};
use std::time::Duration;
use toolbooth_core::call::{CallFault, HeldDraft, Sealed};
use toolbooth_core::clock::Clock;
use toolbooth_core::dead_letter::Attempt;
use toolbooth_core::fault::Problem;
use toolbooth_core::names::ServerName;
use toolbooth_upstream::UpstreamError;
use toolbooth_upstream::error::SentStatus;

/// A condition of the tool behind a manifest tool, to be met before it serves a call.
#[derive(Debug)]
pub(crate) enum InnerQuestion {
    /// A person has to approve it.
    Ask(HeldDraft),
    /// It has to be queued as a step of the caller's plan.
    Queue(HeldDraft),
}

impl InnerQuestion {
    /// The error if no person can be asked.
    pub(crate) fn problem(&self) -> Problem {
        let (Self::Ask(waiting) | Self::Queue(waiting)) = self;
        let name = waiting.draft().tool.exposed.to_string();
        Problem::of(&CallFault::Refused { name, reason: waiting.reason.clone() })
    }
}

/// A call that was not served: the problem and the attempts.
pub(crate) struct DispatchFailure {
    pub(crate) problem: Problem,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) sent: SentStatus,
    /// A question that must be answered before a tool behind the called one serves the call; then nothing has failed.
    pub(crate) question: Option<Box<InnerQuestion>>,
}

impl DispatchFailure {
    /// The content of a dead letter, if the failure deserves one, and the problem for the caller.
    pub(super) fn into_failed(self, call: &Sealed) -> (Option<Box<FailedCall>>, Problem) {
        let Self { problem, attempts, sent, question: _ } = self;
        (FailedCall::of(call, &problem, attempts, sent), problem)
    }

    /// A tool behind the called one requires an approval first.
    pub(crate) fn asking(question: Box<InnerQuestion>) -> Box<Self> {
        let problem = question.problem();
        Box::new(Self { problem, attempts: Vec::new(), sent: SentStatus::No, question: Some(question) })
    }

    /// No attempt was made.
    pub(crate) fn untried(problem: Problem) -> Box<Self> {
        Box::new(Self { problem, attempts: Vec::new(), sent: SentStatus::No, question: None })
    }

    /// An answer arrived but could not be passed on.
    pub(crate) fn after_answer(call: &Sealed, problem: Problem, clock: &Clock) -> Box<Self> {
        let times = AttemptTimes::until_now(clock, Duration::ZERO);
        let tried = attempt(provider_of(call.tool()), problem.code, times);
        Box::new(Self { problem, attempts: vec![tried], sent: SentStatus::Maybe, question: None })
    }

    /// Adds one provider's failure to earlier ones. `SentStatus::Maybe` is kept once it is set.
    pub(crate) fn then(
        before: Option<Box<Self>>,
        provider: String,
        problem: Problem,
        sent: SentStatus,
        times: AttemptTimes,
    ) -> Box<Self> {
        let sent = before
            .as_ref()
            .map(|before| before.sent)
            .filter(|sent| *sent == SentStatus::Maybe)
            .unwrap_or(sent);
        let mut attempts = before.map(|before| before.attempts).unwrap_or_default();
        attempts.push(attempt(provider, problem.code, times));
        Box::new(Self { problem, attempts, sent, question: None })
    }

    /// Joins the attempts that were made before or concurrently with these.
    pub(crate) fn after(mut self: Box<Self>, before: Option<Box<Self>>) -> Box<Self> {
        if let Some(mut before) = before {
            before.attempts.append(&mut self.attempts);
            self.attempts = before.attempts;
            if before.sent == SentStatus::Maybe {
                self.sent = SentStatus::Maybe;
            }
        }
        self
    }

    /// Adds a failure of a tool's own server.
    pub(crate) fn on_server(
        before: Option<Box<Self>>,
        server: &ServerName,
        error: &UpstreamError,
        times: AttemptTimes,
    ) -> Box<Self> {
        Self::then(before, format!("mcp:{server}"), Problem::of(error), error.sent(), times)
    }
}
