//! `toolbooth serve`: the gateway.

use super::{Failure, Outcome};
use crate::arguments::{Global, ServeArguments};
use crate::exit::Exit;
use crate::gateway;
use crate::presence::{self, Presence};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use toolbooth_config::{Loaded, Sources};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::Engine;
use toolbooth_server::mcp::Door;
use toolbooth_server::rest::{self, Reload, Rest};
use toolbooth_server::{Doors, Staff, listen};

/// Runs the gateway until it is told to stop.
pub fn run(global: &Global, how: &ServeArguments) -> Outcome {
    let mut sources = gateway::sources(global).map_err(Failure::usage)?;
    if let Some(address) = &how.listen {
        sources.overrides.push(("listen".into(), address.clone()));
    }
    start_logging();
    let loaded = load(&mut sources, how)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::failed(Problem {
            code: "serve.no-runtime",
            blame: Blame::Gateway,
            message: format!("the gateway could not start its threads: {error}"),
            hint: None,
        })
    })?;
    let outcome = runtime.block_on(serve(sources, loaded, how.linger));
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn start_logging() {
    let level = std::env::var("TOOLBOOTH_LOG").ok().and_then(|level| level.parse().ok());
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level.unwrap_or(tracing::Level::WARN))
        .with_target(false);
    if std::io::stderr().is_terminal() {
        builder.compact().init();
    } else {
        builder.json().init();
    }
}

fn load(sources: &mut Sources, how: &ServeArguments) -> Result<Loaded, Failure> {
    let fail = |failure: toolbooth_config::LoadFailure| {
        for finding in &failure.findings {
            eprintln!("{}", toolbooth_config::render(finding));
        }
        Failure::usage(Problem::of(&failure))
    };
    let mut loaded = toolbooth_config::load_with_trust(sources).map_err(fail)?;
    if how.trust {
        let mut book = sources.trust.clone();
        if loaded.trust_into(&mut book, None) > 0 {
            book.save(&loaded.settings.data_dir).map_err(|error| Failure::failed(Problem::of(&error)))?;
            sources.trust = book;
            loaded = toolbooth_config::load_with_trust(sources).map_err(fail)?;
        }
    }
    for finding in &loaded.findings {
        eprintln!("{}", toolbooth_config::render(finding));
    }
    Ok(loaded)
}

async fn serve(sources: Sources, loaded: Loaded, linger: Option<u64>) -> Outcome {
    let settings = loaded.settings.clone();
    let identity = gateway::identity(&settings, &sources).map_err(Failure::usage)?;
    // The port first: a gateway that cannot listen must not start anything.
    let listener = listen::bind(settings.listen.0).await.map_err(|error| Failure::failed(Problem::of(&error)))?;
    let address = listener.local_addr().unwrap_or(settings.listen.0);
    let store = gateway::open_store(&settings).await.map_err(Failure::failed)?;
    let engine = gateway::engine(&loaded, &sources, store).await.map_err(Failure::failed)?;
    let door = gateway::door(engine.clone(), &settings, identity);
    let stop = CancellationToken::new();
    let reload = reloader(engine.clone(), sources.clone());
    let doors = Doors { door: door.clone(), rest: rest::router(Rest { door: door.clone(), reload: reload.clone() }) };
    let presence = Presence {
        url: format!("http://{address}"),
        pid: std::process::id(),
        socket: presence::socket_path(&settings.data_dir),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let present = open_socket(&presence, &settings.data_dir, &door, &stop, linger);
    greet(&presence, &engine, &loaded);
    tokio::spawn(watch_files(loaded.files.clone(), reload.clone()));
    tokio::spawn(sweep(door, stop.clone()));
    tokio::spawn(heed_signals(stop.clone(), reload));
    listen::serve(listener, doors, stop, staff(settings.drain_seconds)).await;
    if present {
        presence.withdraw(&settings.data_dir);
    }
    engine.shut_down().await;
    Ok(Exit::Ok)
}

/// Half of the cores serve requests: the other half is for the servers behind them.
fn staff(drain: Duration) -> Staff {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Staff { helpers: (cores / 2).saturating_sub(1).min(15), drain }
}

/// What a person sees when the gateway is up.
fn greet(presence: &Presence, engine: &Engine, loaded: &Loaded) {
    let url = &presence.url;
    let servers = engine.servers();
    println!("Toolbooth {} is listening on {url}", presence.version);
    println!();
    println!("  MCP endpoint   {url}/mcp");
    println!("  for stdio      toolbooth stdio");
    println!();
    let names: Vec<&str> = servers.keys().map(toolbooth_core::names::ServerName::as_str).collect();
    if loaded.is_empty_of_servers() {
        println!("  No servers are configured yet, so the bundled ones are shown: {}.", names.join(", "));
        println!("  Put yours into .mcp.json here, or into {}.", user_file());
    } else {
        println!("  {} server{}: {}", names.len(), if names.len() == 1 { "" } else { "s" }, names.join(", "));
    }
    println!();
    println!("  claude mcp add --transport http toolbooth {url}/mcp");
    println!("  or in a client's file: {{\"mcpServers\": {{\"toolbooth\": {{\"url\": \"{url}/mcp\"}}}}}}");
    println!();
    println!("  toolbooth servers    how they do       toolbooth tools list    what they offer");
}

fn user_file() -> String {
    let base = std::env::var("XDG_CONFIG_HOME").ok().filter(|path| !path.is_empty());
    format!("{}/toolbooth/toolbooth.toml", base.unwrap_or_else(|| "~/.config".into()))
}

/// Opens the socket that `toolbooth stdio` joins, and says where the gateway is.
fn open_socket(
    presence: &Presence,
    data_dir: &std::path::Path,
    door: &Arc<Door>,
    stop: &CancellationToken,
    linger: Option<u64>,
) -> bool {
    let _ = std::fs::create_dir_all(data_dir);
    let _ = std::fs::remove_file(&presence.socket);
    let listener = match UnixListener::bind(&presence.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("the local socket could not be opened, so `toolbooth stdio` cannot join: {error}");
            return false;
        }
    };
    let _ = std::fs::set_permissions(&presence.socket, std::fs::Permissions::from_mode(0o600));
    tokio::spawn(accept_lines(listener, door.clone(), stop.clone(), linger));
    if let Err(error) = presence.announce(data_dir) {
        tracing::warn!("the gateway's address could not be noted in {}: {error}", data_dir.display());
    }
    true
}

async fn accept_lines(listener: UnixListener, door: Arc<Door>, stop: CancellationToken, linger: Option<u64>) {
    let open = Arc::new(AtomicUsize::new(0));
    let linger = linger.map(Duration::from_secs);
    loop {
        let patience = linger.filter(|_| open.load(Ordering::Relaxed) == 0).unwrap_or(Duration::from_secs(1));
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = tokio::time::timeout(patience, listener.accept()) => accepted,
        };
        match accepted {
            Ok(Ok((stream, _))) => {
                open.fetch_add(1, Ordering::Relaxed);
                let (door, open) = (door.clone(), open.clone());
                tokio::spawn(async move {
                    let (read, write) = stream.into_split();
                    toolbooth_server::mcp::lines::serve(door, read, write).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(_) if linger.is_some() && open.load(Ordering::Relaxed) == 0 => {
                stop.cancel();
                return;
            }
            Err(_) => {}
        }
    }
}

/// Reads the configuration again and brings the servers in line; all of it or nothing.
fn reloader(engine: Arc<Engine>, sources: Sources) -> Reload {
    let sources = Arc::new(Mutex::new(sources));
    Arc::new(move || {
        let (engine, sources) = (engine.clone(), sources.clone());
        Box::pin(async move {
            let mut sources = sources.lock().await;
            let loaded = toolbooth_config::load_with_trust(&mut sources).map_err(|failure| Problem::of(&failure))?;
            let applied = engine.apply(gateway::plans(&loaded)).await.map_err(|error| Problem::of(&error))?;
            let findings: Vec<String> = loaded.findings.iter().map(toolbooth_config::render).collect();
            Ok(serde_json::json!({ "applied": applied, "findings": findings }))
        })
    })
}

async fn watch_files(files: Vec<std::path::PathBuf>, reload: Reload) {
    let (changed, mut news) = tokio::sync::mpsc::channel(8);
    let Ok(_watch) = toolbooth_config::watch::watch(files, changed) else {
        tracing::warn!("files cannot be watched here; `toolbooth reload` reads them again");
        return;
    };
    while news.recv().await.is_some() {
        match reload().await {
            Ok(report) => tracing::info!("the configuration was read again: {}", report["applied"]),
            Err(problem) => {
                tracing::error!("the configuration was not applied, the last good one stays: {}", problem.message);
            }
        }
    }
}

async fn sweep(door: Arc<Door>, stop: CancellationToken) {
    let mut often = tokio::time::interval(Duration::from_secs(60));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = often.tick() => drop(door.sessions.sweep()),
        }
    }
}

async fn heed_signals(stop: CancellationToken, reload: Reload) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int), Ok(mut hup)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            _ = hup.recv() => if let Err(problem) = reload().await {
                tracing::error!("the configuration was not applied, the last good one stays: {}", problem.message);
            },
        }
    }
    stop.cancel();
}
