//! Stage 4, draft: only what a caller may supply.

use super::authorise::Permitted;
use super::fault::CallFault;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::Tool;
use crate::json::{Member, RawJson};
use std::sync::Arc;

/// A call with its arguments checked: what policies judge.
#[derive(Debug)]
pub struct Draft {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the client said about itself.
    pub client: Arc<ClientFacts>,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The arguments the caller supplied: an object.
    pub arguments: RawJson,
    /// The client's `_meta`, without what belongs to the protocol.
    pub meta: Vec<Member>,
}

/// Checks the arguments: an object, or nothing, which is the empty object.
pub fn draft(permitted: Permitted) -> Result<Draft, CallFault> {
    let Permitted(resolved) = permitted;
    let tool = resolved.tool;
    let incoming = resolved.incoming;
    let arguments = match incoming.arguments {
        None => RawJson::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(other) => {
            return Err(CallFault::ArgumentsNotObject { name: incoming.name, found: kind_of(&other) });
        }
    };
    Ok(Draft { caller: incoming.caller, client: incoming.client, tool, arguments, meta: incoming.meta })
}

fn kind_of(value: &RawJson) -> &'static str {
    match value.as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}
