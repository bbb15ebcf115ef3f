//! Exposure: which tools each client is shown, in which mode, and why.
//!
//! The mode depends on the settings, the client's name and the size of the catalog (`core/exposure`). The bytes of
//! each list are cached per view and form (`core/catalog/views.rs`). A legacy session's `ClientFacts` hold the tools
//! that it has loaded, which the meta tools add to (`own`).

use crate::changes::ChangeNotice;
use crate::engine::Engine;
use crate::keeper::CatalogUpdate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use toolbooth_core::call::{ArgumentMismatch, CallFault, IncomingCall};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::{ListBytes, ListKind, Tool};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::exposure::{
    self, Dialect, ListShape, Mode, ModeChoice, ModeCosts, OutputSchemas, choose, family, meta,
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

/// Why the tools that clients see changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceCause {
    /// The configuration changed.
    Configured,
    /// A server was connected for the first time.
    Discovered,
    /// A known server changed its list.
    Changed,
    /// A session loaded tools, which changes only its own list.
    Loaded,
}

impl SurfaceCause {
    /// All causes, with their words.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Configured, "configured"),
        (Self::Discovered, "discovered"),
        (Self::Changed, "changed"),
        (Self::Loaded, "loaded"),
    ];
}

/// How often the tools that clients see have changed, by cause.
#[derive(Debug, Default)]
pub struct SurfaceTally([AtomicU64; 4]);

impl SurfaceTally {
    pub(crate) fn count(&self, cause: SurfaceCause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts, by the cause's word.
    pub fn report(&self) -> [(&'static str, u64); 4] {
        SurfaceCause::ALL.map(|(cause, word)| (word, self.0[cause as usize].load(Ordering::Relaxed)))
    }
}

impl Engine {
    /// Publishes pending changes at once, without waiting for lists to become stable.
    pub async fn publish_now(&self) {
        self.update_catalog(CatalogUpdate::PublishNow).await;
    }

    /// A list as this caller's client gets it, in the era that the client speaks.
    pub fn listed(&self, kind: ListKind, caller: &Caller, client: &ClientFacts, era: Era) -> Arc<ListBytes> {
        let catalog = self.catalog();
        if kind != ListKind::Tools {
            return catalog.list(kind, caller);
        }
        let terms = self.terms().exposure.clone();
        let name = client.name();
        let view = catalog.view(caller);
        let ModeChoice { mode, .. } =
            choose(&terms, &name, caller.persona_name(), || catalog.size_of(&view, caller, &terms));
        let mut dialect = dialect_of(&name);
        if era == Era::Legacy {
            dialect.output = OutputSchemas::Objects;
        }
        let shape = ListShape { mode, dialect, terms: &terms };
        match &client.loaded {
            Some(loaded) if mode == Mode::Search => catalog.shaped_with(&view, caller, &shape, loaded),
            _ => catalog.shaped(&view, caller, &shape),
        }
    }

    /// The exposure mode for a client of this name.
    pub fn exposure(&self, caller: &Caller, client: &str) -> ModeChoice {
        let (terms, catalog) = (self.terms().exposure.clone(), self.catalog());
        let size = || catalog.size_of(&catalog.view(caller), caller, &terms);
        choose(&terms, client, caller.persona_name(), size)
    }

    /// Explains the exposure of a client of this name. Counts the tokens of every tool, so it is slow.
    pub fn explain_exposure(&self, caller: &Caller, client: &str) -> ExposureReport {
        let (terms, catalog) = (self.terms().exposure.clone(), self.catalog());
        ExposureReport {
            choice: self.exposure(caller, client),
            family: family(client).map(|family| family.word),
            weights: ModeCosts::of(&catalog, caller, dialect_of(client), &terms),
            budget: terms.tool_tokens,
        }
    }

    /// Replaces a call of `mcp_tool_call` by the call inside it, before any stage, so that all rules for the inner
    /// tool apply.
    pub(crate) fn unwrap_meta_call(&self, incoming: &mut IncomingCall) {
        if incoming.name == meta::CALL
            && let Some((name, arguments)) = meta::inner_call(incoming.arguments.as_ref())
        {
            incoming.name = name;
            incoming.arguments = arguments;
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
        self.announce(ChangeNotice::Loaded(loaded.clone()));
    }

    /// The error for invalid arguments. If the client was not shown the tool's schema, the hint contains it.
    pub(crate) fn explain_mismatch(&self, mismatch: ArgumentMismatch) -> Problem {
        let ArgumentMismatch { fault, caller, client, tool } = mismatch;
        let problem = Problem::of(&fault);
        let needs_schema =
            matches!(fault, CallFault::InvalidArguments { .. } | CallFault::ArgumentsNotObject { .. });
        if !needs_schema || tool.server.is_own() || self.exposure(&caller, &client.name()).mode == Mode::Full
        {
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
