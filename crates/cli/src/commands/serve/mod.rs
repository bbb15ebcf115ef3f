//! `toolbooth serve`: the gateway.

mod greeting;
mod joining;
mod logging;
pub mod reloading;

use super::{in_runtime, trust};
use crate::arguments::Global;
use crate::callers;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::footprint::{self, Keeping};
use crate::gateway;
use crate::outward::Outward;
use crate::presence::{self, Presence};
use crate::reach::living;
use crate::render::{self, Paint};
use clap::Args;
use std::io::IsTerminal;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;
use toolbooth_config::{Loaded, Settings, Sources};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::{Engine, Roster, audit_trust};
use toolbooth_server::mcp::Door;
use toolbooth_server::rest::{self, ConfigStatus, Reload, ReloadCause, Rest};
use toolbooth_server::{Doors, Staff, listen};
use toolbooth_store::Store;

/// How the gateway is run.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Where to listen: HOST:PORT, or a port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Trust the servers of the project folder from now on.
    #[arg(long)]
    trust: bool,
    /// Do not start with an error in any file of the configuration or of manifests.
    #[arg(long)]
    strict: bool,
    /// End when nobody has been connected over the local socket for this many seconds.
    #[arg(long, hide = true, value_name = "SECONDS")]
    linger: Option<u64>,
}

/// Runs the gateway until it is told to stop.
pub fn run(global: &Global, how: &ServeArguments) -> Outcome {
    let mut sources = gateway::sources(global).map_err(Failure::usage)?;
    if let Some(address) = &how.listen {
        sources.overrides.push(("listen".into(), address.clone()));
    }
    logging::start();
    let loaded = load(&mut sources, how)?;
    let again = greeting::Again::of(global, &sources);
    in_runtime(serve(sources, loaded, how.linger.map(Duration::from_secs), again))
}

fn load(sources: &mut Sources, how: &ServeArguments) -> Result<Loaded, Failure> {
    let load = |sources: &mut Sources| {
        toolbooth_config::load_with_trust(sources).map_err(|failure| Failure::config(&failure))
    };
    let mut loaded = load(sources)?;
    let agreed =
        if how.trust { trust::agree(sources, &loaded, None)? } else { trust::ask(sources, &loaded)? };
    if agreed > 0 {
        loaded = load(sources)?;
    }
    let waiting = loaded.rules_waiting();
    if !waiting.is_empty() {
        return Err(Failure::usage(reloading::trust_required(&waiting)));
    }
    for finding in &loaded.findings {
        render::complain(&format!(
            "{}\n",
            render::finding(&toolbooth_config::render(finding), Paint::stderr())
        ));
    }
    let errors = loaded.findings.iter().filter(|finding| finding.is_error()).count();
    if how.strict && errors > 0 {
        return Err(Failure::usage(Problem {
            code: "serve.strict",
            blame: Blame::Caller,
            message: format!(
                "{} in the configuration, and --strict was asked for",
                render::count(errors, "error")
            ),
            hint: Some("put it right, or start without --strict: what is wrong is then left out".into()),
        }));
    }
    sources.good_manifests = loaded.good_manifests.clone();
    Ok(loaded)
}

async fn serve(
    sources: Sources,
    loaded: Loaded,
    linger: Option<Duration>,
    again: greeting::Again,
) -> Outcome {
    let settings = loaded.settings.clone();
    let identity = callers::identity(&loaded).map_err(Failure::usage)?;
    let outward = Outward::of(&settings).map_err(Failure::usage)?;
    if let Some(other) = living(&settings.data_dir).await {
        return Err(Failure::failed(already_running(&other)));
    }
    // The port first: a gateway that cannot listen must not start anything.
    let listener =
        listen::bind(settings.listen.0).await.map_err(|error| Failure::failed(Problem::of(&error)))?;
    let address = listener.local_addr().unwrap_or(settings.listen.0);
    // A file that may not grow any more is an error of that write, not the end of the process.
    let _file_size = tokio::signal::unix::signal(SignalKind::from_raw(nix::libc::SIGXFSZ));
    let keeping = footprint::keep_nothing();
    let store = claim_store(&settings).await?;
    if let Err(problem) = audit_trust(&*store, &callers::operator(), &sources.trust.entries()).await {
        tracing::error!("what is trusted was not written into the audit: {}", problem.message);
    }
    let plans = gateway::plans(&loaded, &gateway::vaults(&settings, &store));
    let engine = gateway::engine_of(&loaded, &sources, store, plans, Some(address)).await;
    let engine = engine.map_err(Failure::failed)?;
    let stop = CancellationToken::new();
    let door = gateway::door(engine.clone(), &settings, identity, Some(address), stop.clone());
    let roster: Arc<dyn Roster> = door.clone();
    engine.set_roster(&roster);
    outward.put_to_work(&engine);
    engine.take_over().await;
    let mut presence = Presence {
        url: format!("http://{address}"),
        pid: std::process::id(),
        started: presence::start_of(std::process::id()),
        socket: presence::socket_path(&settings.data_dir),
        control: Some(presence::control_path(&settings.data_dir)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        named: gateway::named(&sources),
    };
    let watched = reloading::Watched::new(&loaded.files);
    let status = Arc::new(ConfigStatus::default());
    status.read_from(reloading::read_files(&loaded));
    let in_force = reloading::InForce::at_start(sources, &loaded, address);
    let reload = reloading::reloader(door.clone(), in_force, watched.clone(), status.clone());
    let rest = Rest::new(door.clone(), reload.clone()).reporting(status);
    let doors = Doors { door: door.clone(), rest: rest::router(rest), connections: door.connections.clone() };
    let control = joining::open_control(&mut presence, &settings.data_dir);
    let present = joining::open(&presence, &settings.data_dir, &door, &stop, linger);
    render::print(&greeting::text(&presence, &engine, &loaded, &again));
    tokio::spawn(watched.follow(reload.clone()));
    tokio::spawn(sweep(door, stop.clone()));
    tokio::spawn(settle(engine.clone(), keeping));
    tokio::spawn(heed_signals(stop.clone(), reload));
    listen::serve(listener, control, doors, stop, staff(settings.drain_seconds)).await;
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

fn already_running(other: &Presence) -> Problem {
    Problem {
        code: "serve.already-running",
        blame: Blame::Caller,
        message: format!("a gateway is running already: {} (process {})", other.url, other.pid),
        hint: Some("every command uses it; a second one needs --data-dir and --listen of its own".into()),
    }
}

/// Opens the store. A command may hold it for a moment; that is no reason to give up.
async fn claim_store(settings: &Settings) -> Result<Arc<dyn Store>, Failure> {
    match gateway::claim_store(settings).await {
        Err(problem) if problem.code == "store.in-use" => Err(match living(&settings.data_dir).await {
            Some(other) => Failure::failed(already_running(&other)),
            None => Failure::failed(problem),
        }),
        opened => opened.map_err(Failure::failed),
    }
}

/// How long starting is more than calls: a server that takes longer to be heard must not slow them down.
const STARTING: Duration = Duration::from_secs(10);

/// Lets go of what only starting needed, once everybody has been heard.
async fn settle(engine: Arc<Engine>, keeping: Keeping) {
    let mut settled = pin!(engine.settled());
    let in_time = tokio::time::timeout(STARTING, &mut settled).await.is_ok();
    footprint::keep_as_usual(keeping);
    if !in_time {
        settled.await;
    }
    footprint::let_go_of_start();
    // What the first lists and the last discovery held is free a moment later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    footprint::give_back_heap();
}

/// Puts away what nobody needs any more.
async fn sweep(door: Arc<Door>, stop: CancellationToken) {
    let mut often = tokio::time::interval(Duration::from_secs(10));
    let mut now_and_then = tokio::time::interval(Duration::from_secs(3));
    let mut every_minute = tokio::time::interval(Duration::from_secs(60));
    let mut seldom = tokio::time::interval(Duration::from_secs(600));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = often.tick() => {
                door.sweep();
                door.engine.sweep_held().await;
                door.engine.replay_due().await;
                door.engine.run_deferred().await;
            }
            _ = now_and_then.tick() => door.engine.save_health().await,
            _ = every_minute.tick() => door.engine.save_clock().await,
            _ = seldom.tick() => door.engine.purge().await,
        }
    }
}

async fn heed_signals(stop: CancellationToken, reload: Reload) {
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
            // The terminal was closed, and whoever started it there meant it to end with it.
            _ = hup.recv() => match attended {
                true => break,
                false => reloading::now(&reload, ReloadCause::Signal).await,
            },
        }
    }
    stop.cancel();
}
