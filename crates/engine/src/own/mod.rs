//! The gateway's own tools: in the catalog like any server's, and run in this process.

mod artifact_read;
mod describing;
mod jq;
mod searching;

use crate::answer::{Answer, ResultFacts};
use crate::engine::Engine;
use crate::keeper::Part;
use std::sync::Arc;
use tokio::sync::Semaphore;
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::Discovery;
use toolbooth_core::exposure::meta;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::result::budget::READER;
use toolbooth_core::server::{ServerEntry, SideEffects, Transport};
use toolbooth_wire::Era;

/// Under what name the gateway stands among the servers.
const NAME: &str = "_toolbooth";

/// How many of our own tools' calls do something costly at once; others wait for their turn.
#[derive(Debug)]
pub(crate) struct Seats {
    /// With a file in memory.
    pub(crate) reading: Semaphore,
    /// With a filter's process beside.
    pub(crate) filtering: Semaphore,
}

impl Default for Seats {
    fn default() -> Self {
        Self { reading: Semaphore::new(8), filtering: Semaphore::new(2) }
    }
}

impl Engine {
    /// Puts the gateway's own tools into the catalog, those that its terms ask for.
    pub async fn offer_own_tools(&self) {
        let Ok(name) = NAME.parse::<ServerName>() else { return };
        let budget = self.terms().results.budget;
        let mut tools = meta::definitions().to_vec();
        tools.extend(budget.map(|_| artifact_read::definition()));
        let discovery = Discovery { tools, ..Discovery::default() };
        self.offer(Part::Own { entry: entry(name), discovery }).await;
    }

    /// Runs one of the gateway's own tools.
    pub(crate) async fn run_own(&self, call: &Sealed) -> Result<Answer, Problem> {
        match &*call.tool().name {
            READER => Ok(done(self.artifact_read(call).await)),
            meta::SEARCH => Ok(done_as("toolbooth/search", self.search_tools(call).await)),
            meta::LIST => Ok(done(self.list_tools(call))),
            meta::DESCRIBE => Ok(done(self.describe_tool(call))),
            // A call inside a call became that call before anything else was done with it: this is none.
            meta::CALL => Ok(done(Err(format!(
                "`{}` calls other tools: give the name of one, and its arguments",
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
    entry.defaults.requires_consent = false;
    entry.defaults.allow_parallel = Some(true);
    entry.inject = toolbooth_core::server::Inject::nothing();
    Arc::new(entry)
}

/// What one of our tools gives back: blocks of content and what they are, or why not.
type Told = Result<(Vec<RawJson>, RawJson), String>;

fn done(told: Told) -> Answer {
    done_as("toolbooth/read", told)
}

/// The same, with what the blocks are under a name of its own.
fn done_as(name: &str, told: Told) -> Answer {
    let mut result = ObjectWriter::with_capacity(512);
    let is_error = told.is_err();
    let (blocks, about) = told.unwrap_or_else(|why| (vec![text_block(&why)], RawJson::empty_object()));
    let blocks: Vec<&str> = blocks.iter().map(RawJson::as_str).collect();
    result.raw("content", &RawJson::trusted(format!("[{}]", blocks.join(","))));
    if is_error {
        result.raw("isError", &RawJson::from_value(&true));
    } else {
        let mut meta = ObjectWriter::default();
        meta.raw(name, &about);
        result.raw("_meta", &meta.finish());
    }
    let facts = ResultFacts { is_error, has_extras: true, odd_structure: false };
    Answer::Result { result: result.finish(), era: Era::Legacy, facts, warnings: Vec::new() }
}

fn text_block(text: &str) -> RawJson {
    let mut block = ObjectWriter::with_capacity(text.len() + 32);
    block.text("type", "text").text("text", text);
    block.finish()
}
