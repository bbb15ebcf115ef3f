//! Exposure: which tools each client is shown, in which mode, and why.
//!
//! The mode depends on the settings, the client's name and the size of the catalog (`core/exposure`). The bytes of
//! each list are cached per view and form (`core/exposure/views.rs`). A legacy session's `ClientFacts` hold the tools
//! that it has loaded, which the meta tools add to (`own`).

mod stats;

pub use stats::{ClientExposure, ExposureStats, LoadedCount};

use crate::catalog::{ChangeNotice, LiveCatalog, SurfaceCause};
use crate::events::EventRing;
use crate::shared_state::SharedState;
use crate::terms::SharedTerms;
use std::sync::Arc;
use toolbooth_core::call::{ArgumentMismatch, CallFault};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{Catalog, ListBytes, ListKind, Tool};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::exposure::{
    self, Dialect, ListHandling, ListShape, ListedTaskSupport, Mode, ModeChoice, ModeCosts, OutputSchemas,
    choose, family, meta,
};
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_wire::Era;

/// The longest schema that is included in an error; a longer one is referred to.
const MAX_HINT_SCHEMA_BYTES: usize = 4_096;

/// Why a client is in its exposure mode, and the cost of each mode.
#[derive(Debug, Clone)]
pub struct ExposureReport {
    /// The mode, and why it was chosen.
    pub choice: ModeChoice,
    /// The word for the kind of client, if it is known.
    pub family: Option<&'static str>,
    /// The cost of each mode, in tokens.
    pub weights: ModeCosts,
    /// The token limit up to which `auto` lists all definitions.
    pub budget: u32,
}

/// Decides which tools each client is shown, and how.
pub struct Exposure {
    catalog: Arc<LiveCatalog>,
    terms: SharedTerms,
    events: Arc<EventRing>,
    stats: ExposureStats,
}

impl std::fmt::Debug for Exposure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exposure").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Exposure {
    pub(crate) fn new(shared: &SharedState, catalog: Arc<LiveCatalog>) -> Self {
        let (terms, events) = (shared.terms.clone(), shared.events.clone());
        Self { catalog, terms, events, stats: ExposureStats::new(shared.clock.clone()) }
    }

    pub(crate) fn catalog(&self) -> &Arc<LiveCatalog> {
        &self.catalog
    }

    /// Statistics on what clients were shown of the catalog.
    pub fn stats(&self) -> &ExposureStats {
        &self.stats
    }

    /// A list as this caller's client gets it, in the era that the client speaks.
    pub fn listed(&self, kind: ListKind, caller: &Caller, client: &ClientFacts, era: Era) -> Arc<ListBytes> {
        let catalog = self.catalog.load();
        if kind != ListKind::Tools {
            return catalog.list(kind, caller);
        }
        let terms = self.terms.load().exposure.clone();
        let name = client.name();
        let view = catalog.view(caller);
        let ModeChoice { mode, .. } =
            choose(&terms, &name, caller.persona_name(), |most| catalog.size_of(&view, caller, &terms, most));
        let mut dialect = dialect_of(&name);
        if era == Era::Legacy {
            dialect.output = OutputSchemas::Objects;
            // A task costs further requests, so it is suggested only to clients that know tasks.
            dialect.tasks = match client.can("tasks") {
                true => ListedTaskSupport::Optional,
                false => ListedTaskSupport::NotRequired,
            };
        }
        let shape = ListShape { mode, dialect, terms: &terms };
        match &client.loaded {
            Some(loaded) if mode == Mode::Search => catalog.shaped_with(&view, caller, &shape, loaded),
            _ => catalog.shaped(&view, caller, &shape),
        }
    }

    /// The exposure mode for a client of this name.
    pub fn mode(&self, caller: &Caller, client: &str) -> ModeChoice {
        self.mode_in(&self.catalog.load(), caller, client)
    }

    fn mode_in(&self, catalog: &Catalog, caller: &Caller, client: &str) -> ModeChoice {
        let terms = self.terms.load().exposure.clone();
        let size = |most| catalog.size_of(&catalog.view(caller), caller, &terms, most);
        choose(&terms, client, caller.persona_name(), size)
    }

    /// Explains the exposure of a client of this name. Counts the tokens of every tool, so it is slow.
    pub fn explain(&self, caller: &Caller, client: &str) -> ExposureReport {
        let (terms, catalog) = (self.terms.load().exposure.clone(), self.catalog.load());
        ExposureReport {
            choice: self.mode_in(&catalog, caller, client),
            family: family(client).map(|family| family.word),
            weights: ModeCosts::of(&catalog, caller, dialect_of(client), &terms),
            budget: match family(client).map(|family| family.listing) {
                Some(ListHandling::Program) => terms.sdk_tokens,
                _ => terms.tool_tokens,
            },
        }
    }

    /// Records tools as loaded by a client's session, and notifies that session's stream.
    pub(crate) fn load<'a>(
        &self,
        caller: &Caller,
        client: &ClientFacts,
        tools: impl Iterator<Item = &'a Arc<Tool>>,
    ) {
        let Some(loaded) = &client.loaded else { return };
        if self.mode(caller, &client.name()).mode != Mode::Search {
            return;
        }
        let tools: Vec<&Arc<Tool>> = tools.collect();
        let new = loaded.add(tools.iter().map(|tool| &*tool.exposed));
        if new.is_empty() {
            return;
        }
        for tool in tools.iter().filter(|tool| new.contains(&&*tool.exposed)) {
            let event = Event::new(EventKind::ToolDynamicLoad).user(caller.user.clone());
            self.events.emit(event.server(tool.server_name()).tool(tool.name.clone()));
        }
        self.catalog.surface_tally().count(SurfaceCause::Loaded);
        self.catalog.announce(ChangeNotice::Loaded(loaded.clone()));
    }

    /// The error for invalid arguments. If the client was not shown the tool's schema, the hint contains it.
    pub(crate) fn explain_mismatch(&self, catalog: &Catalog, mismatch: ArgumentMismatch) -> Problem {
        let ArgumentMismatch { fault, caller, client, tool } = mismatch;
        let problem = Problem::of(&fault);
        let needs_schema =
            matches!(fault, CallFault::InvalidArguments { .. } | CallFault::ArgumentsNotObject { .. });
        let mode = || self.mode_in(catalog, &caller, &client.name()).mode;
        if !needs_schema || tool.server.is_own() || mode() == Mode::Full {
            return problem;
        }
        let schema = tool.input_schema();
        let schema = match schema.as_bytes().len() <= MAX_HINT_SCHEMA_BYTES {
            true => format!("the schema of `{}`: {schema}", tool.exposed),
            false => {
                format!(
                    "`{}` describes the arguments of `{}`",
                    meta::DESCRIBE,
                    exposure::signature(&tool, 12)
                )
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
