//! The gateway's own tools: listed in the catalog like those of a server, and run in this process.
//!
//! They belong to a server without a process, and their calls pass the same stages as all others. A call of
//! `mcp_tool_call` is replaced by the call inside it before the first stage (`unwrap_meta_call` in `call.rs`).

mod artifact_read;
mod canvas;
mod context_stats;
mod jq;
mod tool_list;
mod tool_search;

use crate::answer::{Answer, ResultFacts};
use crate::catalog::{CatalogUpdate, LiveCatalog};
use crate::exposure::Exposure;
use crate::files::CallerFiles;
use crate::search::ToolSearch;
use crate::terms::SharedTerms;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::Discovery;
use toolbooth_core::exposure::meta;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::manifest::ConsentTerm;
use toolbooth_core::names::ServerName;
use toolbooth_core::own_names::{CANVAS, OWN_SERVER};
use toolbooth_core::result::budget::{READER, text_block};
use toolbooth_core::server::{ServerEntry, SideEffects, Transport};
use toolbooth_wire::Era;
use uuid::Uuid;

/// Limits on expensive calls of the gateway's own tools; further calls wait.
#[derive(Debug)]
struct OwnToolLimits {
    /// Calls that hold a file in memory.
    reading: Semaphore,
    /// Calls that run a jq process.
    filtering: Semaphore,
}

impl Default for OwnToolLimits {
    fn default() -> Self {
        Self { reading: Semaphore::new(8), filtering: Semaphore::new(2) }
    }
}

/// The gateway's own tools.
pub struct OwnTools {
    catalog: Arc<LiveCatalog>,
    exposure: Arc<Exposure>,
    search: Arc<ToolSearch>,
    files: Arc<CallerFiles>,
    terms: SharedTerms,
    /// The path of the gateway's own executable.
    executable: PathBuf,
    limits: OwnToolLimits,
}

impl std::fmt::Debug for OwnTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnTools").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl OwnTools {
    /// The tools, with the path of the gateway's own executable.
    pub(crate) fn new(
        terms: SharedTerms,
        exposure: Arc<Exposure>,
        search: Arc<ToolSearch>,
        files: Arc<CallerFiles>,
        executable: PathBuf,
    ) -> Self {
        let catalog = exposure.catalog().clone();
        Self { catalog, exposure, search, files, terms, executable, limits: OwnToolLimits::default() }
    }

    /// Adds the gateway's own tools to the catalog, as the settings require.
    pub async fn offer(&self) {
        let Ok(name) = OWN_SERVER.parse::<ServerName>() else { return };
        let budget = self.terms.load().results.budget;
        let mut tools = meta::definitions().to_vec();
        tools.push(meta::stats_definition());
        tools.push(canvas::definition());
        tools.extend(budget.map(|_| artifact_read::definition()));
        let discovery = Discovery { tools, ..Discovery::default() };
        self.catalog.update(CatalogUpdate::Own { entry: entry(name), discovery }).await;
    }

    /// Runs one of the gateway's own tools; `id` is the id of the call.
    pub(crate) async fn run(&self, call: &Sealed, id: Uuid) -> Result<Answer, Problem> {
        match &*call.tool().name {
            READER => Ok(answer(self.artifact_read(call).await)),
            meta::SEARCH => Ok(answer_as("toolbooth/search", self.search_tools(call).await)),
            meta::LIST => Ok(answer(self.list_tools(call))),
            meta::DESCRIBE => Ok(answer(self.describe_tool(call))),
            CANVAS => Ok(self.show_on_canvas(call, id).await),
            meta::STATS => Ok(answer(self.context_stats(call).await)),
            // A valid inner call has replaced this one before any stage; this one does not contain a valid call.
            meta::CALL => Ok(answer(Err(format!(
                "`{}` calls another tool: give its name and its arguments",
                meta::CALL
            )))),
            other => Err(Problem {
                code: "call.no-provider",
                blame: Blame::Gateway,
                message: format!("`{other}` has no provider"),
                hint: None,
            }),
        }
    }
}

fn entry(name: ServerName) -> Arc<ServerEntry> {
    let mut entry = ServerEntry::with_defaults(name, Transport::Own);
    entry.about.description = Some("The gateway's own tools.".into());
    entry.defaults.side_effects = SideEffects::ReadExternalService;
    entry.defaults.requires_consent = ConsentTerm::NotRequired;
    entry.defaults.allow_parallel = Some(true);
    entry.inject = toolbooth_core::server::InjectionSettings::none();
    Arc::new(entry)
}

/// The result of one of the gateway's own tools: content blocks and their metadata, or an error text.
type OwnToolResult = Result<(Vec<RawJson>, RawJson), String>;

fn answer(outcome: OwnToolResult) -> Answer {
    answer_as("toolbooth/read", outcome)
}

/// The same, with the metadata under another `_meta` key.
fn answer_as(name: &str, outcome: OwnToolResult) -> Answer {
    let mut result = ObjectWriter::with_capacity(512);
    let is_error = outcome.is_err();
    let (blocks, about) = outcome.unwrap_or_else(|why| (vec![text_block(&why)], RawJson::empty_object()));
    let blocks: Vec<&str> = blocks.iter().map(RawJson::as_str).collect();
    result.raw("content", &RawJson::trusted(format!("[{}]", blocks.join(","))));
    if is_error {
        result.raw("isError", &RawJson::from_value(&true));
    } else {
        let mut meta = ObjectWriter::default();
        meta.raw(name, &about);
        result.raw("_meta", &meta.finish());
    }
    let facts = ResultFacts { is_error, has_extras: true, ..ResultFacts::default() };
    Answer::Result { result: result.finish(), era: Era::Legacy, facts, warnings: Vec::new() }
}
