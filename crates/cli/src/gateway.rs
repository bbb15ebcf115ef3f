//! Builds a gateway from its configuration.

use crate::failure::CommandFailure;
use crate::global_options::GlobalOptions;
use crate::running_gateway::{find_running, mention_stopping};
use crate::secrets::SecretsKey;
use crate::{callers, file_storage, sign_in, terms};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbooth_config::settings::NamingStyleSetting;
use toolbooth_config::{FileDiscovery, LoadedConfig, ServerConfigState, Settings, Sources};
use toolbooth_core::catalog::{Naming, NamingStyle};
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::server::{InjectionSettings, OutboundAuth, ServerEntry, Transport};
use toolbooth_engine::{
    DesiredServer, DesiredState, Engine, EngineOptions, LoadedManifests, Vaults, WorkManifests,
};
use toolbooth_server::connections::{ConnectionLimits, ConnectionSharing, Connections};
use toolbooth_server::guard::RequestGuard;
use toolbooth_server::identify::Authenticator;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_server::mcp::session::Sessions;
use toolbooth_server::mcp::streams::Streams;
use toolbooth_store::{AuditRetention, Retention, Store, StoreUrl};
use toolbooth_upstream::ServerState;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::peer::ResultReading;
use toolbooth_upstream::process::Reaper;

/// The sources of the configuration that the command line selects.
pub fn sources(global: &GlobalOptions) -> Result<Sources, Problem> {
    let mut sources = Sources::from_process();
    sources.sealer = Some(SecretsKey::of(&sources));
    sources.config_files = global.config.clone();
    sources.config_dir = global.config_dir.clone();
    sources.config_overrides = global.config_overrides.clone();
    sources.mcp_config = global.mcp_config.clone();
    sources.llm_config = global.llm_config.clone();
    sources.rag_sources_config = global.rag_sources_config.clone();
    sources.env_file = global.env_file.clone();
    sources.data_dir = global.data_dir.clone();
    if global.no_project {
        sources.discovery = FileDiscovery::WithoutProject;
    }
    for pair in &global.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Problem {
                code: "usage.set",
                blame: Blame::Caller,
                message: format!("`--set {pair}` is not KEY=VALUE"),
                hint: Some("for example --set naming.style=tool".into()),
            });
        };
        sources.overrides.push((key.to_owned(), value.to_owned()));
    }
    Ok(sources)
}

/// Loads the configuration that the command line selects.
pub fn load(global: &GlobalOptions) -> Result<(Sources, LoadedConfig), CommandFailure> {
    let mut sources = sources(global).map_err(CommandFailure::usage)?;
    let loaded = toolbooth_config::load_with_trust(&mut sources)
        .map_err(|failure| CommandFailure::config(&failure))?;
    Ok((sources, loaded))
}

/// The data directory, even if the configuration cannot be loaded.
pub fn data_dir(sources: &Sources) -> PathBuf {
    // Loaded with trust, because a trusted project file may set the directory.
    match toolbooth_config::load_with_trust(&mut sources.clone()) {
        Ok(loaded) => loaded.settings.data_dir,
        Err(_) => {
            sources.data_dir.as_ref().map_or_else(|| sources.default_data_dir(), |dir| sources.absolute(dir))
        }
    }
}

/// The files and settings of the command line, as text that two processes can compare.
pub fn named(sources: &Sources) -> Vec<String> {
    let files = sources.config_files.iter().map(|file| ("config", Some(file)));
    let others = [
        ("config-dir", sources.config_dir.as_ref()),
        ("config-overrides", sources.config_overrides.as_ref()),
        ("mcp-config", sources.mcp_config.as_ref()),
        ("llm-config", sources.llm_config.as_ref()),
        ("env-file", sources.env_file.as_ref()),
    ];
    let whole = |(flag, path): (&str, Option<&PathBuf>)| {
        Some(format!("{flag}={}", sources.absolute(path?).display()))
    };
    let settings = sources.overrides.iter().filter(|(key, _)| key != "listen");
    let settings = settings.map(|(key, value)| {
        // The list is written to a file, and a value may be a secret.
        let digest = Sha256::digest(value.as_bytes());
        format!("set {key}={:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
    });
    let project = (sources.discovery == FileDiscovery::WithoutProject).then(|| "no-project".to_owned());
    files.chain(others).filter_map(whole).chain(project).chain(settings).collect()
}

/// The desired servers of a configuration; the bundled ones if it defines none.
pub fn plans(loaded: &LoadedConfig, vaults: &Vaults) -> Vec<DesiredServer> {
    if loaded.is_empty_of_servers() {
        return bundled();
    }
    loaded
        .servers
        .iter()
        .map(|server| DesiredServer {
            name: server.name.clone(),
            hash: server.hash.clone(),
            state: match &server.state {
                ServerConfigState::Ready(entry) => run(entry, vaults),
                ServerConfigState::Disabled(_) => DesiredState::Idle(ServerState::Disabled),
                ServerConfigState::NeedsTrust { .. } => DesiredState::Idle(ServerState::NeedsTrust),
                ServerConfigState::Broken(finding) => {
                    DesiredState::Idle(ServerState::ConfigError(finding.problem()))
                }
            },
        })
        .collect()
}

/// The vaults of the gateway's OAuth tokens for servers.
pub fn vaults(settings: &Settings, store: &Arc<dyn Store>, clock: &Arc<Clock>) -> Vaults {
    Vaults::in_folder(settings.data_dir.join("oauth"), store.clone(), clock.clone())
}

/// The desired state of a server that should run.
pub fn run(entry: &ServerEntry, vaults: &Vaults) -> DesiredState {
    if let Some(authorizer) = sign_in::authorizer(entry, vaults) {
        return DesiredState::Run(Arc::new(entry.clone()), ServerCredential::OAuth(Arc::new(authorizer)));
    }
    // A key of any value tells whether the header is valid.
    let credential = match &entry.auth {
        OutboundAuth::UserKey(auth) => {
            let keys = ServerCredential::fixed(&auth.with_key("key")).and_then(|_| vaults.user_keys(entry));
            if let Some(keys) = keys {
                let entry = entry.clone().with_key_holders(keys.holders());
                return DesiredState::Run(Arc::new(entry), ServerCredential::UserKeys(keys));
            }
            None
        }
        other => ServerCredential::fixed(other),
    };
    match credential {
        Some(credential) => DesiredState::Run(Arc::new(entry.clone()), credential),
        None => DesiredState::Idle(ServerState::ConfigError(Problem {
            code: "config.bad-credential",
            blame: Blame::Gateway,
            message: format!(
                "the credential of `{}` has characters that are not allowed in a header",
                entry.name
            ),
            hint: Some("look for line breaks in the variable that it comes from".into()),
        })),
    }
}

fn bundled() -> Vec<DesiredServer> {
    let names = crate::demo::NAMES.iter().filter_map(|name| name.parse().ok());
    names
        .map(|name: toolbooth_core::names::ServerName| {
            let transport = Transport::Bundled(name.to_string());
            let mut entry = ServerEntry::with_defaults(name.clone(), transport);
            entry.about.description = crate::demo::about(name.as_str()).map(str::to_owned);
            entry.inject = InjectionSettings::all();
            // They are part of this binary, so their annotations are trusted.
            entry.defaults.trust_annotations = Some(true);
            DesiredServer {
                name,
                hash: "bundled".into(),
                state: DesiredState::Run(Arc::new(entry), ServerCredential::None),
            }
        })
        .collect()
}

fn naming(settings: &Settings) -> Naming {
    let style = match settings.naming.style {
        NamingStyleSetting::ServerTool => NamingStyle::ServerTool,
        NamingStyleSetting::McpServerTool => NamingStyle::McpServerTool,
        NamingStyleSetting::ServerDoubleTool => NamingStyle::ServerDoubleTool,
        NamingStyleSetting::McpDotted => NamingStyle::Dotted,
        NamingStyleSetting::Tool => NamingStyle::Bare,
    };
    Naming { style, max_length: usize::from(settings.naming.max_length) }
}

fn open_context(settings: &Settings, sources: &Sources) -> OpenContext {
    let roots = (!settings.roots.is_empty()).then(|| {
        let roots: Vec<_> = settings.roots.iter().map(|uri| serde_json::json!({ "uri": uri })).collect();
        RawJson::from_value(&serde_json::json!({ "roots": roots }))
    });
    OpenContext {
        host_environment: sources.env.clone(),
        allowed_environment: settings.environment.clone(),
        reaper: Reaper::current_exe(),
        bundled: crate::demo::open,
        own_executable: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("toolbooth")),
        roots,
        answer_limit: usize::try_from(settings.limits.upstream_bytes).unwrap_or(usize::MAX),
    }
}

/// The URL of the store that the settings name.
pub fn store_url(settings: &Settings) -> Result<StoreUrl, Problem> {
    match &settings.store.url {
        Some(url) => url.expose().parse().map_err(|error| Problem::of(&error)),
        None => Ok(StoreUrl::Sqlite(settings.data_dir.join("toolbooth.db"))),
    }
}

/// Opens the store that the settings name.
pub async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, Problem> {
    toolbooth_store::open_with(&store_url(settings)?, retention(settings))
        .await
        .map_err(|error| mention_stopping(Problem::of(&error), &settings.data_dir))
}

/// The retention of the store; its defaults apply to everything that is not set.
fn retention(settings: &Settings) -> Retention {
    let usual = Retention::default();
    let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
    let audit = AuditRetention {
        max_age: settings.audit.keep_days.map_or(usual.audit.max_age, days),
        max_bytes: settings.audit.keep_bytes.unwrap_or(usual.audit.max_bytes),
    };
    Retention { audit, ..usual }
}

/// The maximum size of the event ring, which is in memory.
const MAX_EVENT_RING: usize = 1_000_000;
/// How long to wait for another command that holds the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Opens the store, and waits for a command that holds it for a moment. It does not wait for a running gateway.
pub async fn claim_store(settings: &Settings) -> Result<Arc<dyn Store>, Problem> {
    let started = Instant::now();
    loop {
        match open_store(settings).await {
            Err(problem)
                if problem.code == "store.in-use"
                    && started.elapsed() < STORE_PATIENCE
                    && find_running(&settings.data_dir).await.is_none() =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            opened => return opened,
        }
    }
}

/// The jobs and tasks of a configuration.
pub fn work_manifests(loaded: &LoadedConfig) -> WorkManifests {
    WorkManifests { jobs: loaded.jobs.clone().into(), tasks: loaded.tasks.clone().into() }
}

/// The manifests of a configuration.
pub fn manifests(loaded: &LoadedConfig) -> LoadedManifests {
    let has_value = |(name, value): (&str, &str)| (!value.is_empty()).then(|| name.to_owned());
    LoadedManifests {
        entries: loaded.manifests.clone().into(),
        stale_files: loaded.kept_manifests.iter().map(|file| file.display().to_string()).collect(),
        variables: loaded.variables.iter().filter_map(has_value).collect(),
    }
}

/// Starts the engine of a configuration; `address` is the gateway's listen address, if it has one.
pub async fn engine_of(
    loaded: &LoadedConfig,
    sources: &Sources,
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    plans: Vec<DesiredServer>,
    address: Option<SocketAddr>,
) -> Result<Arc<Engine>, Problem> {
    let settings = &loaded.settings;
    let options = EngineOptions {
        clock,
        naming: naming(settings),
        max_call: settings.limits.max_call_seconds,
        letter_key: settings.dead_letters.key.clone(),
        event_ring: usize::try_from(settings.events.ring).unwrap_or(usize::MAX).min(MAX_EVENT_RING),
        tools_per_server: usize::try_from(settings.limits.tools_per_server).unwrap_or(usize::MAX),
        mcp_data_bytes: usize::try_from(settings.limits.mcp_data_bytes).unwrap_or(usize::MAX),
    };
    let terms = terms::of(loaded)?;
    let storage = file_storage::open(settings, sources, address)?;
    let engine =
        Engine::start(options, terms, store, storage, open_context(settings, sources), plans).await?;
    engine.catalog().set_manifests(manifests(loaded)).await;
    engine.skills().set(loaded.skills.clone()).await;
    engine.jobs().set_manifests(work_manifests(loaded)).await;
    engine.catalog().set_own_prompts(callers::own_prompts(settings)).await;
    Ok(engine)
}

/// Builds the MCP front end of a gateway; `address` is its listen address, if it has one.
pub fn front_end(
    engine: Arc<Engine>,
    settings: &Settings,
    authenticator: Authenticator,
    address: Option<SocketAddr>,
    stop: CancellationToken,
) -> Arc<FrontEndState> {
    let hosts = settings.allowed_hosts.clone();
    let guard = RequestGuard::new(address, settings.public_url.as_deref(), hosts, &settings.allowed_origins);
    let limits = ConnectionLimits::of_process(ConnectionSharing::PerUser);
    let sessions = usize::try_from(settings.limits.sessions).unwrap_or(usize::MAX);
    let front_end = FrontEndState {
        engine,
        guard,
        authenticator,
        sessions: Sessions::new(sessions, sessions),
        client_calls: Arc::default(),
        connections: Connections::new(limits),
        streams: Streams::within(limits),
        body_limit: usize::try_from(settings.limits.body_bytes).unwrap_or(usize::MAX),
        reading: ResultReading::InPieces,
        keep_alive: Duration::from_secs(15),
        stop,
        folders: OnceLock::new(),
    };
    front_end.update_quotas();
    Arc::new(front_end)
}
