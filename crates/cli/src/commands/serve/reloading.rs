//! Reading the configuration again: on request, on a signal, and when a file changes.

use crate::outward::Outward;
use crate::{callers, gateway, in_force, terms};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use toolbooth_config::settings::{AuthMode, LocalUsers};
use toolbooth_config::watch::{Watch, watch};
use toolbooth_config::{LoadFailure, Loaded, Settings, Sources};
use toolbooth_core::audit::AuditKind;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::{Act, audit_trust};
use toolbooth_server::identify::Difference;
use toolbooth_server::mcp::Door;
use toolbooth_server::rest::{ConfigStatus, Reload, ReloadCause};

/// The files that are watched; a reload may find others.
#[derive(Clone)]
pub struct Watched {
    watch: Option<Arc<Watch>>,
    news: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Watched {
    /// Watches these files from now on.
    pub fn new(files: &[PathBuf]) -> Self {
        let (changed, news) = mpsc::channel(8);
        let watch = watch(files.to_vec(), changed);
        if let Err(error) = &watch {
            tracing::warn!("files cannot be watched here ({error}); `toolbooth reload` reads them again");
        }
        Self { watch: watch.ok().map(Arc::new), news: Arc::new(Mutex::new(news)) }
    }

    fn set(&self, files: Vec<PathBuf>) {
        if let Some(watch) = &self.watch {
            watch.set_files(files);
        }
    }

    /// Reads the configuration again whenever a file changes.
    pub async fn follow(self, reload: Reload) {
        let mut news = self.news.lock().await;
        while news.recv().await.is_some() {
            now(&reload, ReloadCause::FileChanged).await;
        }
    }
}

/// The configuration that a running gateway goes by.
pub struct InForce {
    sources: Sources,
    /// What it was started with: some settings stay so until the next start.
    started: Settings,
    settings: Settings,
    /// Files whose settings count.
    files: BTreeSet<PathBuf>,
    /// Files whose settings or servers count.
    files_with_effect: BTreeSet<PathBuf>,
    /// Where it listens, whatever a file says by now.
    address: SocketAddr,
    servers: Origin,
}

/// Where the servers come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The configuration names some.
    Configured,
    /// It names none, so the bundled ones stand in.
    Bundled,
}

impl InForce {
    /// What a gateway is started with.
    pub fn at_start(mut sources: Sources, loaded: &Loaded, address: SocketAddr) -> Self {
        sources.filled_files = loaded.filled_files();
        Self {
            sources,
            started: loaded.settings.clone(),
            settings: loaded.settings.clone(),
            files: loaded.files_in_force(),
            files_with_effect: loaded.files_with_effect(),
            address,
            servers: if loaded.is_empty_of_servers() { Origin::Bundled } else { Origin::Configured },
        }
    }

    /// Why a configuration cannot take the place of this one, if it cannot.
    fn refusal(&self, loaded: &Loaded, cause: &ReloadCause) -> Option<Problem> {
        let twice = loaded.findings.iter().find(|finding| finding.code == "config.duplicate-name");
        if let Some(finding) = twice {
            // It is unknown which of the two is meant; at a start the others run, on reload nothing changes.
            return Some(finding.problem());
        }
        self.missing_trust(loaded)
            .or_else(|| self.lost_files(loaded, cause))
            .or_else(|| self.loosened_auth(&loaded.settings))
    }

    fn missing_trust(&self, loaded: &Loaded) -> Option<Problem> {
        let waiting = loaded.rules_waiting();
        // Settings that counted and wait for trust now would give way to milder ones.
        let lost = loaded.protections_waiting().into_iter().filter(|file| self.files.contains(*file));
        let mut files: Vec<&Path> = waiting.into_iter().chain(lost).collect();
        files.dedup();
        (!files.is_empty()).then(|| trust_required(&files))
    }

    /// Files that had an effect and are gone or hold nothing now. All rules in them would go with them, so a person
    /// has to say that this is meant: a file can also vanish by a slip, a failed mount or an unfinished save.
    fn lost_files(&self, loaded: &Loaded, cause: &ReloadCause) -> Option<Problem> {
        if *cause != ReloadCause::FileChanged {
            // Somebody asked for the reload, or sent the signal, and so means the files as they are.
            return None;
        }
        let filled = loaded.filled_files();
        let lost: Vec<&Path> = self.files_with_effect.difference(&filled).map(PathBuf::as_path).collect();
        (!lost.is_empty()).then(|| files_lost(&lost))
    }

    /// In `local` mode every caller is the gateway's owner, and with `local_users: any` so is every user of the machine.
    /// Those who use a running gateway rely on what it was started with, so only a start can choose either, for every
    /// cause of a reload.
    fn loosened_auth(&self, settings: &Settings) -> Option<Problem> {
        if settings.auth.mode != AuthMode::Local {
            return None;
        }
        let (message, hint) = if self.settings.auth.mode != AuthMode::Local {
            let sentence = "the files no longer set an `auth.mode` other than `local`, in which every caller is the \
                            gateway's owner; a reload does not change to that mode";
            (sentence, "restart the gateway to do this, or set `auth.mode` as before")
        } else if self.settings.auth.local_users == LocalUsers::Own
            && settings.auth.local_users == LocalUsers::Any
        {
            let sentence = "the files set `auth.local_users` to `any`, which makes every user of the machine the \
                            gateway's owner; a reload does not let them in";
            (sentence, "restart the gateway to do this, or set `auth.local_users` as before")
        } else {
            return None;
        };
        Some(Problem {
            code: "config.reload-loosens-auth",
            blame: Blame::Caller,
            message: message.into(),
            hint: Some(hint.into()),
        })
    }
}

/// Files are gone or hold nothing, and the configuration in force was read from them.
fn files_lost(files: &[&Path]) -> Problem {
    let describe = |file: &&Path| {
        let change = if file.exists() { "holds nothing any more" } else { "is gone" };
        format!("`{}` {change}", file.display())
    };
    let changes: Vec<String> = files.iter().map(describe).collect();
    Problem {
        code: "config.file-lost",
        blame: Blame::Caller,
        message: format!("files of the configuration in force are lost: {}", changes.join(", ")),
        hint: Some("put them back; to go on without them, run `toolbooth reload`".into()),
    }
}

/// A project file says how callers are recognised or what they may do, and waits for trust.
pub fn trust_required(files: &[&Path]) -> Problem {
    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    Problem {
        code: "trust.required",
        blame: Blame::Caller,
        message: format!(
            "{} sets rules for callers and is not trusted: without them the gateway would be more open than \
             the folder asks",
            names.join(", ")
        ),
        hint: Some(
            "look at it, then run `toolbooth trust`; `serve --trust` trusts it and starts, `--no-project` leaves the \
             folder's files out"
                .into(),
        ),
    }
}

/// Reads the configuration again and brings the gateway in line; all of it or nothing.
pub fn reloader(door: Arc<Door>, in_force: InForce, watched: Watched, status: Arc<ConfigStatus>) -> Reload {
    let in_force = Arc::new(Mutex::new(in_force));
    Arc::new(move |cause| {
        let (door, in_force, watched) = (door.clone(), in_force.clone(), watched.clone());
        let status = status.clone();
        Box::pin(async move {
            let mut in_force = in_force.lock().await;
            let done = apply(&door, &mut in_force, &watched, &status, &cause).await;
            if let Err(problem) = &done {
                status.failed(problem);
                let event = Event::new(EventKind::ConfigError).code(problem.code);
                door.engine.emit(event.with("message", problem.message.as_str()));
            }
            audit(&door, &in_force.sources, &cause, &done).await;
            done
        })
    })
}

/// The files of a configuration that are there, as others are told of them.
pub fn read_files(loaded: &Loaded) -> Vec<String> {
    let read = loaded.files.iter().filter(|file| file.is_file());
    read.map(|file| file.display().to_string()).collect()
}

async fn apply(
    door: &Door,
    in_force: &mut InForce,
    watched: &Watched,
    status: &ConfigStatus,
    cause: &ReloadCause,
) -> Result<serde_json::Value, Problem> {
    let loaded =
        toolbooth_config::load_with_trust(&mut in_force.sources).map_err(|failure: LoadFailure| {
            watched.set(failure.files.clone());
            Problem::of(&failure)
        })?;
    watched.set(loaded.files.clone());
    if let Some(refusal) = in_force.refusal(&loaded, cause) {
        return Err(refusal);
    }
    for finding in loaded.findings.iter().filter(|finding| finding.is_error()) {
        tracing::error!(code = finding.code, "config.error: {finding}");
        let event = Event::new(EventKind::ConfigError).code(finding.code);
        door.engine.emit(event.with("message", finding.to_string().as_str()));
    }
    let settings = &loaded.settings;
    // Everything that can be wrong is found out before anything is put in force.
    let terms = terms::of(&loaded)?;
    let identity = callers::identity_at(&loaded, in_force.address)?;
    let directory = callers::directory(&loaded, callers::http())?;
    let outward = Outward::of(settings)?;
    let engine = &door.engine;
    let plans = match (loaded.is_empty_of_servers(), in_force.servers) {
        // Bundled servers are for a configuration without servers; removing all servers does not start them.
        (true, Origin::Configured) => Vec::new(),
        _ => gateway::plans(&loaded, &gateway::vaults(settings, engine.store())),
    };
    let prepared = engine.prepare(plans).await.map_err(|error| Problem::of(&error))?;
    // Rules first: no server that comes may be called by the rules of before.
    if settings.auth != in_force.settings.auth {
        door.identity.take_mode_of(identity);
        door.share_out();
    }
    let difference = door.identity.set_directory(directory);
    engine.set_terms(terms);
    engine.offer_own_tools().await;
    let applied = engine.apply(prepared).await;
    engine.offer_manifests(gateway::manifests(&loaded)).await;
    outward.put_to_work(engine);
    if difference == Difference::Some || settings.auth != in_force.settings.auth {
        engine.announce_all_lists();
    }
    let changed = in_force::changed(&in_force.settings, settings);
    let restart = in_force::waiting_for_restart(&in_force.started, settings);
    in_force.take(&loaded);
    status.read_from(read_files(&loaded));
    tell_of_restart(door, status, &restart);
    let findings: Vec<String> = loaded.findings.iter().map(toolbooth_config::render).collect();
    Ok(serde_json::json!({
        "applied": applied, "settings": changed, "restart_needed": restart, "findings": findings,
    }))
}

impl InForce {
    fn take(&mut self, loaded: &Loaded) {
        self.sources.good_manifests = loaded.good_manifests.clone();
        self.sources.filled_files = loaded.filled_files();
        self.settings = loaded.settings.clone();
        self.files = loaded.files_in_force();
        self.files_with_effect = loaded.files_with_effect();
    }
}

/// Says what waits for the next start, to everybody who looks after the gateway.
fn tell_of_restart(door: &Door, status: &ConfigStatus, settings: &[&'static str]) {
    if settings.is_empty() {
        return;
    }
    let message = format!("restart needed: `{}` changed and is fixed at the start", settings.join("`, `"));
    tracing::warn!(code = "config.restart-needed", "{message}");
    let event = Event::new(EventKind::ConfigError).code("config.restart-needed");
    door.engine.emit(event.with("message", message.as_str()));
    status.needs_restart(settings.iter().map(|name| (*name).to_owned()).collect());
}

/// Writes down that the configuration was read again, and what is trusted by now. It is in force already: a
/// row that cannot be written is said in the log.
async fn audit(
    door: &Door,
    sources: &Sources,
    cause: &ReloadCause,
    done: &Result<serde_json::Value, Problem>,
) {
    let (outcome, code) = match done {
        Ok(_) => ("reloaded", None),
        Err(problem) => ("failed", Some(problem.code)),
    };
    let act = Act { code, ..Act::new(AuditKind::Config, cause.by(), outcome) };
    let act = match done {
        Ok(report) => act.with(&[("applied", &report["applied"].to_string())]),
        Err(_) => act,
    };
    let noted = door.engine.audit_act(act).await;
    let trusted = audit_trust(&**door.engine.store(), cause.by(), &sources.trust.entries()).await;
    for problem in [noted, trusted].into_iter().filter_map(Result::err) {
        tracing::error!("a reload was not written into the audit: {}", problem.message);
    }
}

/// Reads the configuration again and says in the log what came of it.
pub async fn now(reload: &Reload, cause: ReloadCause) {
    match reload(cause).await {
        Ok(report) => tracing::info!("the configuration was read again: {}", report["applied"]),
        Err(problem) => {
            tracing::error!(
                code = problem.code,
                "the configuration was not applied, the last good one stays: {}",
                problem.sentence()
            );
        }
    }
}
