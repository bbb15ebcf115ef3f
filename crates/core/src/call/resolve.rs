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

/// Finds the tool. Tools that the caller may not use are not found, and not offered as candidates.
pub fn resolve(incoming: IncomingCall, catalog: &Catalog) -> Result<ResolvedCall, CallFault> {
    let tool = match catalog.tool(&incoming.name, &incoming.caller) {
        Lookup::Found(tool) => tool.clone(),
        Lookup::Unknown => return Err(CallFault::UnknownTool { name: incoming.name }),
        Lookup::Ambiguous(tools) => {
            let mut candidates: Vec<String> = tools.iter().map(|tool| tool.exposed.to_string()).collect();
            candidates.sort();
            return Err(CallFault::AmbiguousName { name: incoming.name, candidates });
        }
    };
    Ok(ResolvedCall { incoming, tool })
}
