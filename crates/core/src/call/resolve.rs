//! Stage 2, resolve: from any accepted name to a tool.

use super::fault::CallFault;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{Catalog, Lookup, Tool};
use crate::json::{Member, RawJson};
use std::sync::Arc;

/// A call as a door received it: a caller established, nothing else believed.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the client said about itself.
    pub client: Arc<ClientFacts>,
    /// The tool's name, in any accepted spelling.
    pub name: String,
    /// The arguments, if any came.
    pub arguments: Option<RawJson>,
    /// The client's `_meta`, without what belongs to the protocol.
    pub meta: Vec<Member>,
}

/// A call whose tool is known. Nobody has asked yet whether the caller may use it.
#[derive(Debug)]
pub struct Resolved {
    pub(super) incoming: Incoming,
    pub(super) tool: Arc<Tool>,
}

/// Finds the tool. What the caller may not use is not found, and is not offered as a candidate.
pub fn resolve(incoming: Incoming, catalog: &Catalog) -> Result<Resolved, CallFault> {
    let tool = match catalog.tool(&incoming.name, &incoming.caller) {
        Lookup::Found(tool) => tool.clone(),
        Lookup::Unknown => return Err(CallFault::UnknownTool { name: incoming.name }),
        Lookup::Ambiguous(tools) => {
            let mut candidates: Vec<String> = tools.iter().map(|tool| tool.exposed.to_string()).collect();
            candidates.sort();
            return Err(CallFault::AmbiguousName { name: incoming.name, candidates });
        }
    };
    Ok(Resolved { incoming, tool })
}
