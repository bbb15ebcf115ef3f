//! Questions about a tool behind a manifest tool. An approval of the called tool does not answer them.
//!
//! Which provider serves a call is known only during routing. So the question is returned as the reason why the call
//! was not served, a person is asked as for any held call, and after the approval the call passes all stages again.

use crate::answer::Answer;
use crate::approvals::ApprovalOutcome;
use crate::call::dispatch_failure::InnerQuestion;
use crate::call::options::DispatchOptions;
use crate::call::pipeline::CallPipeline;
use crate::call::record::CallRecord;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::{IncomingCall, Sealed, route};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;

/// The outcome of a call that providers serve.
pub(crate) enum ProviderOutcome {
    /// The answer.
    Answered(Answer),
    /// The call is held or queued: the answer for its caller.
    Held(Answer),
    /// A person approved a tool behind the called one: the call, which passes all stages again.
    Approved(IncomingCall),
}

impl CallPipeline {
    /// Has a call served by its providers, and asks a person if a tool behind it requires an approval.
    pub(in crate::call) async fn dispatch_to_providers(
        &self,
        sealed: &Sealed,
        record: &mut CallRecord,
        options: DispatchOptions,
        approval_wait: Option<Duration>,
        link: &CallLink,
    ) -> Result<ProviderOutcome, Problem> {
        let progress: ProgressMode = options.progress;
        let mut failure = match self.dispatch(sealed, route(sealed), options, link).await {
            Ok(answer) => return Ok(ProviderOutcome::Answered(answer)),
            Err(failure) => failure,
        };
        let waiting = match failure.question.take().map(|question| *question) {
            None => return Err(record.note_failure(sealed, *failure)),
            Some(InnerQuestion::Queue(waiting)) => {
                return self.plans.queue_step(waiting).await.map(ProviderOutcome::Held);
            }
            Some(InnerQuestion::Ask(waiting)) => waiting,
        };
        let is_called_tool = Arc::ptr_eq(&waiting.draft().tool, sealed.tool());
        let asking = self.approvals.ask_person(waiting, record.origin(), progress, approval_wait, link);
        match asking.await? {
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
