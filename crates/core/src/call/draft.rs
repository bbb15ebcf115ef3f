//! Stage 4, draft: only what a caller may supply, checked against what the tool takes from callers.

use super::authorise::Permitted;
use super::fault::CallFault;
use super::lookalike::looks_like;
use super::situation::Situation;
use super::warning::Warning;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::{MCP_DATA, Tool};
use crate::cursor::{Cursor, Spot, cuts, without};
use crate::json::{Member, RawJson};
use crate::schema::{Objection, PublicSchema, shortened};
use std::collections::HashSet;
use std::sync::Arc;

/// How many keys are compared pairwise before a set pays off.
const FEW_KEYS: usize = 16;

/// A call with its arguments checked: what policies judge.
#[derive(Debug)]
pub struct Draft {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the client said about itself.
    pub client: Arc<ClientFacts>,
    /// The name the caller used.
    pub asked: String,
    /// The tool.
    pub tool: Arc<Tool>,
    /// How things stand.
    pub situation: Situation,
    /// The arguments the caller supplied and the tool takes: an object.
    pub arguments: RawJson,
    /// What was left out of them.
    pub warnings: Vec<Warning>,
    /// The client's `_meta`, without what belongs to the protocol.
    pub meta: Vec<Member>,
}

/// Arguments that a tool does not take, and whose they were: what helps depends on what the client has seen.
#[derive(Debug)]
pub struct Misfit {
    /// What is wrong.
    pub fault: CallFault,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// What the client said about itself.
    pub client: Arc<ClientFacts>,
    /// The tool.
    pub tool: Arc<Tool>,
}

impl From<Box<Misfit>> for CallFault {
    fn from(misfit: Box<Misfit>) -> Self {
        misfit.fault
    }
}

/// Checks the arguments: an object, or nothing, which is the empty object; what the tool does not take
/// from callers is dropped; what is left fits the tool's public schema.
pub fn draft(permitted: Permitted, situation: Situation) -> Result<Draft, Box<Misfit>> {
    let Permitted(resolved) = permitted;
    let tool = resolved.tool;
    let incoming = resolved.incoming;
    let arguments = match incoming.arguments {
        None => RawJson::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(other) => {
            let found = Cursor::new(other.as_str(), 0).kind().in_words();
            let fault = CallFault::ArgumentsNotObject { name: incoming.name, found };
            return Err(Box::new(Misfit { fault, caller: incoming.caller, client: incoming.client, tool }));
        }
    };
    let (arguments, warnings) = match check(&tool, &arguments) {
        Ok(checked) => checked,
        Err(fault) => {
            return Err(Box::new(Misfit { fault, caller: incoming.caller, client: incoming.client, tool }));
        }
    };
    Ok(Draft {
        caller: incoming.caller,
        client: incoming.client,
        asked: incoming.name,
        tool,
        situation,
        arguments,
        warnings,
        meta: incoming.meta,
    })
}

/// Checks arguments that somebody wrote in place of the caller's: nothing may be left out of them.
pub fn check_edit(tool: &Tool, arguments: &RawJson) -> Result<(), CallFault> {
    let wrong = |pointer: String, expected: String| {
        let objections = vec![Objection { pointer, expected }];
        Err(CallFault::InvalidArguments { name: tool.exposed.to_string(), objections })
    };
    if !arguments.is_object() {
        return wrong(String::new(), "an object".into());
    }
    match check(tool, arguments)?.1.first() {
        Some(warning) => wrong(String::new(), warning.to_string()),
        None => Ok(()),
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

/// Leaves out what the tool does not take from callers. If nothing is, the text stays the very same.
fn filter(
    arguments: &RawJson,
    tool: &Tool,
    schema: &PublicSchema,
    warnings: &mut Vec<Warning>,
) -> Result<RawJson, CallFault> {
    let text = arguments.as_str();
    let spots = Cursor::new(text, 0).spots();
    if let Some(twice) = repeated(&spots) {
        let expected = format!("the key {:?} stands twice", shortened(twice, 64));
        let objections = vec![Objection { pointer: String::new(), expected }];
        return Err(CallFault::InvalidArguments { name: tool.exposed.to_string(), objections });
    }
    let mut goes = |spot: &Spot<'_>| {
        let make: fn(String) -> Warning = match claim(&spot.key, tool, schema) {
            Claim::Callers => return false,
            Claim::Nobodys => Warning::Undeclared,
            Claim::Gateways => Warning::Reserved,
            Claim::LookAlike => Warning::LookAlike,
        };
        Warning::add(warnings, make, &spot.key);
        true
    };
    let gone: Vec<bool> = spots.iter().map(&mut goes).collect();
    if !gone.contains(&true) {
        return Ok(arguments.clone());
    }
    let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
    Ok(RawJson::trusted(without(text, cuts(&places, |index| gone[index]))))
}

/// A key that stands twice: whoever checks may read one of the values and the server the other.
fn repeated<'s>(spots: &'s [Spot<'_>]) -> Option<&'s str> {
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

/// Whose an argument is to give.
enum Claim {
    Callers,
    Gateways,
    /// It is none of the gateway's, but could be taken for one.
    LookAlike,
    Nobodys,
}

fn claim(key: &str, tool: &Tool, schema: &PublicSchema) -> Claim {
    let inject = &tool.server.inject;
    let hidden = tool.injected.as_ref().is_some_and(|injected| injected.hides(key));
    // Also where a tool does not declare them: a server may read what it does not declare.
    let reserved = || {
        let identity = inject.identity.iter().map(String::as_str);
        let companions = tool.injected.iter().flat_map(|injected| &injected.companions);
        identity
            .chain(inject.mcp_data.then_some(MCP_DATA))
            .chain(companions.map(|companion| companion.name()))
    };
    if hidden || reserved().any(|name| name == key) {
        return Claim::Gateways;
    }
    if schema.names(key) {
        return Claim::Callers;
    }
    if reserved().any(|name| looks_like(key, name)) {
        return Claim::LookAlike;
    }
    if schema.takes(key) { Claim::Callers } else { Claim::Nobodys }
}
