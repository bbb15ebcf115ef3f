//! A call on its way to a provider that is a tool of a server: the same call, under the other tool's terms.
//!
//! It walks the stages that guard that tool: the caller must be permitted there, that tool's questions are asked, and
//! what the gateway supplies there is dropped from what was mapped and put in by `seal` alone. So nothing that a model
//! writes reaches it, and an approval of the called tool does not count for it.

use super::authorise::{Permitted, authorise};
use super::draft::{Draft, draft};
use super::fault::CallFault;
use super::licence::Licence;
use super::policy::{Judged, Judgement, Verdict, Waiting};
use super::resolve::{Incoming, Resolved};
use super::seal::Sealed;
use super::situation::Situation;
use crate::catalog::Tool;
use crate::json::RawJson;
use std::sync::Arc;

/// Drafts a sealed call anew for another tool, with arguments that were made of the caller's own.
pub fn redraft(
    call: &Sealed,
    target: Arc<Tool>,
    arguments: RawJson,
    situation: impl FnOnce(&Permitted) -> Situation,
) -> Result<Draft, CallFault> {
    let incoming = Incoming {
        caller: call.caller().clone(),
        client: call.client().clone(),
        name: target.exposed.to_string(),
        arguments: Some(arguments),
        meta: call.meta().to_vec(),
    };
    let permitted = authorise(Resolved { incoming, tool: target })?;
    let situation = situation(&permitted);
    Ok(draft(permitted, situation)?)
}

impl Sealed {
    /// The same call, to walk every stage again as a caller whose rights were looked up again.
    pub fn again(&self, caller: Arc<crate::caller::Caller>) -> Incoming {
        Incoming {
            caller,
            client: self.client().clone(),
            name: self.tool().exposed.to_string(),
            arguments: Some(self.public_arguments().clone()),
            meta: self.meta().to_vec(),
        }
    }
}

impl Judgement {
    /// The call may run, whatever was found: it is a call of the very tool that was judged a moment ago. Its arguments
    /// must have been judged as well, see [`as_called`].
    pub fn judged_before(self) -> Judged {
        match self {
            Self::Run(judged) => judged,
            Self::Ask(waiting) | Self::Queue(waiting) => Judged(waiting.into_draft()),
        }
    }
}

/// The draft of a call, drafted again, with the arguments that a mapping made for the tool beneath. Rules on arguments
/// must see these as well, under the terms of the tool that was called. It is for judging alone: the arguments need not
/// fit the called tool's schema.
pub fn as_called(called: Draft, mapped: &Judged) -> Draft {
    Draft { arguments: mapped.draft().arguments.clone(), ..called }
}

impl Licence {
    /// Whether a yes to a call as it was made also answers what the arguments mapped for the tool beneath raise: the
    /// person saw the caller's arguments, and the operator wrote the mapping.
    pub fn answers(&self, call: &Sealed, question: &Waiting) -> bool {
        let verdict = Verdict::Ask { reason: String::new(), answerer: question.answerer };
        self.agreed_to(call.tool(), call.public_arguments()) && self.covers(&verdict, &call.caller().user)
    }
}
