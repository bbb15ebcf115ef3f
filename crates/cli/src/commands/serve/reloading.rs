//! Reloads the configuration: on request, on a signal, and when a file changes.

use super::client_folders::ClientFolders;
use super::shown_settings::shown_settings;
use crate::exporters::Exporters;
use crate::{callers, file_storage, gateway, setting_changes, terms};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use tokio::sync::{Mutex, mpsc};
use toolbooth_config::settings::{AuthMode, LocalUsersSetting};
use toolbooth_config::watch::{FileWatch, fingerprint, watch};
use toolbooth_config::{LoadFailure, LoadedConfig, Settings, Sources};
use toolbooth_core::audit::AuditKind;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_engine::{Act, audit_trust};
use toolbooth_server::identify::DirectoryChange;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_server::rest::{ConfigStatus, Reload, ReloadCause};

/// The watched configuration files; a reload may change the list.
#[derive(Clone)]
pub struct WatchedFiles {
    watch: Option<Arc<FileWatch>>,
    /// The files that are watched now.
    files: Arc<std::sync::Mutex<Vec<PathBuf>>>,
    changes: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl WatchedFiles {
    /// Starts watching these files.
    pub fn new(files: &[PathBuf]) -> Self {
        let (changed, changes) = mpsc::channel(8);
        let watch = watch(files.to_vec(), changed);
        if let Err(error) = &watch {
            tracing::warn!("files cannot be watched here ({error}); use `toolbooth reload` after changes");
        }
        Self {
            watch: watch.ok().map(Arc::new),
            files: Arc::new(std::sync::Mutex::new(files.to_vec())),
            changes: Arc::new(Mutex::new(changes)),
        }
    }

    fn set(&self, files: Vec<PathBuf>) {
        let mut current = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        // A changed list counts as a change of the files.
        if *current == files {
            return;
        }
        current.clone_from(&files);
        if let Some(watch) = &self.watch {
            watch.set_files(files);
        }
    }

    /// The watched files, and a digest of their content.
    fn content(&self) -> (Vec<PathBuf>, String) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let digest = fingerprint(&files);
        (files, digest)
    }

    /// A reload has read the files, which had this content before. A changed list is already a change for the watch.
    fn note_read(&self, (files_before, before): (Vec<PathBuf>, String)) {
        let (files, after) = self.content();
        if let Some(watch) = self.watch.as_ref().filter(|_| files == files_before) {
            watch.read(before, &after);
        }
    }

    /// Also watches the files of a load that failed. Such a load ends before it has found all files, so the files of
    /// the configuration in force stay in the list.
    fn add(&self, files: Vec<PathBuf>) {
        let mut all = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let new: Vec<PathBuf> = files.into_iter().filter(|file| !all.contains(file)).collect();
        all.extend(new);
        self.set(all);
    }

    /// Reloads the configuration whenever a file changes.
    pub async fn follow(self, reload: Reload) {
        let mut changes = self.changes.lock().await;
        while changes.recv().await.is_some() {
            now(&reload, ReloadCause::FileChanged).await;
        }
    }
}

/// The configuration that the running gateway uses.
pub struct ActiveConfig {
    sources: Sources,
    /// The settings at startup: some of them are fixed until the next start.
    started: Settings,
    settings: Settings,
    /// Files whose settings are in force.
    files: BTreeSet<PathBuf>,
    /// Files whose settings or servers are in force.
    files_with_effect: BTreeSet<PathBuf>,
    /// The address it listens on, which a reload cannot change.
    address: SocketAddr,
    servers: ServerOrigin,
    folders: Arc<ClientFolders>,
}

/// The origin of the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerOrigin {
    /// The configuration defines servers.
    Configured,
    /// The configuration defines none, so the bundled ones run.
    Bundled,
}

impl ActiveConfig {
    /// The configuration at startup.
    pub fn at_start(mut sources: Sources, loaded: &LoadedConfig, address: SocketAddr) -> Self {
        sources.filled_files = loaded.filled_files();
        Self {
            sources,
            started: loaded.settings.clone(),
            settings: loaded.settings.clone(),
            files: loaded.files_in_force(),
            files_with_effect: loaded.files_with_effect(),
            address,
            servers: if loaded.is_empty_of_servers() {
                ServerOrigin::Bundled
            } else {
                ServerOrigin::Configured
            },
            folders: ClientFolders::new(),
        }
    }

    /// The folders that clients work in, whose servers are added.
    pub fn folders(&self) -> &Arc<ClientFolders> {
        &self.folders
    }

    /// The reason why a reload must not apply a new configuration, if there is one.
    fn refusal(&self, loaded: &LoadedConfig, cause: &ReloadCause) -> Option<Problem> {
        let twice = loaded.findings.iter().find(|finding| finding.code == "config.duplicate-name");
        if let Some(finding) = twice {
            // It is unknown which of the two is intended. At startup the other servers run; a reload changes nothing.
            return Some(finding.problem());
        }
        self.missing_trust(loaded)
            .or_else(|| self.lost_files(loaded, cause))
            .or_else(|| self.loosened_auth(&loaded.settings))
    }

    fn missing_trust(&self, loaded: &LoadedConfig) -> Option<Problem> {
        let waiting = loaded.rules_waiting();
        // Settings that were in force and are now untrusted would be replaced by weaker ones.
        let lost = loaded.protections_waiting().into_iter().filter(|file| self.files.contains(*file));
        let mut files: Vec<&Path> = waiting.into_iter().chain(lost).collect();
        files.dedup();
        (!files.is_empty()).then(|| trust_required(&files))
    }

    /// Files that were in force and are now missing or empty. Their rules would be lost with them, so a person has
    /// to confirm it with an explicit reload: a mistake, a failed mount or an unfinished save can also remove a file.
    fn lost_files(&self, loaded: &LoadedConfig, cause: &ReloadCause) -> Option<Problem> {
        if cause.is_request() {
            return None;
        }
        let filled = loaded.filled_files();
        let lost: Vec<&Path> = self.files_with_effect.difference(&filled).map(PathBuf::as_path).collect();
        (!lost.is_empty()).then(|| files_lost(&lost))
    }

    /// Refuses to weaken authentication. In `local` mode every caller is the gateway's owner, and with
    /// `local_users: any` so is every user of the machine. Users of a running gateway rely on the mode it was started
    /// with, so only a restart can choose either.
    fn loosened_auth(&self, settings: &Settings) -> Option<Problem> {
        if settings.auth.mode != AuthMode::Local {
            return None;
        }
        let (message, hint) = if self.settings.auth.mode != AuthMode::Local {
            let sentence = "the files no longer set an `auth.mode` other than `local`, in which every caller is the \
                            gateway's owner; a reload does not change to that mode";
            (sentence, "restart the gateway to do this, or set `auth.mode` as before")
        } else if self.settings.auth.local_users == LocalUsersSetting::Own
            && settings.auth.local_users == LocalUsersSetting::Any
        {
            let sentence = "the files set `auth.local_users` to `any`, which makes every user of the machine the \
                            gateway's owner; a reload does not make this change";
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

/// The problem of files in force that are now missing or empty.
fn files_lost(files: &[&Path]) -> Problem {
    let describe = |file: &&Path| {
        let change = if file.exists() { "is empty" } else { "is missing" };
        format!("`{}` {change}", file.display())
    };
    let changes: Vec<String> = files.iter().map(describe).collect();
    Problem {
        code: "config.file-lost",
        blame: Blame::Caller,
        message: format!("configuration files in force are lost: {}", changes.join(", ")),
        hint: Some("restore them; to continue without them, run `toolbooth reload`".into()),
    }
}

/// The problem of a project file that sets `auth` or `policy` and is not trusted.
pub fn trust_required(files: &[&Path]) -> Problem {
    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
    Problem {
        code: "trust.required",
        blame: Blame::Caller,
        message: format!(
            "{} sets rules for callers and is not trusted: without them the gateway would be less restricted than \
             the folder requires",
            names.join(", ")
        ),
        hint: Some(
            "check it, then run `toolbooth trust`; `serve --trust` trusts it and starts, `--no-project` ignores the \
             folder's files"
                .into(),
        ),
    }
}

/// Creates the function that reloads the configuration and applies all of it or nothing.
pub fn reloader(
    front_end: Arc<FrontEndState>,
    active: ActiveConfig,
    watched: WatchedFiles,
    status: Arc<ConfigStatus>,
) -> Reload {
    let active = Arc::new(Mutex::new(active));
    Arc::new(move |cause| {
        let (front_end, active, watched) = (front_end.clone(), active.clone(), watched.clone());
        let status = status.clone();
        Box::pin(async move {
            let mut active = active.lock().await;
            let before = watched.content();
            let done = apply(&front_end, &mut active, &watched, &status, &cause).await;
            watched.note_read(before);
            if let Err(problem) = &done {
                status.failed(problem);
                let event = Event::new(EventKind::ConfigError).code(problem.code);
                front_end.engine.events().emit(event.with("message", problem.message.as_str()));
            }
            audit(&front_end, &active.sources, &cause, &done).await;
            done
        })
    })
}

/// The existing files of a configuration, for reports.
pub fn read_files(loaded: &LoadedConfig) -> Vec<String> {
    let read = loaded.files.iter().filter(|file| file.is_file());
    read.map(|file| file.display().to_string()).collect()
}

/// Loads the configuration on a thread of its own: the key of sealed values may come from a keyring that takes its time.
async fn load(sources: &mut Sources) -> Result<LoadedConfig, LoadFailure> {
    let mut own = sources.clone();
    let loading = tokio::task::spawn_blocking(move || {
        let loaded = toolbooth_config::load_with_trust(&mut own);
        (loaded, own)
    });
    match loading.await {
        Ok((loaded, own)) => {
            *sources = own;
            loaded
        }
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The gateway is stopping.
            Err(_) => Err(LoadFailure { findings: Vec::new(), files: Vec::new() }),
        },
    }
}

async fn apply(
    front_end: &FrontEndState,
    active: &mut ActiveConfig,
    watched: &WatchedFiles,
    status: &ConfigStatus,
    cause: &ReloadCause,
) -> Result<serde_json::Value, Problem> {
    let loaded = load(&mut active.sources).await.map_err(|failure: LoadFailure| {
        watched.add(failure.files.clone());
        Problem::of(&failure)
    })?;
    watched.set(loaded.files.clone());
    if let Some(refusal) = active.refusal(&loaded, cause) {
        return Err(refusal);
    }
    for finding in loaded.findings.iter().filter(|finding| finding.is_error()) {
        tracing::error!(code = finding.code, "config.error: {finding}");
        let event = Event::new(EventKind::ConfigError).code(finding.code);
        front_end.engine.events().emit(event.with("message", finding.to_string().as_str()));
    }
    let settings = &loaded.settings;
    // Everything is validated before anything is applied.
    let terms = terms::of(&loaded)?;
    let identity = callers::identity_at(&loaded, active.address)?;
    let directory = callers::directory(&loaded, callers::http())?;
    let exporters = Exporters::of(settings)?;
    let engine = &front_end.engine;
    let vaults = gateway::vaults(settings, engine.store(), engine.clock());
    let mut plans = match (loaded.is_empty_of_servers(), active.servers) {
        // Without a person's request, the loss of all servers does not start the bundled ones.
        (true, ServerOrigin::Configured) if !cause.is_request() => Vec::new(),
        _ => gateway::plans(&loaded, &vaults),
    };
    let taken: Vec<_> = plans.iter().map(|plan| plan.name.clone()).collect();
    plans.extend(active.folders.servers(&active.sources, &loaded, &vaults, taken));
    let prepared = engine.servers().prepare(plans).await.map_err(|error| Problem::of(&error))?;
    // Rules come first: a new server must not be called under the old rules.
    if settings.auth != active.settings.auth {
        front_end.authenticator.take_mode_of(identity);
        front_end.update_quotas();
    }
    let difference = front_end.authenticator.set_directory(directory);
    engine.set_terms(terms);
    engine.files().set_terms(file_storage::terms(settings, Some(active.address)));
    engine.own_tools().offer().await;
    let applied = engine.servers().apply(prepared).await;
    engine.catalog().set_manifests(gateway::manifests(&loaded)).await;
    engine.skills().set(loaded.skills.clone()).await;
    engine.jobs().set_manifests(gateway::work_manifests(&loaded)).await;
    engine.catalog().set_own_prompts(callers::own_prompts(settings)).await;
    exporters.install(engine.events(), engine.tracing());
    if difference == DirectoryChange::Some || settings.auth != active.settings.auth {
        engine.catalog().announce_all_lists();
    }
    if !loaded.is_empty_of_servers() {
        // The bundled servers were replaced, so only a person's request starts them again.
        active.servers = ServerOrigin::Configured;
    } else if cause.is_request() {
        // A later change of a file must not stop them again.
        active.servers = ServerOrigin::Bundled;
    }
    let changed = setting_changes::changed(&active.settings, settings);
    let restart = setting_changes::waiting_for_restart(&active.started, settings);
    // A saved file and `toolbooth reload` are two reloads of one change.
    let is_reported = restart == setting_changes::waiting_for_restart(&active.started, &active.settings);
    active.replace_by(&loaded);
    status.read_from(read_files(&loaded));
    status.set_settings(shown_settings(&loaded));
    status.needs_restart(restart.iter().map(|name| (*name).to_owned()).collect());
    if !is_reported {
        report_restart(front_end, &restart);
    }
    let findings: Vec<String> = loaded.findings.iter().map(toolbooth_config::render_without_line).collect();
    Ok(serde_json::json!({
        "applied": applied, "settings": changed, "restart_needed": restart, "findings": findings,
    }))
}

impl ActiveConfig {
    fn replace_by(&mut self, loaded: &LoadedConfig) {
        self.sources.good_manifests = loaded.good_manifests.clone();
        self.sources.filled_files = loaded.filled_files();
        self.settings = loaded.settings.clone();
        self.files = loaded.files_in_force();
        self.files_with_effect = loaded.files_with_effect();
    }
}

/// Reports settings that need a restart in the log and as an event.
fn report_restart(front_end: &FrontEndState, settings: &[&'static str]) {
    if settings.is_empty() {
        return;
    }
    let message =
        format!("restart needed: `{}` changed and takes effect only at startup", settings.join("`, `"));
    tracing::warn!(code = "config.restart-needed", "{message}");
    let event = Event::new(EventKind::ConfigError).code("config.restart-needed");
    front_end.engine.events().emit(event.with("message", message.as_str()));
}

/// Records the reload and the trusted entries in the audit. The configuration is already in force, so a failure is
/// only logged.
async fn audit(
    front_end: &FrontEndState,
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
    let noted = front_end.engine.audit().record_act(act).await;
    let (clock, store) = (front_end.engine.clock(), front_end.engine.store());
    let trusted = audit_trust(clock, &**store, cause.by(), &sources.trust.entries()).await;
    for problem in [noted, trusted].into_iter().filter_map(Result::err) {
        tracing::error!("a reload was not recorded in the audit: {}", problem.message);
    }
}

/// Reloads the configuration and logs the result.
pub async fn now(reload: &Reload, cause: ReloadCause) {
    match reload(cause).await {
        Ok(report) => tracing::info!("the configuration was reloaded: {}", report["applied"]),
        Err(problem) => {
            tracing::error!(
                code = problem.code,
                "the configuration was not applied, the last good one stays in force: {}",
                problem.sentence()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A failed load ends before it has found all files. If the shorter list counted as a change, the error would be
    // reported twice.
    #[test]
    fn a_failed_load_keeps_the_watched_files() {
        let files = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        let watched = WatchedFiles::new(&files(&["/nowhere/a.toml", "/nowhere/tools"]));
        let now = || watched.files.lock().expect("not poisoned").clone();
        watched.add(files(&["/nowhere/a.toml"]));
        assert_eq!(now(), files(&["/nowhere/a.toml", "/nowhere/tools"]));
        watched.add(files(&["/nowhere/b.toml"]));
        assert_eq!(now(), files(&["/nowhere/a.toml", "/nowhere/tools", "/nowhere/b.toml"]));
        watched.set(files(&["/nowhere/a.toml"]));
        assert_eq!(now(), files(&["/nowhere/a.toml"]));
    }
}
