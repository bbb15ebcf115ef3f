//! Stage 6, seal: adds the arguments that the gateway supplies, overwriting any others.

use super::fault::CallFault;
use super::inject::{InjectionContext, Injector, SealContext, Supplied};
use super::policy::Judged;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::Tool;
use crate::json::{Member, RawJson, with_members};
use crate::result::echo;
use crate::warning::Warning;
use std::fmt;
use std::sync::Arc;

/// A call as it is sent to a server. Only [`seal`] creates one.
///
/// It has two sets of arguments: the public ones, which are the caller's own and may be shown, and the final ones,
/// which include what the gateway supplied and are sent to the server only.
pub struct Sealed {
    caller: Arc<Caller>,
    client: Arc<ClientFacts>,
    tool: Arc<Tool>,
    arguments: RawJson,
    public: RawJson,
    warnings: Vec<Warning>,
    meta: Vec<Member>,
}

impl Sealed {
    /// The caller.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }
    /// What the client declares about itself.
    pub fn client(&self) -> &Arc<ClientFacts> {
        &self.client
    }
    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }
    /// The final arguments, for the server only.
    pub fn arguments(&self) -> &RawJson {
        &self.arguments
    }
    /// The caller's own arguments, which events, audit rows and notes may show.
    pub fn public_arguments(&self) -> &RawJson {
        &self.public
    }
    /// Whether the arguments contain a file token.
    pub fn carries_file_token(&self) -> bool {
        self.tool.injected.as_ref().is_some_and(|injected| !injected.files.is_empty())
            && echo::redacted(&self.arguments).is_some()
    }
    /// Warnings about the arguments: the ones that were dropped, and names that are not files.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
    /// Adds a member of the gateway to `_meta`.
    pub fn add_meta(&mut self, key: &str, value: RawJson) {
        self.meta.retain(|member| member.key != key);
        self.meta.push(Member { key: key.to_owned(), value });
    }
    /// The client's `_meta`, without the protocol's own members.
    pub fn meta(&self) -> &[Member] {
        &self.meta
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Supplied arguments must not appear in logs.
        f.debug_struct("Sealed")
            .field("user", &self.caller.user)
            .field("tool", &self.tool.exposed)
            .field("public_arguments", &self.public)
            .finish_non_exhaustive()
    }
}

/// Overwrites the arguments that the gateway supplies, and seals the call. If one cannot be supplied, the call fails:
/// a partly sealed call is never sent.
pub fn seal(
    judged: Judged,
    injectors: &[Box<dyn Injector>],
    seal_context: &SealContext<'_>,
) -> Result<Sealed, CallFault> {
    let Judged(mut draft) = judged;
    let mut supplied: Vec<Member> = Vec::new();
    let mut noted: Vec<Warning> = Vec::new();
    for injector in injectors {
        let context = InjectionContext {
            caller: &draft.caller,
            tool: &draft.tool,
            arguments: &draft.arguments,
            seal_context,
        };
        let Supplied { members, warnings } = injector.supply(&context)?;
        noted.extend(warnings);
        for member in members {
            // The first injector that supplies an argument wins.
            if !supplied.iter().any(|other| other.key == member.key) {
                supplied.push(member);
            }
        }
    }
    let missing = |argument: &str| CallFault::NotSupplied {
        name: draft.tool.exposed.to_string(),
        argument: argument.to_owned(),
    };
    for name in draft.tool.injected.iter().flat_map(|injected| injected.required()) {
        if !supplied.iter().any(|member| member.key == name) {
            return Err(missing(name));
        }
    }
    draft.warnings.append(&mut noted);
    let public = draft.arguments.clone();
    let arguments = match supplied.first() {
        None => draft.arguments,
        Some(first) => {
            let set: Vec<_> = supplied.iter().map(|member| (&*member.key, member.value.clone())).collect();
            with_members(&public, &set).map_err(|_| missing(&first.key))?
        }
    };
    let (caller, client, tool) = (draft.caller, draft.client, draft.tool);
    Ok(Sealed { caller, client, tool, arguments, public, warnings: draft.warnings, meta: draft.meta })
}
