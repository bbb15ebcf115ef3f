//! Stage 6, seal: the gateway supplies its own arguments, last, over whatever was there.

use super::policy::Judged;
use crate::caller::{Caller, ClientFacts};
use crate::catalog::Tool;
use crate::json::{Member, RawJson, with_members};
use std::sync::Arc;

/// What an injector may look at.
#[derive(Debug)]
pub struct InjectionContext<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The tool.
    pub tool: &'a Tool,
    /// The arguments so far.
    pub arguments: &'a RawJson,
}

/// Supplies one argument of the gateway's own.
pub trait Injector: Send + Sync {
    /// The argument's name.
    fn argument(&self) -> &str;
    /// Its value; `None` when this call does not take it.
    fn value(&self, context: &InjectionContext<'_>) -> Option<RawJson>;
}

/// A call as it goes to a server. Only [`seal`] makes one.
#[derive(Debug)]
pub struct Sealed {
    caller: Arc<Caller>,
    client: Arc<ClientFacts>,
    tool: Arc<Tool>,
    arguments: RawJson,
    meta: Vec<Member>,
}

impl Sealed {
    /// Who calls.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }
    /// What the client said about itself.
    pub fn client(&self) -> &Arc<ClientFacts> {
        &self.client
    }
    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }
    /// The final arguments.
    pub fn arguments(&self) -> &RawJson {
        &self.arguments
    }
    /// The client's `_meta`, without what belongs to the protocol.
    pub fn meta(&self) -> &[Member] {
        &self.meta
    }
}

/// Overwrites the arguments that are the gateway's to give, and closes the call.
pub fn seal(judged: Judged, injectors: &[Box<dyn Injector>]) -> Sealed {
    let Judged(draft) = judged;
    let mut arguments = draft.arguments;
    for injector in injectors {
        let context = InjectionContext { caller: &draft.caller, tool: &draft.tool, arguments: &arguments };
        if let Some(value) = injector.value(&context)
            && let Ok(with) = with_members(&arguments, &[(injector.argument(), value)])
        {
            arguments = with;
        }
    }
    Sealed { caller: draft.caller, client: draft.client, tool: draft.tool, arguments, meta: draft.meta }
}
