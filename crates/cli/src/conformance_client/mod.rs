//! `toolbooth conformance-client`: runs the gateway's client side against the servers of the official suite.
//!
//! Only the user is simulated: a complete engine with one server connects, lists and calls as in `toolbooth serve`.
//! The suite passes the revision and the scenario's context in environment variables.

mod login;
mod person;
mod script;

use crate::commands::in_runtime;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::inject::MAX_MCP_DATA;
use toolbooth_core::catalog::{MAX_TOOLS, Naming, NamingStyle};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::secret::SecretText;
use toolbooth_core::server::{EraChoice, RemoteEndpoint, Restart, ServerEntry, Transport};
use toolbooth_engine::{DesiredServer, DesiredState, Engine, EngineOptions};
use toolbooth_store::StoreUrl;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::process::Reaper;

/// The name of the suite's server in the engine.
const SERVER: &str = "suite";
/// How long the catalog may take to include the server's tools.
const CATALOG_PATIENCE: Duration = Duration::from_secs(2);
/// The maximum size of an answer.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// A scenario of the suite.
pub(crate) struct SuiteScenario {
    context: Value,
    era: EraChoice,
}

impl SuiteScenario {
    fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let era = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION").as_str() {
            "" => EraChoice::Auto,
            // Revisions are dates that compare as text: those before the stateless revision have sessions.
            version if version < "2026-07-28" => EraChoice::Legacy,
            _ => EraChoice::Modern,
        };
        let context = serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or(Value::Null);
        Self { context, era }
    }
}

/// Runs the scenario of the environment against the server at `url`.
pub fn run(url: &str) -> CommandResult {
    // The suite stores standard error with its results.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .try_init();
    in_runtime(run_scenario(url, SuiteScenario::from_environment()))
}

async fn run_scenario(url: &str, scenario: SuiteScenario) -> CommandResult {
    let engine = engine(url, &scenario).await.map_err(CommandFailure::failed)?;
    let outcome = match connected(&engine).await {
        Ok(()) => script::run_scenario(&engine, &scenario).await,
        Err(problem) => Err(problem),
    };
    engine.shut_down().await;
    outcome.map(|()| Exit::Ok).map_err(CommandFailure::failed)
}

async fn engine(url: &str, scenario: &SuiteScenario) -> Result<Arc<Engine>, Problem> {
    let remote = RemoteEndpoint { url: SecretText::plain(url), headers: BTreeMap::new() };
    let mut entry = ServerEntry::with_defaults(server_name(), Transport::Http(remote));
    entry.era = scenario.era;
    // No retries, because some scenarios count the requests.
    entry.restart = Restart::Never;
    let credential = ServerCredential::OAuth(Arc::new(login::authorizer(url, &scenario.context)));
    let plan = DesiredServer {
        name: entry.name.clone(),
        hash: SERVER.to_owned(),
        state: DesiredState::Run(Arc::new(entry), credential),
    };
    let open_context = OpenContext {
        host_environment: BTreeMap::new(),
        allowed_environment: Vec::new(),
        reaper: Reaper::current_exe(),
        bundled: toolbooth_upstream::bundled::none,
        roots: Some(RawJson::from_value(&json!({ "roots": person::roots() }))),
        own_executable: "toolbooth".into(),
        answer_limit: ANSWER_LIMIT,
    };
    let naming = Naming { style: NamingStyle::Bare, ..Naming::default() };
    let options = EngineOptions {
        clock: toolbooth_engine::clock::system_clock(),
        naming,
        max_call: Duration::from_secs(60),
        letter_key: None,
        event_ring: 0,
        tools_per_server: MAX_TOOLS,
        mcp_data_bytes: MAX_MCP_DATA,
    };
    let store = toolbooth_store::open(&StoreUrl::Memory).await.map_err(|error| Problem::of(&error))?;
    let room = toolbooth_engine::FileStorage::in_memory();
    Engine::start(options, toolbooth_engine::Terms::default(), store, room, open_context, vec![plan]).await
}

fn server_name() -> ServerName {
    SERVER.parse().expect("a plain word is a valid server name")
}

/// Waits until the server is connected and its tools are in the catalog.
async fn connected(engine: &Engine) -> Result<(), Problem> {
    let server = engine.servers().running(&server_name()).map_err(|error| Problem::of(&error))?;
    server.ready().await.map_err(|error| Problem::of(&error))?;
    let listed = async {
        while !engine.catalog().load().servers().contains_key(&server_name()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(CATALOG_PATIENCE, listed).await.map_err(|_| Problem {
        code: "conformance.no-catalog",
        blame: Blame::Gateway,
        message: "the server's tools did not appear in the catalog in time".into(),
        hint: None,
    })
}
