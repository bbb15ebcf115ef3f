//! Stage 4, draft: keeps only the arguments a caller may supply, and checks them against the tool's public schema.

use super::authorise::PermittedCall;
use super::fault::CallFault;
use super::lookalike::looks_like;
use super::situation::Situation;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{MCP_DATA, Tool};
use crate::json::{JsonCursor, Member, MemberSpan, RawJson, cuts, without};
use crate::schema::{Objection, PublicSchema, shortened};
use crate::warning::Warning;
use std::collections::HashSet;
use std::sync::Arc;

/// Up to this many keys are compared pairwise; beyond that a set is faster.
const FEW_KEYS: usize = 16;

/// A call with checked arguments. Policies judge it.
#[derive(Debug)]
pub struct Draft {
    /// The caller.
    pub caller: Arc<Caller>,
    /// What the client declares about itself.
    pub client: Arc<ClientFacts>,
    /// The name the caller used.
    pub requested_name: String,
    /// The tool.
    pub tool: Arc<Tool>,
    /// Context for policies, looked up by the engine.
    pub situation: Situation,
    /// The arguments that the caller supplied and the tool accepts: an object.
    pub arguments: RawJson,
    /// The arguments that were dropped.
    pub warnings: Vec<Warning>,
    /// The client's `_meta`, without the protocol's own members.
    pub meta: Vec<Member>,
}

/// Arguments that do not fit a tool, with the context that the hint depends on.
#[derive(Debug)]
pub struct ArgumentMismatch {
    /// The error.
    pub fault: CallFault,
    /// The caller.
    pub caller: Arc<Caller>,
    /// What the client declares about itself.
    pub client: Arc<ClientFacts>,
    /// The tool.
    pub tool: Arc<Tool>,
}

impl From<Box<ArgumentMismatch>> for CallFault {
    fn from(misfit: Box<ArgumentMismatch>) -> Self {
        misfit.fault
    }
}

/// Checks the arguments. They must be an object (absent means empty); those that callers may not supply are dropped;
/// the rest must fit the tool's public schema.
pub fn draft(permitted: PermittedCall, situation: Situation) -> Result<Draft, Box<ArgumentMismatch>> {
    let PermittedCall(resolved) = permitted;
    let tool = resolved.tool;
    let incoming = resolved.incoming;
    let arguments = match incoming.arguments {
        None => RawJson::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(other) => {
            let found = JsonCursor::new(other.as_str(), 0).kind().in_words();
            let fault = CallFault::ArgumentsNotObject { name: incoming.name, found };
            return Err(Box::new(ArgumentMismatch {
                fault,
                caller: incoming.caller,
                client: incoming.client,
                tool,
            }));
        }
    };
    let (arguments, warnings) = match check(&tool, &arguments) {
        Ok(checked) => checked,
        Err(fault) => {
            return Err(Box::new(ArgumentMismatch {
                fault,
                caller: incoming.caller,
                client: incoming.client,
                tool,
            }));
        }
    };
    Ok(Draft {
        caller: incoming.caller,
        client: incoming.client,
        requested_name: incoming.name,
        tool,
        situation,
        arguments,
        warnings,
        meta: incoming.meta,
    })
}

/// Checks arguments that an approver wrote in place of the caller's, and returns them without those that the gateway
/// supplies. None of the others may be dropped.
pub fn check_edit(tool: &Tool, arguments: &RawJson) -> Result<RawJson, CallFault> {
    let wrong = |pointer: String, expected: String| {
        let objections = vec![Objection { pointer, expected }];
        Err(CallFault::InvalidArguments { name: tool.exposed.to_string(), objections })
    };
    if !arguments.is_object() {
        return wrong(String::new(), "an object".into());
    }
    let (arguments, dropped) = check(tool, arguments)?;
    match dropped.iter().find(|warning| !matches!(warning, Warning::Reserved(_))) {
        None => Ok(arguments),
        Some(Warning::Undeclared(name)) => {
            wrong(String::new(), format!("the tool does not declare the argument {name:?}"))
        }
        Some(Warning::LookAlike(name)) => {
            wrong(String::new(), format!("the argument {name:?} looks like one that the gateway supplies"))
        }
        Some(_) => wrong(String::new(), "too many arguments that the tool does not declare".into()),
    }
}

fn check(tool: &Tool, arguments: &RawJson) -> Result<(RawJson, Vec<Warning>), CallFault> {
    let schema = tool.public_schema();
    let mut warnings = Vec::new();
    let arguments = filter(arguments, tool, schema, &mut warnings)?;
    let objections = schema.objections(&arguments);
    if !objections.is_empty() {
        return Err(CallFault::InvalidArguments { name: tool.exposed.to_string(), objections });
    }
    Ok((arguments, warnings))
}

/// Drops the arguments that callers may not supply. If there are none, the text stays the same.
fn filter(
    arguments: &RawJson,
    tool: &Tool,
    schema: &PublicSchema,
    warnings: &mut Vec<Warning>,
) -> Result<RawJson, CallFault> {
    let text = arguments.as_str();
    let spots = JsonCursor::new(text, 0).member_spans();
    if let Some(twice) = repeated(&spots) {
        let expected = format!("the key {:?} occurs twice", shortened(twice, 64));
        let objections = vec![Objection { pointer: String::new(), expected }];
        return Err(CallFault::InvalidArguments { name: tool.exposed.to_string(), objections });
    }
    let mut is_dropped = |spot: &MemberSpan<'_>| {
        let make: fn(String) -> Warning = match owner_of(&spot.key, tool, schema) {
            ArgumentOwner::Caller => return false,
            ArgumentOwner::Undeclared => Warning::Undeclared,
            ArgumentOwner::Gateway => Warning::Reserved,
            ArgumentOwner::LookAlike => Warning::LookAlike,
        };
        Warning::add(warnings, make, &spot.key);
        true
    };
    let gone: Vec<bool> = spots.iter().map(&mut is_dropped).collect();
    if !gone.contains(&true) {
        return Ok(arguments.clone());
    }
    let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
    Ok(RawJson::trusted(without(text, cuts(&places, |index| gone[index]))))
}

/// A key that occurs twice. The gateway could check one of the values and the server read the other.
fn repeated<'s>(spots: &'s [MemberSpan<'_>]) -> Option<&'s str> {
    if spots.len() <= FEW_KEYS {
        let mut rest = spots;
        while let Some((spot, before)) = rest.split_last() {
            if before.iter().any(|other| other.key == spot.key) {
                return Some(&spot.key);
            }
            rest = before;
        }
        return None;
    }
    let mut seen = HashSet::with_capacity(spots.len());
    spots.iter().map(|spot| &*spot.key).find(|key| !seen.insert(*key))
}

/// Who may supply an argument.
enum ArgumentOwner {
    Caller,
    Gateway,
    /// No one: the name could be mistaken for one that the gateway supplies.
    LookAlike,
    /// No one: the tool does not declare it.
    Undeclared,
}

fn owner_of(key: &str, tool: &Tool, schema: &PublicSchema) -> ArgumentOwner {
    let inject = &tool.server.inject;
    let hidden = tool.injected.as_ref().is_some_and(|injected| injected.hides(key));
    // Even if the tool does not declare them: a server may read arguments that it does not declare.
    let reserved = || {
        let identity = inject.identity.iter().map(String::as_str);
        let companions = tool.injected.iter().flat_map(|injected| &injected.companions);
        identity
            .chain(inject.mcp_data.then_some(MCP_DATA))
            .chain(companions.map(|companion| companion.name()))
    };
    if hidden || reserved().any(|name| name == key) {
        return ArgumentOwner::Gateway;
    }
    if schema.names(key) {
        return ArgumentOwner::Caller;
    }
    if reserved().any(|name| looks_like(key, name)) {
        return ArgumentOwner::LookAlike;
    }
    if schema.takes(key) { ArgumentOwner::Caller } else { ArgumentOwner::Undeclared }
}
