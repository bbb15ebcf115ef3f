//! A call on its way to a provider that is a tool of a server: the same call, under the other tool's terms.
//!
//! It walks the stages that guard that tool: the caller must be permitted there, that tool's questions are asked, and
//! what the gateway supplies there is dropped from what was mapped and put in by `seal` alone. So nothing that a model
//! writes reaches it, and nobody's yes to the called tool counts for it.

use super::authorise::{Permitted, authorise};
use super::draft::{Draft, draft};
use super::fault::CallFault;
use super::policy::{Judged, Waiting};
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
    /// The same call, to walk every stage again as a caller whose rights were looked up anew.
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

impl Waiting {
    /// The call may run: it is a call of the very tool that was judged a moment ago, with mapped arguments.
    pub fn judged_before(self) -> Judged {
        Judged(self.into_draft())
    }
}
