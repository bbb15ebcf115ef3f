//! Drafts a call again for a provider that is a tool of a server, under that tool's terms.
//!
//! The stages of that tool apply: the caller must have permission, its questions are asked, and arguments that the
//! gateway supplies are dropped from the mapped ones and added by `seal` only. So nothing that a model writes ends up
//! in them, and an approval of the called tool does not count for it.

use super::approval::Approval;
use super::authorise::{PermittedCall, authorise};
use super::draft::{Draft, check_edit, draft};
use super::fault::CallFault;
use super::policy::{HeldDraft, Judged, Judgement, Verdict};
use super::resolve::{IncomingCall, ResolvedCall};
use super::seal::Sealed;
use super::situation::Situation;
use crate::catalog::Tool;
use crate::json::RawJson;
use std::sync::Arc;

/// Drafts a sealed call again for another tool, with arguments mapped from the caller's own.
pub fn draft_for_provider(
    call: &Sealed,
    target: Arc<Tool>,
    arguments: RawJson,
    situation: impl FnOnce(&PermittedCall) -> Situation,
) -> Result<Draft, CallFault> {
    let incoming = IncomingCall {
        caller: call.caller().clone(),
        client: call.client().clone(),
        name: target.exposed.to_string(),
        arguments: Some(arguments),
        meta: call.meta().to_vec(),
    };
    let permitted = authorise(ResolvedCall { incoming, tool: target })?;
    let situation = situation(&permitted);
    Ok(draft(permitted, situation)?)
}

impl Sealed {
    /// The same call, to pass through every stage again as a caller whose rights were looked up again.
    pub fn again(&self, caller: Arc<crate::caller::Caller>) -> IncomingCall {
        IncomingCall {
            caller,
            client: self.client().clone(),
            name: self.tool().exposed.to_string(),
            arguments: Some(self.public_arguments().clone()),
            meta: self.meta().to_vec(),
        }
    }
}

impl Judged {
    /// The call with arguments that a hook of the operator wrote, to be judged again. Arguments that the gateway
    /// supplies are left out; the others must fit the tool's schema. Otherwise the call is returned with the error.
    pub fn edited(self, arguments: &RawJson) -> Result<Draft, Box<(Self, CallFault)>> {
        match check_edit(&self.0.tool, arguments) {
            Ok(arguments) => Ok(Draft { arguments, ..self.0 }),
            Err(fault) => Err(Box::new((self, fault))),
        }
    }
}

impl Judgement {
    /// The call without the questions of its policies. Only for a manifest tool that serves itself: the same tool was
    /// judged in stage 5, and its questions were answered there. Arguments that a mapping changed must be judged
    /// separately, see [`as_called`].
    pub fn without_questions(self) -> Judged {
        match self {
            Self::Run(judged) => judged,
            Self::Ask(waiting) | Self::Queue(waiting) => Judged(waiting.into_draft()),
        }
    }
}

/// The called tool's draft with the arguments that a mapping produced for the tool behind it. Rules on arguments must
/// see these as well, under the terms of the called tool. Only for judging: the arguments need not fit the called tool's
/// schema.
pub fn as_called(called: Draft, mapped: &Judged) -> Draft {
    Draft { arguments: mapped.draft().arguments.clone(), ..called }
}

impl Approval {
    /// Whether the approval of a call also answers a question about the mapped arguments: the person saw the caller's
    /// arguments, and the operator wrote the mapping.
    pub fn answers(&self, call: &Sealed, question: &HeldDraft) -> bool {
        let verdict = Verdict::Ask { reason: String::new(), answerer: question.answerer };
        self.approves(call.tool(), call.public_arguments()) && self.covers(&verdict, &call.caller().user)
    }
}
