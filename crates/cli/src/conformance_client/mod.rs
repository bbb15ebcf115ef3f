//! `toolbooth conformance-client`: the gateway's own way to servers, in front of the official suite's servers.
//!
//! Nothing is simulated but the person: a whole engine with one server connects, lists and calls as it does in
//! `toolbooth serve`. The suite names the revision, and what the scenario needs, in the environment.

mod login;
mod person;
mod script;

use crate::commands::in_runtime;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
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
use toolbooth_core::server::{EraChoice, Remote, Restart, ServerEntry, Transport};
use toolbooth_engine::{Engine, Options, ServerPlan, Standing};
use toolbooth_store::StoreUrl;
use toolbooth_upstream::http::Credential;
use toolbooth_upstream::open::Surroundings;
use toolbooth_upstream::process::Reaper;

/// The name under which the engine knows the suite's server.
const SERVER: &str = "suite";
/// How long the catalog may take to show what the server listed.
const CATALOG_PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer taken.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// What the suite says about a scenario.
pub(crate) struct Scene {
    context: Value,
    era: EraChoice,
}

impl Scene {
    fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let era = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION").as_str() {
            "" => EraChoice::Auto,
            // Dates are compared as text: what came before the stateless revision has sessions.
            version if version < "2026-07-28" => EraChoice::Legacy,
            _ => EraChoice::Modern,
        };
        let context = serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or(Value::Null);
        Self { context, era }
    }
}

/// Plays the scenario of the environment against the server at `url`.
pub fn run(url: &str) -> Outcome {
    // The suite keeps what is written here with its results.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .try_init();
    in_runtime(play(url, Scene::from_environment()))
}

async fn play(url: &str, scene: Scene) -> Outcome {
    let engine = engine(url, &scene).await.map_err(Failure::failed)?;
    let played = match connected(&engine).await {
        Ok(()) => script::play(&engine, &scene).await,
        Err(problem) => Err(problem),
    };
    engine.shut_down().await;
    played.map(|()| Exit::Ok).map_err(Failure::failed)
}

async fn engine(url: &str, scene: &Scene) -> Result<Arc<Engine>, Problem> {
    let remote = Remote { url: SecretText::plain(url), headers: BTreeMap::new() };
    let mut entry = ServerEntry::with_defaults(server_name(), Transport::Http(remote));
    entry.era = scene.era;
    // A server that refuses is not asked again: some scenarios count.
    entry.restart = Restart::Never;
    let credential = Credential::OAuth(Arc::new(login::authorizer(url, &scene.context)));
    let plan = ServerPlan {
        name: entry.name.clone(),
        hash: SERVER.to_owned(),
        standing: Standing::Run(Arc::new(entry), credential),
    };
    let surroundings = Surroundings {
        host_environment: BTreeMap::new(),
        allowed_environment: Vec::new(),
        reaper: Reaper::current_exe(),
        bundled: toolbooth_upstream::bundled::none,
        roots: Some(RawJson::from_value(&json!({ "roots": person::roots() }))),
        own_executable: "toolbooth".into(),
        answer_limit: ANSWER_LIMIT,
    };
    let naming = Naming { style: NamingStyle::Bare, ..Naming::default() };
    let options = Options {
        naming,
        max_call: Duration::from_secs(60),
        letter_key: None,
        event_ring: 0,
        tools_per_server: MAX_TOOLS,
        mcp_data_bytes: MAX_MCP_DATA,
    };
    let store = toolbooth_store::open(&StoreUrl::Memory).await.map_err(|error| Problem::of(&error))?;
    let room = toolbooth_engine::FileRoom::in_memory();
    Engine::start(options, toolbooth_engine::Terms::default(), store, room, surroundings, vec![plan]).await
}

fn server_name() -> ServerName {
    SERVER.parse().expect("a plain word is a server's name")
}

/// Waits until the server is connected and what it offers is in the catalog.
async fn connected(engine: &Engine) -> Result<(), Problem> {
    let server = engine.server(&server_name()).map_err(|error| Problem::of(&error))?;
    server.ready().await.map_err(|error| Problem::of(&error))?;
    let listed = async {
        while !engine.catalog().servers().contains_key(&server_name()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(CATALOG_PATIENCE, listed).await.map_err(|_| Problem {
        code: "conformance.no-catalog",
        blame: Blame::Gateway,
        message: "what the server listed did not reach the catalog".into(),
        hint: None,
    })
}
