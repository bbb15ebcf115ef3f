//! `toolbooth service`: starts the gateway at login, with systemd or launchd.

mod manager;
mod unit;

use super::{connect, in_runtime};
use crate::background::{self, GatewayStart, GatewayStop};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::render;
use crate::running_gateway::find_running;
use clap::{Args, Subcommand};
use manager::ServiceManager;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use toolbooth_config::Sources;
use unit::ServiceUnit;

/// How long a service may take to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The time beyond `drain_seconds` for ending the servers.
const GRACE: Duration = Duration::from_secs(15);
/// The largest unit file that is read.
const MAX_UNIT_BYTES: u64 = 64 * 1024;

/// Arguments of `toolbooth service`.
#[derive(Debug, Args)]
pub struct ServiceArguments {
    #[command(subcommand)]
    action: ServiceAction,
}

#[derive(Debug, Subcommand)]
enum ServiceAction {
    /// Start the gateway now, and at every login.
    #[command(after_help = "\
Writes a systemd user unit (Linux) or a launchd file (macOS) for the current user; no root rights are needed. The \
service runs with the PATH and the configuration options of this command. It does not have the other variables of your \
shell: store those that servers need with `toolbooth secrets set NAME`.")]
    Install {
        #[command(flatten)]
        options: InstallOptions,
    },
    /// Stop the service and remove its file.
    Uninstall {
        #[command(flatten)]
        options: UninstallOptions,
    },
}

#[derive(Debug, Args)]
struct UninstallOptions {
    /// Show what would be removed.
    #[arg(long)]
    dry_run: bool,
    #[arg(long, hide = true, value_enum)]
    manager: Option<ServiceManager>,
}

#[derive(Debug, Args)]
struct InstallOptions {
    /// Print the file without writing it.
    #[arg(long)]
    dry_run: bool,
    /// Write the file, and start nothing.
    #[arg(long)]
    no_start: bool,
    #[arg(long, hide = true, value_enum)]
    manager: Option<ServiceManager>,
}

/// Runs `toolbooth service`.
pub fn run(global: &GlobalOptions, arguments: &ServiceArguments) -> CommandResult {
    match &arguments.action {
        ServiceAction::Install { options } => install(global, options),
        ServiceAction::Uninstall { options } => uninstall(global, options),
    }
}

fn install(global: &GlobalOptions, options: &InstallOptions) -> CommandResult {
    let (sources, loaded) = gateway::load(global)?;
    let manager = options.manager.unwrap_or_else(ServiceManager::of_platform);
    let file = manager.file(&sources).ok_or_else(no_home)?;
    let mut arguments = connect::stdio_arguments(global, &sources);
    // The last word is `stdio` itself.
    arguments.pop();
    let unit = ServiceUnit {
        program: connect::program(),
        arguments,
        home: sources.home.clone().unwrap_or_default().display().to_string(),
        path: sources.env.get("PATH").cloned().unwrap_or_default(),
        variables: connect::folder_variables(&sources),
        log: background::log_path(&loaded.settings.data_dir).display().to_string(),
        stop_seconds: (loaded.settings.drain_seconds + GRACE).as_secs(),
    };
    let text = unit.text(manager).map_err(|why| {
        CommandFailure::misuse("service.unwritable", format!("the service cannot be described: {why}"), None)
    })?;
    if options.dry_run {
        match global.json {
            true => render::print_json(&json!({ "file": file, "text": text, "written": false })),
            false => {
                let path = render::path(&file);
                render::print(&format!("This would be written to {path}:\n\n{}", render::plain(&text)));
            }
        }
        return Ok(Exit::Ok);
    }
    refuse_foreign(&file)?;
    connect::warn_of_cache();
    write(&file, &text)?;
    in_runtime(async {
        let outcome = match options.no_start {
            true => Ok(()),
            false => {
                start_now(manager, &file, &loaded.settings.data_dir, loaded.settings.drain_seconds).await
            }
        };
        report_install(global, manager, &file, options, &outcome);
        Ok(if outcome.is_ok() { Exit::Ok } else { Exit::Failed })
    })
}

/// Starts the service. A gateway that runs in the background is stopped first: both would use the same data directory.
async fn start_now(
    manager: ServiceManager,
    file: &Path,
    data_dir: &Path,
    drain: Duration,
) -> Result<(), String> {
    let stopped = while_waiting("stopping the gateway", background::stop(data_dir, drain + GRACE)).await;
    match stopped {
        Ok(GatewayStop::Stopped { record, .. }) => render::complain(&format!(
            "The gateway in the background (process {}) was stopped; the service replaces it.\n",
            record.pid
        )),
        Ok(GatewayStop::NotRunning) => {}
        Err(failure) => return Err(failure.fault.message.clone()),
    }
    while_waiting("starting the service", async {
        for words in manager.start_commands(file) {
            manager::run_command(&words).await?;
        }
        match wait_until_running(data_dir).await {
            Some(_) => Ok(()),
            None => Err(format!("it did not answer within {} s", START_TIMEOUT.as_secs())),
        }
    })
    .await
}

async fn wait_until_running(data_dir: &Path) -> Option<crate::gateway_record::GatewayRecord> {
    let started = Instant::now();
    loop {
        if let Some(record) = find_running(data_dir).await {
            return Some(record);
        }
        if started.elapsed() > START_TIMEOUT {
            return None;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn report_install(
    global: &GlobalOptions,
    manager: ServiceManager,
    file: &Path,
    options: &InstallOptions,
    outcome: &Result<(), String>,
) {
    let is_running = outcome.is_ok() && !options.no_start;
    if global.json {
        let problem = outcome.as_ref().err();
        return render::print_json(
            &json!({ "file": file, "written": true, "running": is_running, "problem": problem }),
        );
    }
    let mut text = format!("Wrote {}.\n", render::path(file));
    match outcome {
        Ok(()) if is_running => {
            text.push_str("The gateway is running now, and starts at every login.\n");
            text.push_str(manager.after_install());
            text.push_str(
                "`toolbooth status` shows it, `toolbooth service uninstall` removes the service.\n",
            );
        }
        Ok(()) => text.push_str(&format!("Start it with:\n{}", indented(&manager.start_commands(file)))),
        Err(why) => text.push_str(&format!(
            "The service was not started: {}\nStart it with:\n{}{}",
            render::line(why),
            indented(&manager.start_commands(file)),
            manager.logs_hint()
        )),
    }
    render::print(&text);
}

fn indented(commands: &[Vec<String>]) -> String {
    commands.iter().map(|words| format!("  {}\n", words.join(" "))).collect()
}

fn uninstall(global: &GlobalOptions, options: &UninstallOptions) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let manager = options.manager.unwrap_or_else(ServiceManager::of_platform);
    let file = manager.file(&sources).ok_or_else(no_home)?;
    let dry_run = options.dry_run;
    let exists = file.exists();
    if exists && !dry_run {
        refuse_foreign(&file)?;
    }
    in_runtime(async {
        let mut problems = Vec::new();
        if exists && !dry_run {
            for words in manager.stop_commands() {
                problems.extend(manager::run_command(&words).await.err());
            }
            std::fs::remove_file(&file).map_err(|error| unwritable(&file, &error))?;
            for words in manager.after_removal() {
                let _ = manager::run_command(&words).await;
            }
        }
        if global.json {
            let removed = exists && !dry_run;
            render::print_json(&json!({ "file": file, "removed": removed, "problems": problems }));
            return Ok(Exit::Ok);
        }
        let path = render::path(&file);
        let stopped = problems.is_empty();
        render::print(&match (exists, dry_run) {
            (false, _) => format!("No service is installed ({path} does not exist).\n"),
            (true, true) => format!("The service would be stopped, and {path} removed.\n"),
            (true, false) if stopped => format!("The service was stopped, and {path} was removed.\n"),
            (true, false) => format!("{path} was removed, but the service could not be stopped.\n"),
        });
        for problem in problems {
            render::complain(&format!("warning: {}\n", render::line(&problem)));
        }
        Ok(Exit::Ok)
    })
}

/// The file of the installed service of this user.
pub fn installed_file(sources: &Sources) -> Option<PathBuf> {
    ServiceManager::of_platform().file(sources).filter(|file| is_ours(file))
}

/// Starts the gateway by the installed service, if there is one and it can be started.
pub async fn start_installed(sources: &Sources, data_dir: &Path) -> Option<GatewayStart> {
    let file = installed_file(sources)?;
    if find_running(data_dir).await.is_some() {
        return None;
    }
    for words in ServiceManager::of_platform().start_commands(&file) {
        manager::run_command(&words).await.ok()?;
    }
    wait_until_running(data_dir).await.map(GatewayStart::Started)
}

fn is_ours(file: &Path) -> bool {
    let small = std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= MAX_UNIT_BYTES);
    small && std::fs::read_to_string(file).is_ok_and(|text| text.contains(unit::MARKER))
}

/// Refuses to change a unit that was written by hand or by a package.
fn refuse_foreign(file: &Path) -> Result<(), CommandFailure> {
    if !file.exists() || is_ours(file) {
        return Ok(());
    }
    Err(CommandFailure::misuse(
        "service.not-ours",
        format!("{} was not written by `toolbooth service install`", render::path(file)),
        Some("move it away first, or change it by hand"),
    ))
}

fn write(file: &Path, text: &str) -> Result<(), CommandFailure> {
    let write = || -> std::io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut draft = tempfile::NamedTempFile::new_in(folder)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist(file)?;
        Ok(())
    };
    write().map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "service.unwritable".to_owned(),
        blame: "caller".to_owned(),
        message: format!("{} cannot be written: {error}", render::path(file)),
        hint: None,
    })
}

fn no_home() -> CommandFailure {
    CommandFailure::misuse(
        "service.no-home",
        "there is no home folder for the service file",
        Some("set HOME"),
    )
}
