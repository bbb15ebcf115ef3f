//! `toolbooth doctor`: what is wrong, and how to put it right.

use super::serve::reloading;
use super::{in_runtime, trust};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::own::Wanted;
use crate::presence::Presence;
use crate::reach::Reach;
use crate::render::{self, Paint, Tone, line};
use serde::Serialize;
use serde_json::{Value, json};
use toolbooth_config::{Loaded, Sources};
use toolbooth_server::{ListenError, listen};

/// How one thing does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    area: &'static str,
    status: Status,
    message: String,
    /// What to do about it.
    fix: Option<String>,
}

#[derive(Debug, Default)]
struct Report(Vec<Check>);

impl Report {
    fn note(&mut self, area: &'static str, status: Status, message: impl Into<String>, fix: Option<String>) {
        self.0.push(Check { area, status, message: message.into(), fix });
    }

    fn count(&self, status: Status) -> usize {
        self.0.iter().filter(|check| check.status == status).count()
    }
}

/// Runs `toolbooth doctor`.
pub fn run(global: &Global) -> Outcome {
    let mut report = Report::default();
    in_runtime(async {
        let mut sources = gateway::sources(global).map_err(Failure::usage)?;
        match toolbooth_config::load_with_trust(&mut sources) {
            Ok(loaded) => {
                look_at_config(&mut report, &loaded);
                look_around(&mut report, global, &sources, loaded).await?;
            }
            Err(failure) if failure.is_misuse() => return Err(Failure::config(&failure)),
            Err(failure) => {
                for finding in &failure.findings {
                    report.note("config", Status::Fail, finding.to_string(), finding.hint.clone());
                }
                if let Ok(Some(reach)) = Reach::running(global).await {
                    look_at_gateway(&mut report, &reach, None).await;
                }
            }
        }
        finish(&report, global)
    })
}

fn look_at_config(report: &mut Report, loaded: &Loaded) {
    let read = loaded.files.iter().filter(|file| file.is_file()).count();
    let servers = render::count(loaded.servers.len(), "server");
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
            Some(name) => format!("{name} waits for your trust; it would run with"),
            None => format!("the settings of {} wait for your trust:", render::path(one.file)),
        };
        let fix = "`toolbooth trust` shows it and asks you";
        report.note("trust", Status::Warn, format!("{what} {}", one.sentence()), Some(fix.into()));
    }
}

async fn look_around(
    report: &mut Report,
    global: &Global,
    sources: &Sources,
    loaded: Loaded,
) -> Result<(), Failure> {
    let running = match Reach::running(global).await {
        Ok(running) => running,
        Err(failure) => {
            report.note("gateway", Status::Fail, failure.trouble.message, failure.trouble.hint);
            None
        }
    };
    let reach = match running {
        Some(reach) => {
            look_at_gateway(report, &reach, Some(&loaded)).await;
            reach
        }
        None => {
            look_at_port(report, &loaded).await;
            look_at_store(report, &loaded).await;
            Reach::own(global, sources, loaded).await?
        }
    };
    reach.connect(Wanted::All).await;
    let servers = reach.get("/servers").await;
    let manifests = reach.get("/manifests").await;
    let changed = reach.get("/changes").await;
    reach.close().await;
    look_at_manifests(report, &manifests.unwrap_or_default());
    look_at_changes(report, &changed.unwrap_or_default());
    match servers {
        Ok(answer) => answer["servers"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|server| look_at_server(report, server)),
        // A gateway that cannot be reached was noted already.
        Err(failure) if failure.exit == Exit::Unreachable => {}
        Err(failure) => report.note("gateway", Status::Fail, failure.trouble.message, failure.trouble.hint),
    }
    Ok(())
}

/// Tools that are no longer what was accepted.
fn look_at_changes(report: &mut Report, changed: &Value) {
    for tool in changed["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        let message = format!("`{name}` has changed since it was accepted");
        let fix =
            format!("`toolbooth tools diff {name}` shows how, `toolbooth tools accept {name}` accepts it");
        report.note("tools", Status::Warn, message, Some(fix));
    }
}

/// Entries that have no effect, and files of which an older content counts.
fn look_at_manifests(report: &mut Report, manifests: &Value) {
    let listed = |key: &str| manifests[key].as_array().cloned().unwrap_or_default();
    for file in listed("kept") {
        let message = format!(
            "{} cannot be read any more; what it said before is in force",
            file.as_str().unwrap_or_default()
        );
        report.note("tools", Status::Warn, message, Some("`toolbooth manifest check FILE` says why".into()));
    }
    for entry in listed("entries") {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let (name, origin) = (text("name"), text("origin"));
        match text("state") {
            "waiting" => {
                let message =
                    format!("manifest `{name}` waits: no server has told of the tool that it is laid over");
                let fix = format!(
                    "check its name or its providers at {origin}; `toolbooth tools list` shows the names"
                );
                report.note("tools", Status::Warn, message, Some(fix));
            }
            "set_aside" => {
                let message = format!("manifest `{name}` is set aside: {}", text("reason"));
                report.note("tools", Status::Warn, message, Some(format!("it stands at {origin}")));
            }
            "overlay" if entry["replaces"] == true => {
                let message = format!(
                    "manifest `{name}` replaces the tool {}: it is served by other providers",
                    text("tool")
                );
                let fix = format!(
                    "if that is not meant, rename the entry at {origin} or name the tool among its providers"
                );
                report.note("tools", Status::Warn, message, Some(fix));
            }
            _ => {}
        }
    }
}

async fn look_at_gateway(report: &mut Report, reach: &Reach, loaded: Option<&Loaded>) {
    let Reach::Running(remote) = reach else { return };
    let version = match reach.get("/health").await {
        Ok(health) => health["version"].as_str().unwrap_or("of an unknown version").to_owned(),
        Err(failure) => {
            return report.note("gateway", Status::Fail, failure.trouble.message, failure.trouble.hint);
        }
    };
    let presence = loaded.and_then(|loaded| Presence::find(&loaded.settings.data_dir));
    let presence = presence.filter(|found| found.url == remote.url);
    let pid = presence.map(|found| format!(" (process {})", found.pid)).unwrap_or_default();
    report.note("gateway", Status::Ok, format!("running at {}{pid}", remote.url), None);
    look_at_its_config(report, &reach.get("/ready").await.unwrap_or_default()["config"], loaded);
    if version != env!("CARGO_PKG_VERSION") {
        let message = format!("the gateway is {version}, this command is {}", env!("CARGO_PKG_VERSION"));
        report.note("gateway", Status::Warn, message, Some("restart the gateway".into()));
    }
}

/// What the running gateway goes by, which need not be what stands here.
fn look_at_its_config(report: &mut Report, config: &Value, loaded: Option<&Loaded>) {
    let Some(files) = config["files"].as_array() else { return };
    let theirs: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    let mut ours = loaded.map(reloading::read_files).unwrap_or_default();
    ours.sort_unstable();
    let mut sorted = theirs.clone();
    sorted.sort_unstable();
    if loaded.is_some() && sorted != ours {
        let named: Vec<String> = theirs.iter().map(|file| render::path(file.as_ref())).collect();
        let message = match named.is_empty() {
            true => "the gateway goes by no file, unlike this command".to_owned(),
            false => format!("the gateway goes by other files than this command: {}", named.join(", ")),
        };
        let fix = "run the command where the gateway was started, or start the gateway here";
        report.note("gateway", Status::Warn, message, Some(fix.into()));
    }
    let waiting: Vec<&str> =
        config["restart_needed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !waiting.is_empty() {
        let message = format!(
            "restart needed: the gateway still goes by the `{}` it was started with",
            waiting.join("`, `")
        );
        report.note("gateway", Status::Fail, message, Some("restart the gateway".into()));
    }
    if let Some(why) = config["reload_error"]["message"].as_str() {
        let message = format!(
            "the gateway could not read its configuration again, the last good one is in force: {why}"
        );
        let hint = config["reload_error"]["hint"].as_str().map(str::to_owned);
        let fix = hint.or_else(|| Some("put it right; the gateway reads it again by itself".into()));
        report.note("gateway", Status::Fail, message, fix);
    }
}

async fn look_at_port(report: &mut Report, loaded: &Loaded) {
    let address = loaded.settings.listen.0;
    match listen::bind(address).await {
        Ok(_) => report.note("gateway", Status::Ok, format!("not running; {address} is free for it"), None),
        Err(ListenError::InUse { .. }) => {
            let fix = "stop what listens there, or choose another address with --listen or `listen`";
            report.note(
                "gateway",
                Status::Fail,
                format!("{address} is in use by another program"),
                Some(fix.into()),
            );
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

async fn look_at_store(report: &mut Report, loaded: &Loaded) {
    match gateway::open_store(&loaded.settings).await {
        Ok(store) => {
            store.close().await;
            let place = render::path(&loaded.settings.data_dir);
            report.note("store", Status::Ok, format!("opens (state is kept in {place})"), None);
        }
        Err(problem) => report.note("store", Status::Fail, problem.message, problem.hint),
    }
}

fn look_at_server(report: &mut Report, server: &Value) {
    let text = |key: &str| server[key].as_str().unwrap_or_default();
    let (name, reason) = (text("name"), text("reason"));
    let hint = server["hint"].as_str().map(str::to_owned);
    match text("state") {
        "connected" => {
            let tools = usize::try_from(server["tools"].as_u64().unwrap_or(0)).unwrap_or(0);
            report.note(
                "server",
                Status::Ok,
                format!("{name}: connected, {}", render::count(tools, "tool")),
                None,
            );
        }
        "disabled" => report.note("server", Status::Ok, format!("{name}: disabled"), None),
        // Said already, with its line and with what to do.
        "config_error" | "needs_trust" => {}
        "needs_auth" => report.note("server", Status::Fail, format!("{name}: {reason}"), hint),
        "connecting" => {
            report.note("server", Status::Warn, format!("{name}: still connecting"), Some(heard_at(server)));
        }
        "disconnected" => report.note(
            "server",
            Status::Warn,
            format!("{name}: disconnected"),
            Some(format!("`toolbooth servers connect {name}`")),
        ),
        _ => {
            let fix = hint.or_else(|| Some(heard_at(server)));
            report.note("server", Status::Fail, format!("{name}: {reason}"), fix);
        }
    }
    let asides = server["set_aside"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unchecked = asides.iter().filter(|aside| aside["kind"] == "schema").count();
    if unchecked > 0 {
        let message = format!("{name}: {} with sloppy schemas", render::count(unchecked, "tool"));
        let fix = format!("they work; `toolbooth servers show {name}` says what is not checked");
        report.note("server", Status::Warn, message, Some(fix));
    }
    for aside in asides.iter().filter(|aside| aside["kind"] != "schema") {
        let word = |key: &str| aside[key].as_str().unwrap_or_default();
        if word("kind") == "quarantine" {
            let message = format!(
                "{name}: tool `{}` is in quarantine and offered to nobody: {}",
                word("name"),
                word("reason")
            );
            let fix = format!(
                "look at it with `toolbooth tools show {0}`; `toolbooth tools release {0}` lets it out as it is",
                word("exposed")
            );
            report.note("server", Status::Warn, message, Some(fix));
            continue;
        }
        if word("kind") == "identity" {
            let message = format!("{name}: tool `{}`: {}", word("name"), word("reason"));
            let fix = format!(
                "if it means the caller, set `inject = true` for `{name}`; if it is plain data, leave it"
            );
            report.note("server", Status::Warn, message, Some(fix));
            continue;
        }
        let message = match word("kind") {
            // The tool is there, under a name that people should look at.
            "name" => format!("{name}: tool `{}`: {}", word("name"), word("reason")),
            kind => format!("{name}: {kind} `{}` is set aside: {}", word("name"), word("reason")),
        };
        report.note("server", Status::Warn, message, None);
    }
}

/// Where a server that does not do well says why; only a process says it here.
fn heard_at(server: &Value) -> String {
    match server["transport"].as_str() {
        Some("http" | "sse" | "ws") => {
            "check its `url`; the log of the server itself may tell more".to_owned()
        }
        _ => format!(
            "`toolbooth servers logs {}` shows what it says",
            server["name"].as_str().unwrap_or_default()
        ),
    }
}

fn finish(report: &Report, global: &Global) -> Outcome {
    let (broken, doubtful) = (report.count(Status::Fail), report.count(Status::Warn));
    let exit = if broken > 0 { Exit::Failed } else { Exit::Ok };
    if global.json {
        render::print_json(&json!({ "ok": broken == 0, "checks": report.0 }));
        return Ok(exit);
    }
    let paint = Paint::stdout();
    let mut text = String::new();
    for Check { area, status, message, fix } in &report.0 {
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
    text.push_str(&match (broken, doubtful) {
        (0, 0) => "\nAll is well.\n".to_owned(),
        (0, doubtful) => format!("\nNothing is broken; {}.\n", render::count(doubtful, "warning")),
        (broken, 0) => format!("\n{} to put right.\n", render::count(broken, "thing")),
        (broken, doubtful) => format!(
            "\n{} to put right, {}.\n",
            render::count(broken, "thing"),
            render::count(doubtful, "warning")
        ),
    });
    render::print(&text);
    Ok(exit)
}
