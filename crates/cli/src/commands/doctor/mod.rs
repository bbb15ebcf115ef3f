//! `toolbooth doctor`: finds problems and suggests fixes.

mod identity_provider;
mod refusals;
mod servers;

use super::config_notices::ConfigNotice;
use super::serve::reloading;
use super::shell_variables::GatewayEnvironment;
use super::waiting_work::WaitingWork;
use super::{config_notices, idle_pins, in_runtime, trust, unsupplied_names};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::project_notice;
use crate::remote_gateway::RemoteGateway;
use crate::render::{self, Paint, Tone, line};
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_config::{LoadedConfig, Sources};
use toolbooth_server::{ListenError, listen};

/// The maximum number of sentences about calls that will be held.
const MAX_NOTICES: usize = 20;

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One check and its result.
#[derive(Debug, Serialize)]
struct DoctorCheck {
    area: &'static str,
    status: Status,
    message: String,
    /// Suggested fix; absent if the check is passed.
    fix: Option<String>,
}

#[derive(Debug, Default)]
struct DoctorReport(Vec<DoctorCheck>);

impl DoctorReport {
    fn note(&mut self, area: &'static str, status: Status, message: impl Into<String>, fix: Option<String>) {
        // What is in order needs no fix.
        let fix = fix.filter(|_| status != Status::Ok);
        self.0.push(DoctorCheck { area, status, message: message.into(), fix });
    }

    fn count(&self, status: Status) -> usize {
        self.0.iter().filter(|check| check.status == status).count()
    }
}

/// Runs `toolbooth doctor`.
pub fn run(global: &GlobalOptions) -> CommandResult {
    let mut report = DoctorReport::default();
    in_runtime(async {
        let mut sources = gateway::sources(global).map_err(CommandFailure::usage)?;
        match toolbooth_config::load_with_trust(&mut sources) {
            Ok(loaded) => {
                check_config(&mut report, &loaded);
                check_meaning(&mut report, &loaded);
                identity_provider::check(&mut report, &loaded).await;
                check_gateway_and_servers(&mut report, global, &sources, loaded).await?;
            }
            Err(failure) if failure.is_misuse() => return Err(CommandFailure::config(&failure)),
            Err(failure) => {
                for finding in &failure.findings {
                    report.note("config", Status::Fail, finding.to_string(), finding.hint.clone());
                }
                if let Ok(Some(gateway)) = GatewayHandle::running_with_any_files(global).await {
                    check_gateway(&mut report, &gateway, None).await;
                }
            }
        }
        finish(&report, global)
    })
}

/// Reports which calls will be held, and which servers have a process for each user.
fn check_meaning(report: &mut DoctorReport, loaded: &LoadedConfig) {
    let held = config_notices::held_calls(loaded).into_iter();
    for notice in held.take(MAX_NOTICES) {
        report.note("policy", Status::Ok, sentence(&notice), None);
    }
    if let Some(notice) = config_notices::processes_per_user(loaded) {
        report.note("server", Status::Ok, sentence(&notice), None);
    }
}

/// A fact about the configuration that is in order, and how to change it.
fn sentence(notice: &ConfigNotice) -> String {
    format!("{} ({})", notice.text, notice.change)
}

fn check_config(report: &mut DoctorReport, loaded: &LoadedConfig) {
    let read = loaded.files.iter().filter(|file| file.is_file()).count();
    let servers = match loaded.servers.len() {
        0 if loaded.is_empty_of_servers() => "no servers: the bundled ones apply".to_owned(),
        0 => "no servers: an empty list turns the bundled ones off".to_owned(),
        count => render::count(count, "server"),
    };
    match read {
        0 => report.note("config", Status::Ok, "no file found: bundled servers and defaults apply", None),
        read => report.note(
            "config",
            Status::Ok,
            format!("{} read, {servers}", render::count(read, "file")),
            None,
        ),
    }
    let settings = loaded.findings.iter().filter(|finding| finding.code != "config.needs-trust");
    for finding in settings {
        let status = if finding.is_error() { Status::Fail } else { Status::Warn };
        report.note("config", status, finding.to_string(), finding.hint.clone());
    }
    let waiting = trust::pending(loaded);
    for one in waiting {
        let what = match one.name {
            Some(name) => format!("{name} is not trusted yet; it would run with"),
            None => format!("the settings of {} are not trusted yet:", render::path(one.file)),
        };
        let fix = "`toolbooth trust` shows it and asks for confirmation";
        report.note("trust", Status::Warn, format!("{what} {}", one.sentence()), Some(fix.into()));
    }
}

async fn check_gateway_and_servers(
    report: &mut DoctorReport,
    global: &GlobalOptions,
    sources: &Sources,
    loaded: LoadedConfig,
) -> Result<(), CommandFailure> {
    let running = match GatewayHandle::running(global).await {
        Ok(running) => running,
        Err(failure) => {
            report.note("gateway", Status::Fail, failure.fault.message, failure.fault.hint);
            None
        }
    };
    let with_other_files = match &running {
        Some(_) => None,
        None => GatewayHandle::running_with_any_files(global).await.ok().flatten(),
    };
    let settings = loaded.settings.clone();
    let known = servers::known_problems(&loaded);
    let pins = &settings.exposure.always_load_tools;
    let gateway = match running {
        Some(gateway) => {
            check_gateway(report, &gateway, Some((sources, &loaded))).await;
            refusals::check(report, &gateway).await;
            gateway
        }
        None => {
            match &with_other_files {
                // Its port and its store would look like those of another program.
                Some(other) => check_gateway(report, other, Some((sources, &loaded))).await,
                None => {
                    check_port(report, &loaded).await;
                    check_store(report, &loaded).await;
                }
            }
            // The servers in the files that the command names.
            GatewayHandle::start_embedded(global, sources, loaded).await?
        }
    };
    gateway.connect(ServerSelection::All).await;
    let servers = gateway.get("/servers").await;
    let manifests = gateway.get("/manifests").await;
    let skills = gateway.get("/skills").await;
    let changed = gateway.get("/changes").await;
    check_waiting(report, WaitingWork::ask(&gateway).await);
    for pin in idle_pins::find(&gateway, pins).await {
        let message = format!("`{pin}` in `exposure.always_load_tools` matches no tool");
        let fix =
            "correct it; `toolbooth tools list` shows the names (a server that was never connected has none)";
        report.note("tools", Status::Warn, message, Some(fix.into()));
    }
    for sentence in unsupplied_names::find(&gateway, &settings).await {
        report.note("tools", Status::Warn, sentence, Some(unsupplied_names::FIX.into()));
    }
    let environment = GatewayEnvironment::of(&gateway, global);
    gateway.close().await;
    check_manifests(report, &manifests.unwrap_or_default());
    check_skills(report, &skills.unwrap_or_default());
    check_changed_tools(report, &changed.unwrap_or_default());
    match servers {
        Ok(answer) => {
            let listed = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
            servers::forget_variables_of_gateway(report, &known, listed);
            // The checks of the configuration have reported the others.
            let new = listed.iter().filter(|server| !known.contains(&servers::problem_of(server)));
            new.for_each(|server| servers::check(report, server, environment));
        }
        // An unreachable gateway has already been reported.
        Err(failure) if failure.exit == Exit::Unreachable => {}
        Err(failure) => report.note("gateway", Status::Fail, failure.fault.message, failure.fault.hint),
    }
    Ok(())
}

/// Reports calls that wait for a decision.
fn check_waiting(report: &mut DoctorReport, waiting: WaitingWork) {
    if let Some(held) = waiting.held_text() {
        let fix = "`toolbooth approvals` lists them, `toolbooth approvals approve ID` or `reject ID` decides";
        report.note("calls", Status::Warn, held, Some(fix.into()));
    }
    if let Some(letters) = waiting.letters_text() {
        let message = format!("{letters}: calls that failed, and were neither replayed nor dropped");
        let fix =
            "`toolbooth dead-letters` lists them, `toolbooth dead-letters replay ID` or `drop ID` ends one";
        report.note("calls", Status::Warn, message, Some(fix.into()));
    }
}

/// Reports tools that have changed since they were accepted.
fn check_changed_tools(report: &mut DoctorReport, changed: &Value) {
    for tool in changed["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        let message = format!("`{name}` has changed since it was accepted");
        let fix = format!(
            "`toolbooth tools diff {name}` shows the change, `toolbooth tools accept {name}` accepts it"
        );
        report.note("tools", Status::Warn, message, Some(fix));
    }
}

/// Reports skills that need tools or capabilities that are not there.
fn check_skills(report: &mut DoctorReport, skills: &Value) {
    for skill in skills["skills"].as_array().into_iter().flatten().filter(|skill| skill["ready"] == false) {
        let names = |key: &str| skill[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = names("missing_tools").chain(names("missing_capabilities")).collect();
        let name = skill["name"].as_str().unwrap_or_default();
        let message = match missing.is_empty() {
            true => format!("skill `{name}` cannot be run"),
            false => format!("skill `{name}` lacks {}", missing.join(", ")),
        };
        let fix = format!("`toolbooth skills check {name}` shows why");
        report.note("tools", Status::Warn, message, Some(fix));
    }
}

/// Reports manifest entries without effect, and files whose last good content is still in use.
fn check_manifests(report: &mut DoctorReport, manifests: &Value) {
    let listed = |key: &str| manifests[key].as_array().cloned().unwrap_or_default();
    for file in listed("kept") {
        let message = format!(
            "{} can no longer be read; its last good content is in force",
            file.as_str().unwrap_or_default()
        );
        report.note("tools", Status::Warn, message, Some("`toolbooth config check` shows why".into()));
    }
    for entry in listed("entries") {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let (name, origin) = (text("name"), text("origin"));
        match text("state") {
            "waiting" => {
                let message =
                    format!("manifest `{name}` is waiting: no server offers the tool that it describes");
                let fix = format!(
                    "check its name or its providers at {origin}; `toolbooth tools list` shows the names"
                );
                report.note("tools", Status::Warn, message, Some(fix));
            }
            "set_aside" => {
                let message = format!("manifest `{name}` is set aside: {}", text("reason"));
                report.note("tools", Status::Warn, message, Some(format!("correct it at {origin}")));
            }
            "overlay" if entry["replaces"] == true => {
                let message = format!(
                    "manifest `{name}` replaces the tool {}: it is served by other providers",
                    text("tool")
                );
                let fix = format!(
                    "if this is not intended, rename the entry at {origin} or add the tool to its providers"
                );
                report.note("tools", Status::Warn, message, Some(fix));
            }
            _ => {}
        }
    }
}

async fn check_gateway(
    report: &mut DoctorReport,
    gateway: &GatewayHandle,
    loaded: Option<(&Sources, &LoadedConfig)>,
) {
    let GatewayHandle::Running(remote) = gateway else { return };
    let version = match gateway.get("/health").await {
        Ok(health) => health["version"].as_str().unwrap_or("of an unknown version").to_owned(),
        Err(failure) => {
            return report.note("gateway", Status::Fail, failure.fault.message, failure.fault.hint);
        }
    };
    let record = loaded.and_then(|(_, loaded)| GatewayRecord::find(&loaded.settings.data_dir));
    let record = record.filter(|found| found.url == remote.url);
    let of_folder = loaded
        .zip(record.as_ref())
        .and_then(|((sources, loaded), record)| project_notice::text(loaded, sources, record));
    let pid = record.map(|found| format!(" (process {})", found.pid)).unwrap_or_default();
    report.note("gateway", Status::Ok, format!("running at {}{pid}", remote.url), None);
    let config = &gateway.get("/ready").await.unwrap_or_default()["config"];
    check_gateway_config(report, config, loaded.map(|(_, loaded)| loaded), of_folder);
    if version != env!("CARGO_PKG_VERSION") {
        let message = format!("the gateway is {version}, this command is {}", env!("CARGO_PKG_VERSION"));
        report.note("gateway", Status::Warn, message, Some("restart the gateway".into()));
    }
}

/// Reports if the running gateway uses another configuration than this command.
fn check_gateway_config(
    report: &mut DoctorReport,
    config: &Value,
    loaded: Option<&LoadedConfig>,
    of_folder: Option<String>,
) {
    let Some(files) = config["files"].as_array() else { return };
    let theirs: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    let mut ours = loaded.map(reloading::read_files).unwrap_or_default();
    ours.sort_unstable();
    let mut sorted = theirs.clone();
    sorted.sort_unstable();
    if loaded.is_some() && sorted != ours {
        let named: Vec<String> = theirs.iter().map(|file| render::path(file.as_ref())).collect();
        let message = match named.is_empty() {
            true => "the gateway uses no configuration file, unlike this command".to_owned(),
            false => format!("the gateway uses other files than this command: {}", named.join(", ")),
        };
        let fix =
            "name the gateway's files with `--config` or TOOLBOOTH_CONFIG, or run the command in its folder";
        match of_folder {
            Some(notice) => report.note("gateway", Status::Warn, notice, None),
            None => report.note("gateway", Status::Warn, message, Some(fix.into())),
        }
    }
    let waiting: Vec<&str> =
        config["restart_needed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !waiting.is_empty() {
        let message = format!("restart needed: the gateway still uses the old `{}`", waiting.join("`, `"));
        report.note("gateway", Status::Fail, message, Some("restart the gateway".into()));
    }
    if let Some(why) = config["reload_error"]["message"].as_str() {
        let message =
            format!("the gateway could not reload its configuration, the last good one is in force: {why}");
        let hint = config["reload_error"]["hint"].as_str().map(str::to_owned);
        let fix = hint.or_else(|| Some("correct it; the gateway reloads it automatically".into()));
        report.note("gateway", Status::Fail, message, fix);
    }
}

async fn check_port(report: &mut DoctorReport, loaded: &LoadedConfig) {
    let address = loaded.settings.listen.0;
    match listen::bind(address).await {
        Ok(_) => report.note("gateway", Status::Ok, format!("not running; {address} is available"), None),
        Err(ListenError::InUse { .. }) => {
            let (message, fix) = match is_gateway(&address.to_string()).await {
                true => (
                    format!("a gateway with another data directory answers at {address}"),
                    "name its files with `--config` or its directory with `--data-dir`, or choose another address with \
                     --listen or `listen`",
                ),
                false => (
                    format!("{address} is in use by another program"),
                    "stop that program, or choose another address with --listen or `listen`",
                ),
            };
            report.note("gateway", Status::Fail, message, Some(fix.into()));
        }
        Err(ListenError::Refused { reason, .. }) => {
            let fix = "choose another address with `listen`";
            report.note(
                "gateway",
                Status::Fail,
                format!("cannot listen on {address}: {reason}"),
                Some(fix.into()),
            );
        }
    }
}

/// Whether the program at an address is a gateway.
async fn is_gateway(address: &str) -> bool {
    let Ok(remote) = RemoteGateway::at(address) else { return false };
    if !remote.is_alive().await {
        return false;
    }
    let health = GatewayHandle::Running(remote).get("/health").await.unwrap_or_default();
    health["version"].is_string() && health["status"].is_string()
}

async fn check_store(report: &mut DoctorReport, loaded: &LoadedConfig) {
    match gateway::open_store(&loaded.settings).await {
        Ok(store) => {
            store.close().await;
            let place = render::path(&loaded.settings.data_dir);
            report.note("store", Status::Ok, format!("can be opened (in {place})"), None);
        }
        Err(problem) => report.note("store", Status::Fail, problem.message, problem.hint),
    }
}

fn finish(report: &DoctorReport, global: &GlobalOptions) -> CommandResult {
    let (errors, warnings) = (report.count(Status::Fail), report.count(Status::Warn));
    let exit = if errors > 0 { Exit::Failed } else { Exit::Ok };
    if global.json {
        render::print_json(&json!({ "ok": errors == 0, "checks": report.0 }));
        return Ok(exit);
    }
    let paint = Paint::stdout();
    let mut text = String::new();
    for DoctorCheck { area, status, message, fix } in &report.0 {
        let word = match status {
            Status::Ok => paint.tone(Tone::Good, "ok  "),
            Status::Warn => paint.tone(Tone::Warn, "warn"),
            Status::Fail => paint.tone(Tone::Bad, "FAIL"),
        };
        text.push_str(&format!(
            "{word}  {}  {}\n",
            paint.tone(Tone::Dim, &format!("{area:<7}")),
            render::wrap(&line(message), 15)
        ));
        if let Some(fix) = fix {
            text.push_str(&format!("               fix: {}\n", render::wrap(&line(fix), 20)));
        }
    }
    text.push_str(&match (errors, warnings) {
        (0, 0) => "\nNo problems found.\n".to_owned(),
        (0, warnings) => format!("\nNo errors, {}.\n", render::count(warnings, "warning")),
        (errors, 0) => format!("\n{}.\n", render::count(errors, "error")),
        (errors, warnings) => {
            format!("\n{}, {}.\n", render::count(errors, "error"), render::count(warnings, "warning"))
        }
    });
    render::print(&text);
    Ok(exit)
}
