//! Putting a gateway together from its configuration.

use crate::arguments::Global;
use crate::failure::Failure;
use crate::reach::living;
use crate::{room, sign_in, terms};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use toolbooth_config::settings::NamingStyle as ConfiguredStyle;
use toolbooth_config::{Discovery, Loaded, ServerConfigState, Settings, Sources};
use toolbooth_core::catalog::{Naming, NamingStyle};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::server::{Inject, ServerEntry, Transport};
use toolbooth_engine::{Engine, Manifests, Options, ServerPlan, Standing, Vaults};
use toolbooth_server::connections::{ConnectionLimits, Connections, Sharing};
use toolbooth_server::guard::Guard;
use toolbooth_server::identify::Identity;
use toolbooth_server::mcp::Door;
use toolbooth_server::mcp::session::Sessions;
use toolbooth_server::mcp::streams::Streams;
use toolbooth_store::{AuditRetention, Retention, Store, StoreUrl};
use toolbooth_upstream::ServerState;
use toolbooth_upstream::http::Credential;
use toolbooth_upstream::open::Surroundings;
use toolbooth_upstream::peer::Reading;
use toolbooth_upstream::process::Reaper;

/// What the command line says about where the configuration is.
pub fn sources(global: &Global) -> Result<Sources, Problem> {
    let mut sources = Sources::from_process();
    sources.config_files = global.config.clone();
    sources.config_dir = global.config_dir.clone();
    sources.config_overrides = global.config_overrides.clone();
    sources.mcp_config = global.mcp_config.clone();
    sources.llm_config = global.llm_config.clone();
    sources.env_file = global.env_file.clone();
    sources.data_dir = global.data_dir.clone();
    if global.no_project {
        sources.discovery = Discovery::WithoutProject;
    }
    for pair in &global.set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(Problem {
                code: "usage.set",
                blame: Blame::Caller,
                message: format!("`--set {pair}` is no KEY=VALUE"),
                hint: Some("for example --set naming.style=tool".into()),
            });
        };
        sources.overrides.push((key.to_owned(), value.to_owned()));
    }
    Ok(sources)
}

/// Loads the configuration that the command line names.
pub fn load(global: &Global) -> Result<(Sources, Loaded), Failure> {
    let mut sources = sources(global).map_err(Failure::usage)?;
    let loaded =
        toolbooth_config::load_with_trust(&mut sources).map_err(|failure| Failure::config(&failure))?;
    Ok((sources, loaded))
}

/// Where the state of this configuration is kept, even if the configuration cannot be read.
pub fn data_dir(sources: &Sources) -> PathBuf {
    // With what is trusted: a project's file may name the folder.
    match toolbooth_config::load_with_trust(&mut sources.clone()) {
        Ok(loaded) => loaded.settings.data_dir,
        Err(_) => {
            sources.data_dir.as_ref().map_or_else(|| sources.default_data_dir(), |dir| sources.absolute(dir))
        }
    }
}

/// The files and settings that the command line names, so that two processes can compare theirs.
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
        // A value may be a secret, and the list is written to a file.
        let digest = Sha256::digest(value.as_bytes());
        format!("set {key}={:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
    });
    let project = (sources.discovery == Discovery::WithoutProject).then(|| "no-project".to_owned());
    files.chain(others).filter_map(whole).chain(project).chain(settings).collect()
}

/// What the servers of a configuration are to do. Without any, the bundled ones stand in.
pub fn plans(loaded: &Loaded, vaults: &Vaults) -> Vec<ServerPlan> {
    if loaded.is_empty_of_servers() {
        return bundled();
    }
    loaded
        .servers
        .iter()
        .map(|server| ServerPlan {
            name: server.name.clone(),
            hash: server.hash.clone(),
            standing: match &server.state {
                ServerConfigState::Ready(entry) => run(entry, vaults),
                ServerConfigState::Disabled(_) => Standing::Idle(ServerState::Disabled),
                ServerConfigState::NeedsTrust { .. } => Standing::Idle(ServerState::NeedsTrust),
                ServerConfigState::Broken(finding) => {
                    Standing::Idle(ServerState::ConfigError(finding.problem()))
                }
            },
        })
        .collect()
}

/// Where the gateway's own tokens for servers are kept.
pub fn vaults(settings: &Settings, store: &Arc<dyn Store>) -> Vaults {
    Vaults::in_folder(settings.data_dir.join("oauth"), store.clone())
}

fn run(entry: &ServerEntry, vaults: &Vaults) -> Standing {
    if let Some(authorizer) = sign_in::authorizer(entry, vaults) {
        return Standing::Run(Arc::new(entry.clone()), Credential::OAuth(Arc::new(authorizer)));
    }
    match Credential::fixed(&entry.auth) {
        Some(credential) => Standing::Run(Arc::new(entry.clone()), credential),
        None => Standing::Idle(ServerState::ConfigError(Problem {
            code: "config.bad-credential",
            blame: Blame::Gateway,
            message: format!("the credential of `{}` holds what a header may not", entry.name),
            hint: Some("look for line ends in the variable it comes from".into()),
        })),
    }
}

fn bundled() -> Vec<ServerPlan> {
    let names = crate::demo::NAMES.iter().filter_map(|name| name.parse().ok());
    names
        .map(|name: toolbooth_core::names::ServerName| {
            let transport = Transport::Bundled(name.to_string());
            let mut entry = ServerEntry::with_defaults(name.clone(), transport);
            entry.about.description = crate::demo::about(name.as_str()).map(str::to_owned);
            entry.inject = Inject::contract();
            // They came with the binary: what they say of themselves is our word.
            entry.defaults.trust_annotations = true;
            ServerPlan {
                name,
                hash: "bundled".into(),
                standing: Standing::Run(Arc::new(entry), Credential::None),
            }
        })
        .collect()
}

fn naming(settings: &Settings) -> Naming {
    let style = match settings.naming.style {
        ConfiguredStyle::ServerTool => NamingStyle::ServerTool,
        ConfiguredStyle::McpServerTool => NamingStyle::McpServerTool,
        ConfiguredStyle::ServerDoubleTool => NamingStyle::ServerDoubleTool,
        ConfiguredStyle::McpDotted => NamingStyle::Dotted,
        ConfiguredStyle::Tool => NamingStyle::Bare,
    };
    Naming { style, max_length: usize::from(settings.naming.max_length) }
}

fn surroundings(settings: &Settings, sources: &Sources) -> Surroundings {
    let roots = (!settings.roots.is_empty()).then(|| {
        let roots: Vec<_> = settings.roots.iter().map(|uri| serde_json::json!({ "uri": uri })).collect();
        RawJson::from_value(&serde_json::json!({ "roots": roots }))
    });
    Surroundings {
        host_environment: sources.env.clone(),
        allowed_environment: settings.environment.clone(),
        reaper: Reaper::current_exe(),
        bundled: crate::demo::open,
        own_executable: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("toolbooth")),
        roots,
        answer_limit: usize::try_from(settings.limits.upstream_bytes).unwrap_or(usize::MAX),
    }
}

/// Opens the store that the settings name.
pub async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, Problem> {
    let url: StoreUrl = match &settings.store.url {
        Some(url) => url.expose().parse().map_err(|error| Problem::of(&error))?,
        None => StoreUrl::Sqlite(settings.data_dir.join("toolbooth.db")),
    };
    toolbooth_store::open_with(&url, retention(settings)).await.map_err(|error| Problem::of(&error))
}

/// How long the store remembers; what nobody set stays within the store's own bounds.
fn retention(settings: &Settings) -> Retention {
    let usual = Retention::default();
    let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
    let audit = AuditRetention {
        max_age: settings.audit.keep_days.map_or(usual.audit.max_age, days),
        max_bytes: settings.audit.keep_bytes.unwrap_or(usual.audit.max_bytes),
    };
    Retention { audit, ..usual }
}

/// The largest ring of events: all of it stays in memory.
const MAX_EVENT_RING: usize = 1_000_000;
/// How long another command that holds the store is waited for.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Opens the store, and waits for a command that holds it for a moment. A gateway holds it for good: there is
/// nothing to wait for then.
pub async fn claim_store(settings: &Settings) -> Result<Arc<dyn Store>, Problem> {
    let started = Instant::now();
    loop {
        match open_store(settings).await {
            Err(problem)
                if problem.code == "store.in-use"
                    && started.elapsed() < STORE_PATIENCE
                    && living(&settings.data_dir).await.is_none() =>
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            opened => return opened,
        }
    }
}

/// What a configuration says about manifests.
pub fn manifests(loaded: &Loaded) -> Manifests {
    let has_value = |(name, value): (&str, &str)| (!value.is_empty()).then(|| name.to_owned());
    Manifests {
        entries: loaded.manifests.clone().into(),
        kept: loaded.kept_manifests.iter().map(|file| file.display().to_string()).collect(),
        variables: loaded.variables.iter().filter_map(has_value).collect(),
    }
}

/// The engine of a configuration, with these servers; `address` is where it is listened to, if it is.
pub async fn engine_of(
    loaded: &Loaded,
    sources: &Sources,
    store: Arc<dyn Store>,
    plans: Vec<ServerPlan>,
    address: Option<SocketAddr>,
) -> Result<Arc<Engine>, Problem> {
    let settings = &loaded.settings;
    let options = Options {
        naming: naming(settings),
        max_call: settings.limits.max_call_seconds,
        letter_key: settings.dead_letters.key.clone(),
        event_ring: usize::try_from(settings.events.ring).unwrap_or(usize::MAX).min(MAX_EVENT_RING),
        tools_per_server: usize::try_from(settings.limits.tools_per_server).unwrap_or(usize::MAX),
        mcp_data_bytes: usize::try_from(settings.limits.mcp_data_bytes).unwrap_or(usize::MAX),
    };
    let terms = terms::of(loaded)?;
    let room = room::room(settings, sources, address)?;
    let engine = Engine::start(options, terms, store, room, surroundings(settings, sources), plans).await?;
    engine.offer_manifests(manifests(loaded)).await;
    Ok(engine)
}

/// The MCP door of a gateway; `address` is where it is listened to, if it is.
pub fn door(
    engine: Arc<Engine>,
    settings: &Settings,
    identity: Identity,
    address: Option<SocketAddr>,
    stop: CancellationToken,
) -> Arc<Door> {
    let hosts = settings.allowed_hosts.clone();
    let guard = Guard::new(address, settings.public_url.as_deref(), hosts, &settings.allowed_origins);
    let limits = ConnectionLimits::of_process(Sharing::PerUser);
    let sessions = usize::try_from(settings.limits.sessions).unwrap_or(usize::MAX);
    let door = Door {
        engine,
        guard,
        identity,
        sessions: Sessions::new(sessions, sessions),
        connections: Connections::new(limits),
        streams: Streams::within(limits),
        body_limit: usize::try_from(settings.limits.body_bytes).unwrap_or(usize::MAX),
        reading: Reading::InPieces,
        keep_alive: Duration::from_secs(15),
        stop,
    };
    door.share_out();
    Arc::new(door)
}
