//! What each client is shown: the mode chosen for it, its list of tools, and why it is that.

use crate::changes::Change;
use crate::engine::Engine;
use crate::keeper::Part;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolbooth_core::call::{CallFault, Incoming, Misfit};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{ListBytes, ListKind, Tool};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::exposure::{self, Choice, Dialect, Mode, Output, Shape, Weights, choose, family, meta};
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_wire::Era;

/// The longest schema that an error carries; a longer one is named instead.
const MAX_TOLD_SCHEMA: usize = 4_096;

/// Why a client is shown what it is, and what each mode would cost it.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The mode and why it was chosen.
    pub choice: Choice,
    /// The word for the client, where it is known.
    pub family: Option<&'static str>,
    /// What each mode costs, in tokens.
    pub weights: Weights,
    /// Tokens of definitions that `auto` lists.
    pub budget: u32,
}

/// Why what clients are shown is another than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceCause {
    /// The operator's files say something else.
    Configured,
    /// A server was heard for the first time.
    Discovered,
    /// A server that clients know lists something else.
    Changed,
    /// A session loaded tools: its own list alone.
    Loaded,
}

impl SurfaceCause {
    /// All of them, with their words.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Configured, "configured"),
        (Self::Discovered, "discovered"),
        (Self::Changed, "changed"),
        (Self::Loaded, "loaded"),
    ];
}

/// How often what clients are shown has changed, by cause.
#[derive(Debug, Default)]
pub struct SurfaceTally([AtomicU64; 4]);

impl SurfaceTally {
    pub(crate) fn count(&self, cause: SurfaceCause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers, by the cause's word.
    pub fn report(&self) -> [(&'static str, u64); 4] {
        SurfaceCause::ALL.map(|(cause, word)| (word, self.0[cause as usize].load(Ordering::Relaxed)))
    }
}

impl Engine {
    /// Publishes at once what servers list by now, without waiting for them to come to rest.
    pub async fn publish_now(&self) {
        self.offer(Part::Now).await;
    }

    /// A list as this caller's client, which speaks this era, is shown it.
    pub fn listed(&self, kind: ListKind, caller: &Caller, client: &ClientFacts, era: Era) -> Arc<ListBytes> {
        let catalog = self.catalog();
        if kind != ListKind::Tools {
            return catalog.list(kind, caller);
        }
        let terms = self.terms().exposure.clone();
        let name = client.name();
        let view = catalog.view(caller);
        let Choice { mode, .. } =
            choose(&terms, &name, caller.persona_name(), || catalog.size_of(&view, caller, &terms));
        let mut dialect = dialect_of(&name);
        if era == Era::Legacy {
            dialect.output = Output::Objects;
        }
        let shape = Shape { mode, dialect, terms: &terms };
        match &client.loaded {
            Some(loaded) if mode == Mode::Search => catalog.shaped_with(&view, caller, &shape, loaded),
            _ => catalog.shaped(&view, caller, &shape),
        }
    }

    /// The mode for a client of this name.
    pub fn exposure(&self, caller: &Caller, client: &str) -> Choice {
        let (terms, catalog) = (self.terms().exposure.clone(), self.catalog());
        let size = || catalog.size_of(&catalog.view(caller), caller, &terms);
        choose(&terms, client, caller.persona_name(), size)
    }

    /// Why a client of this name is shown what it is. Weighs every tool: for those who ask.
    pub fn explain_exposure(&self, caller: &Caller, client: &str) -> Explained {
        let (terms, catalog) = (self.terms().exposure.clone(), self.catalog());
        Explained {
            choice: self.exposure(caller, client),
            family: family(client).map(|family| family.word),
            weights: Weights::of(&catalog, caller, dialect_of(client), &terms),
            budget: terms.tool_tokens,
        }
    }

    /// Makes a call of `mcp_tool_call` the call inside it, before anything else is done: everything that holds for
    /// the inner tool holds, and there is no second path.
    pub(crate) fn unwrap_inner(&self, incoming: &mut Incoming) {
        if incoming.name == meta::CALL
            && let Some((name, arguments)) = meta::inner_call(incoming.arguments.as_ref())
        {
            incoming.name = name;
            incoming.arguments = arguments;
        }
    }

    /// Notes tools as loaded by a client's session, and tells that session's stream.
    pub(crate) fn load<'a>(
        &self,
        caller: &Caller,
        client: &ClientFacts,
        tools: impl Iterator<Item = &'a Arc<Tool>>,
    ) {
        let Some(loaded) = &client.loaded else { return };
        if self.exposure(caller, &client.name()).mode != Mode::Search {
            return;
        }
        let tools: Vec<&Arc<Tool>> = tools.collect();
        let new = loaded.add(tools.iter().map(|tool| &*tool.exposed));
        if new.is_empty() {
            return;
        }
        for tool in tools.iter().filter(|tool| new.contains(&&*tool.exposed)) {
            let event = Event::new(EventKind::ToolDynamicLoad).user(caller.user.clone());
            self.emit(event.server(tool.server_name()).tool(tool.name.clone()));
        }
        self.surface_tally().count(SurfaceCause::Loaded);
        self.announce(Change::Loaded(loaded.clone()));
    }

    /// What to tell of arguments that do not fit: with the schema, where the client was not shown it.
    pub(crate) fn explain_misfit(&self, misfit: Misfit) -> Problem {
        let Misfit { fault, caller, client, tool } = misfit;
        let problem = Problem::of(&fault);
        let told = matches!(fault, CallFault::InvalidArguments { .. } | CallFault::ArgumentsNotObject { .. });
        if !told || tool.server.is_own() || self.exposure(&caller, &client.name()).mode == Mode::Full {
            return problem;
        }
        let schema = tool.input_schema();
        let schema = match schema.as_bytes().len() <= MAX_TOLD_SCHEMA {
            true => format!("the arguments of `{}`: {schema}", tool.exposed),
            false => {
                format!("`{}` gives the arguments of `{}`", meta::DESCRIBE, exposure::signature(&tool, 12))
            }
        };
        let hint = match fault.hint() {
            Some(hint) => format!("{hint}; {schema}"),
            None => schema,
        };
        Problem { hint: Some(hint), ..problem }
    }
}

fn dialect_of(client: &str) -> Dialect {
    family(client).map_or(Dialect::ANY, |family| family.dialect)
}
