//! A call on its way to a provider that is a tool of a server: the same call, under the other tool's terms.
//!
//! It walks the stages that guard that tool: the caller must be permitted there, and what the gateway supplies
//! there is dropped from what was mapped and put in by `seal` alone. So nothing that a model writes reaches it.

use super::authorise::{Permitted, authorise};
use super::draft::{Draft, draft};
use super::fault::CallFault;
use super::policy::{Judged, Waiting};
use super::resolve::{Incoming, Resolved};
use super::seal::Sealed;
use super::situation::{Consented, Situation};
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
    // Whoever agreed to the tool agreed to what the operator says serves it.
    let situation = Situation { consent: Consented::Yes, ..situation(&permitted) };
    Ok(draft(permitted, situation)?)
}

impl Waiting {
    /// The call may run: a person has said yes to the call that it serves.
    pub fn under_licence_of_its_caller(self) -> Judged {
        Judged(self.into_draft())
    }
}
