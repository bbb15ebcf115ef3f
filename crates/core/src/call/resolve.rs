//! Stage 2, resolve: maps any accepted name to a tool.

use super::fault::CallFault;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{Catalog, Lookup, Tool};
use crate::json::{Member, RawJson};
use std::sync::Arc;

/// A call as received: the caller is authenticated, nothing else is trusted.
#[derive(Debug, Clone)]
pub struct IncomingCall {
    /// The caller.
    pub caller: Arc<Caller>,
    /// What the client declares about itself.
    pub client: Arc<ClientFacts>,
    /// The tool's name, in any accepted spelling.
    pub name: String,
    /// The arguments, if any were sent.
    pub arguments: Option<RawJson>,
    /// The client's `_meta`, without the protocol's own members.
    pub meta: Vec<Member>,
}

/// A call whose tool is known, before the permission check.
#[derive(Debug)]
pub struct ResolvedCall {
    pub(super) incoming: IncomingCall,
    pub(super) tool: Arc<Tool>,
}

/// Finds the tool. Tools that the caller may not use are not found, and not offered as candidates. If only the caller's
/// compliance level hides the tool, the error says so: the caller chose the level and can change it.
pub fn resolve(incoming: IncomingCall, catalog: &Catalog) -> Result<ResolvedCall, CallFault> {
    let tool = match catalog.tool(&incoming.name, &incoming.caller) {
        Lookup::Found(tool) => tool.clone(),
        Lookup::Unknown => return Err(unknown(incoming, catalog)),
        Lookup::Ambiguous(tools) => {
            let mut candidates: Vec<String> = tools.iter().map(|tool| tool.exposed.to_string()).collect();
            candidates.sort();
            return Err(CallFault::AmbiguousName { name: incoming.name, candidates });
        }
    };
    Ok(ResolvedCall { incoming, tool })
}

fn unknown(incoming: IncomingCall, catalog: &Catalog) -> CallFault {
    let IncomingCall { caller, name, .. } = incoming;
    match (catalog.kept_out_by_level(&name, &caller), &caller.compliance_level) {
        (Some(tool), Some(level)) => {
            CallFault::Compliance { name: tool.exposed.to_string(), level: level.name.to_string() }
        }
        _ => CallFault::UnknownTool { name },
    }
}
