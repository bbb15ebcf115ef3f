//! `toolbooth serve`: runs the gateway.

mod client_folders;
mod greeting;
mod local_sockets;
mod log_limiter;
mod logging;
mod project_trust;
pub mod reloading;
mod replicas;
mod server_entries;
mod shown_settings;

use super::{client_views, in_runtime, trust};
use crate::background;
use crate::callers;
use crate::exit::Exit;
use crate::exporters::Exporters;
use crate::failure::{CommandFailure, CommandResult};
use crate::file_storage;
use crate::gateway;
use crate::gateway_record::{self, GatewayRecord};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::RemoteGateway;
use crate::render::{self, Paint};
use crate::running_gateway::find_running;
use clap::Args;
use shown_settings::shown_settings;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use toolbooth_config::{LoadedConfig, Settings, Sources};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::clock::system_clock;
use toolbooth_engine::{RightsSource, audit_trust};
use toolbooth_server::access_log::AccessLog;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_server::rest::{self, ConfigStatus, Reload, ReloadCause, RestState};
use toolbooth_server::{FrontEnds, ServeOptions, console, listen};
use toolbooth_store::Store;

/// Arguments of `toolbooth serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Address to listen on: HOST:PORT, or a port.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Trust the servers of the project folder from now on.
    #[arg(long)]
    trust: bool,
    /// Do not start if the configuration or a manifest has an error.
    #[arg(long)]
    strict: bool,
    /// Exit after the local socket has had no client for this many seconds.
    #[arg(long, hide = true, value_name = "SECONDS")]
    linger: Option<u64>,
}

/// Runs the gateway until it is stopped.
pub fn run(global: &GlobalOptions, arguments: &ServeArguments) -> CommandResult {
    let mut sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    if let Some(address) = &arguments.listen {
        sources.overrides.push(("listen".into(), address.clone()));
    }
    logging::start();
    let loaded = load(&mut sources, arguments)?;
    let invocation = greeting::Invocation::of(global, &sources);
    in_runtime(serve(sources, loaded, arguments.linger.map(Duration::from_secs), invocation))
}

/// Loads the configuration for a gateway, asks for missing trust, and reports findings.
pub fn load(sources: &mut Sources, arguments: &ServeArguments) -> Result<LoadedConfig, CommandFailure> {
    let load = |sources: &mut Sources| {
        toolbooth_config::load_with_trust(sources).map_err(|failure| CommandFailure::config(&failure))
    };
    let mut loaded = load(sources)?;
    let agreed =
        if arguments.trust { trust::agree(sources, &loaded, None)? } else { trust::ask(sources, &loaded)? };
    if agreed > 0 {
        loaded = load(sources)?;
    }
    let waiting = loaded.rules_waiting();
    if !waiting.is_empty() {
        return Err(CommandFailure::usage(reloading::trust_required(&waiting)));
    }
    for finding in &loaded.findings {
        render::complain(&format!(
            "{}\n",
            render::finding(&toolbooth_config::render(finding), Paint::stderr())
        ));
    }
    let errors = loaded.findings.iter().filter(|finding| finding.is_error()).count();
    if arguments.strict && errors > 0 {
        return Err(CommandFailure::usage(Problem {
            code: "serve.strict",
            blame: Blame::Caller,
            message: format!("{} in the configuration, and --strict is set", render::count(errors, "error")),
            hint: Some("correct it, or start without --strict to skip faulty entries".into()),
        }));
    }
    sources.good_manifests = loaded.good_manifests.clone();
    Ok(loaded)
}

async fn serve(
    sources: Sources,
    loaded: LoadedConfig,
    linger: Option<Duration>,
    invocation: greeting::Invocation,
) -> CommandResult {
    let settings = loaded.settings.clone();
    let identity = callers::identity(&loaded).map_err(CommandFailure::usage)?;
    let exporters = Exporters::of(&settings).map_err(CommandFailure::usage)?;
    if let Some(other) = find_running(&settings.data_dir).await {
        return Err(CommandFailure::failed(already_running(&other)));
    }
    // The port comes first: a gateway that cannot listen must not start anything.
    let listener =
        listen::bind(settings.listen.0).await.map_err(|error| CommandFailure::failed(Problem::of(&error)))?;
    let address = listener.local_addr().unwrap_or(settings.listen.0);
    // With a handler, a file over the size limit fails the write instead of killing the process.
    let _file_size = tokio::signal::unix::signal(SignalKind::from_raw(nix::libc::SIGXFSZ));
    let store = claim_store(&settings).await?;
    let access_log = open_access_log(&settings)?;
    let (clock, trusted) = (system_clock(), sources.trust.entries());
    if let Err(problem) = audit_trust(&clock, &*store, &callers::operator(), &trusted).await {
        tracing::error!("the trusted entries were not recorded in the audit: {}", problem.message);
    }
    let plans = gateway::plans(&loaded, &gateway::vaults(&settings, &store, &clock));
    let engine = gateway::engine_of(&loaded, &sources, clock, store, plans, Some(address)).await;
    let engine = engine.map_err(CommandFailure::failed)?;
    let stop = CancellationToken::new();
    let front_end = gateway::front_end(engine.clone(), &settings, identity, Some(address), stop.clone());
    let rights_source: Arc<dyn RightsSource> = front_end.clone();
    engine.set_rights_source(&rights_source);
    exporters.install(engine.events(), engine.tracing());
    engine.take_over().await;
    let mut record = record_of(&settings, &sources, address, linger);
    let watched = reloading::WatchedFiles::new(&loaded.files);
    let status = Arc::new(ConfigStatus::default());
    status.read_from(reloading::read_files(&loaded));
    status.set_settings(shown_settings(&loaded));
    let project_files = project_trust::ProjectFiles::new(front_end.clone(), sources.clone(), &settings);
    let owner_files = server_entries::OwnerFiles::new(front_end.clone(), sources.clone(), &settings);
    let active_config = reloading::ActiveConfig::at_start(sources, &loaded, address);
    let folders = active_config.folders().clone();
    let reload = reloading::reloader(front_end.clone(), active_config, watched.clone(), status.clone());
    folders.set_reload(reload.clone());
    let _ = front_end.folders.set(folders);
    let rest = RestState::new(front_end.clone(), reload.clone())
        .reporting(status)
        .counting(access_log.clone())
        .trusting(Arc::new(project_files))
        .editing(Arc::new(owner_files));
    let front_ends = FrontEnds {
        state: front_end.clone(),
        rest: rest::router(rest.clone()).merge(console::routes(rest)),
        connections: front_end.connections.clone(),
        access_log: access_log.clone(),
    };
    let control = local_sockets::open_control(&mut record, &settings.data_dir);
    let present = local_sockets::open(&record, &settings.data_dir, &front_end, &stop, linger);
    render::print(&greeting::text(&record, engine.servers(), &loaded, &invocation));
    if std::io::stdout().is_terminal() {
        tokio::spawn(print_client_views(record.clone()));
    }
    tokio::spawn(watched.follow(reload.clone()));
    let following = tokio::spawn(replicas::follow(front_end.clone(), stop.clone()));
    let maintenance = tokio::spawn(run_maintenance(front_end, stop.clone()));
    tokio::spawn(log_limiter::report_left_out());
    tokio::spawn(handle_signals(stop.clone(), reload));
    let serving =
        listen::serve(listener, control, front_ends, stop.clone(), serve_options(settings.drain_seconds));
    tokio::pin!(serving);
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            record.stopping = true;
            // Other commands say that the gateway is stopping. Without it, they say that none is running.
            if present && let Err(error) = record.announce(&settings.data_dir) {
                tracing::warn!("other commands cannot be notified that the gateway is stopping: {error}");
            }
            serving.await;
        }
        () = &mut serving => {}
    }
    following.abort();
    if present {
        record.remove_sockets();
    }
    end_maintenance(maintenance).await;
    engine.shut_down().await;
    if present {
        record.remove_file(&settings.data_dir);
    }
    if let Some(log) = access_log {
        log.flush();
    }
    Ok(Exit::Ok)
}

/// The record by which other commands find this gateway.
fn record_of(
    settings: &Settings,
    sources: &Sources,
    address: SocketAddr,
    linger: Option<Duration>,
) -> GatewayRecord {
    GatewayRecord {
        url: file_storage::reached_at(address),
        pid: std::process::id(),
        started: gateway_record::start_of(std::process::id()),
        socket: gateway_record::socket_path(&settings.data_dir),
        control: Some(gateway_record::control_path(&settings.data_dir)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        named: gateway::named(sources),
        linger_seconds: linger.map(|linger| linger.as_secs()),
        started_in: Some(sources.cwd.clone()),
        log: gateway_record::own_log(background::log_path(&settings.data_dir)),
        stopping: false,
    }
}

/// Opens the access log, if one is configured. A relative path starts at the data directory, which the store created.
fn open_access_log(settings: &Settings) -> Result<Option<Arc<AccessLog>>, CommandFailure> {
    let access_log = &settings.access_log;
    let Some(path) = &access_log.path else { return Ok(None) };
    let opened = AccessLog::open(&settings.data_dir.join(path), access_log.max_bytes);
    opened.map(Some).map_err(|error| CommandFailure::failed(Problem::of(&error)))
}

/// Prints what clients will see, as soon as the servers have listed their tools.
async fn print_client_views(record: GatewayRecord) {
    let Ok(mut remote) = RemoteGateway::at(&record.url) else { return };
    remote.set_control(record.control);
    if let Ok(views) = client_views::ask_remote(&remote).await {
        render::print(&format!("\n{}", client_views::draw(&views)));
    }
}

/// Uses half of the cores for requests and leaves the other half to the servers.
fn serve_options(drain: Duration) -> ServeOptions {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ServeOptions { workers: (cores / 2).saturating_sub(1).min(15), drain }
}

fn already_running(other: &GatewayRecord) -> Problem {
    Problem {
        code: "serve.already-running",
        blame: Blame::Caller,
        message: format!("a gateway is already running: {} (process {})", other.url, other.pid),
        hint: Some("all commands use it; a second one needs its own --data-dir and --listen".into()),
    }
}

/// Opens the store, and waits for a command that holds it for a moment.
async fn claim_store(settings: &Settings) -> Result<Arc<dyn Store>, CommandFailure> {
    match gateway::claim_store(settings).await {
        Err(problem) if problem.code == "store.in-use" => Err(match find_running(&settings.data_dir).await {
            Some(other) => CommandFailure::failed(already_running(&other)),
            None => CommandFailure::failed(problem),
        }),
        opened => opened.map_err(CommandFailure::failed),
    }
}

/// Runs the periodic maintenance tasks.
async fn run_maintenance(front_end: Arc<FrontEndState>, stop: CancellationToken) {
    let mut every_10_seconds = tokio::time::interval(Duration::from_secs(10));
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    let mut every_3_seconds = tokio::time::interval(Duration::from_secs(3));
    let mut every_minute = tokio::time::interval(Duration::from_secs(60));
    let mut every_10_minutes = tokio::time::interval(Duration::from_secs(600));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = every_10_seconds.tick() => {
                front_end.sweep();
                front_end.engine.approvals().sweep().await;
                front_end.engine.dead_letters().replay_due().await;
                front_end.engine.approvals().run_deferred().await;
            }
            _ = every_second.tick() => front_end.engine.jobs().run_due().await,
            _ = every_3_seconds.tick() => front_end.engine.health().save().await,
            _ = every_minute.tick() => front_end.engine.save_clock().await,
            _ = every_10_minutes.tick() => front_end.engine.purge().await,
        }
    }
}

/// Waits for the last maintenance task, because the store is closed next. One that takes longer is cut off: the next
/// gateway takes over its work, as after a crash.
async fn end_maintenance(mut maintenance: JoinHandle<()>) {
    if tokio::time::timeout(Duration::from_secs(1), &mut maintenance).await.is_err() {
        maintenance.abort();
    }
}

async fn handle_signals(stop: CancellationToken, reload: Reload) {
    use tokio::signal::unix::signal;
    let (Ok(mut term), Ok(mut int), Ok(mut hup)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        return;
    };
    let attended = std::io::stdin().is_terminal();
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            // A gateway started from a terminal ends with it; otherwise SIGHUP means reload.
            _ = hup.recv() => match attended {
                true => break,
                false => reloading::now(&reload, ReloadCause::Signal).await,
            },
        }
    }
    stop.cancel();
}
