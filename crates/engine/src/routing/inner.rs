//! Questions about a tool behind a manifest tool. An approval of the called tool does not answer them.
//!
//! Which provider serves a call is known only during routing. So the question is returned as the reason why the call
//! was not served, a person is asked as for any held call, and after the approval the call passes all stages again.

use super::DispatchOptions;
use crate::answer::Answer;
use crate::call_record::CallRecord;
use crate::engine::Engine;
use crate::held::ApprovalOutcome;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{CallFault, HeldDraft, IncomingCall, Sealed, route};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;

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

/// The outcome of a call that providers serve.
pub(crate) enum ProviderOutcome {
    /// The answer.
    Answered(Answer),
    /// The call is held or queued: the answer for its caller.
    Held(Answer),
    /// A person approved a tool behind the called one: the call, which passes all stages again.
    Approved(IncomingCall),
}

impl Engine {
    /// Has a call served by its providers, and asks a person if a tool behind it requires an approval.
    pub(crate) async fn dispatch_to_providers(
        self: &Arc<Self>,
        sealed: &Sealed,
        record: &mut CallRecord,
        options: DispatchOptions,
        approval_wait: Option<Duration>,
        link: &CallLink,
    ) -> Result<ProviderOutcome, Problem> {
        let progress: ProgressMode = options.progress;
        let mut undelivered = match self.dispatch(sealed, route(sealed), options, link).await {
            Ok(answer) => return Ok(ProviderOutcome::Answered(answer)),
            Err(undelivered) => undelivered,
        };
        let waiting = match undelivered.question.take().map(|question| *question) {
            None => return Err(record.note_failure(sealed, *undelivered)),
            Some(InnerQuestion::Queue(waiting)) => {
                return self.queue_step(waiting).await.map(ProviderOutcome::Held);
            }
            Some(InnerQuestion::Ask(waiting)) => waiting,
        };
        let is_called_tool = Arc::ptr_eq(&waiting.draft().tool, sealed.tool());
        match self.ask_person(waiting, progress, approval_wait, link).await? {
            ApprovalOutcome::Held(held) => Ok(ProviderOutcome::Held(Answer::held(&held))),
            // The mapped arguments raised the question, but the approval is for the call itself.
            ApprovalOutcome::Run(approved) if is_called_tool => {
                record.take_approval(*approved).map(ProviderOutcome::Approved)
            }
            ApprovalOutcome::Run(approved) => {
                let caller = record.take_inner_approval(*approved)?;
                Ok(ProviderOutcome::Approved(sealed.again(caller)))
            }
        }
    }
}
