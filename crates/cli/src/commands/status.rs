//! `toolbooth status`: shows the running gateway.

use super::client_views::{self, ClientView};
use super::waiting_work::WaitingWork;
use super::{in_runtime, service};
use crate::background::log_path;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::project_notice;
use crate::render::{self, Paint, Tone, line};
use crate::running_gateway::find_stopping;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The state of the gateway that a command line means.
struct GatewayStatus {
    url: String,
    /// Absent for a gateway at `--url`.
    record: Option<GatewayRecord>,
    data_dir: PathBuf,
    /// The answer of `/ready`.
    ready: Value,
    clients: Vec<ClientView>,
    waiting: WaitingWork,
    service: Option<PathBuf>,
}

/// Runs `toolbooth status`.
pub fn run(global: &GlobalOptions) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let data_dir = gateway::data_dir(&sources);
    let service = service::installed_file(&sources);
    in_runtime(async {
        let Some(gateway) = GatewayHandle::running(global).await? else {
            return Ok(match find_stopping(&data_dir) {
                Some(record) => stopping(global, &data_dir, &record),
                None => not_running(global, &data_dir, service.as_deref()),
            });
        };
        let record = if global.url.is_some() { None } else { GatewayRecord::find(&data_dir) };
        let url = record.as_ref().map(|record| record.url.clone()).or_else(|| global.url.clone());
        let status = GatewayStatus {
            url: url.unwrap_or_default(),
            record,
            data_dir,
            ready: gateway.get("/ready").await?,
            clients: client_views::ask(&gateway).await.unwrap_or_default(),
            waiting: WaitingWork::ask(&gateway).await,
            service: service.filter(|_| global.url.is_none()),
        };
        let notice = status.record.as_ref().and_then(|record| {
            let (sources, loaded) = gateway::load(global).ok()?;
            project_notice::text(&loaded, &sources, record)
        });
        gateway.close().await;
        match global.json {
            true => render::print_json(&status.json()),
            false => render::print(&status.draw()),
        }
        if let Some(notice) = notice.filter(|_| !global.json) {
            render::print(&format!("\n{}\n", render::wrap(&notice, 0)));
        }
        Ok(Exit::Ok)
    })
}

fn stopping(global: &GlobalOptions, data_dir: &Path, record: &GatewayRecord) -> Exit {
    match global.json {
        true => render::print_json(
            &json!({ "running": false, "stopping": true, "pid": record.pid, "data_dir": data_dir }),
        ),
        false => render::print(&format!(
            "The gateway (process {}) is stopping: it finishes running calls and accepts no others.\n",
            record.pid
        )),
    }
    Exit::Unreachable
}

fn not_running(global: &GlobalOptions, data_dir: &Path, service: Option<&Path>) -> Exit {
    if global.json {
        render::print_json(&json!({ "running": false, "data_dir": data_dir, "service": service }));
    } else {
        let log = log_path(data_dir);
        let log = match log.is_file() {
            true => format!("The log of the last gateway in the background is {}.\n", render::path(&log)),
            false => String::new(),
        };
        render::print(&format!("No gateway is running. `toolbooth start` starts one.\n{log}"));
    }
    Exit::Unreachable
}

impl GatewayStatus {
    fn json(&self) -> Value {
        let record = self.record.as_ref();
        json!({
            "running": true,
            "url": self.url,
            "pid": record.map(|record| record.pid),
            "version": record.map(|record| &record.version),
            "running_seconds": record.and_then(GatewayRecord::running_for).map(|time| time.as_secs()),
            "linger_seconds": record.and_then(|record| record.linger_seconds),
            "data_dir": record.map(|_| &self.data_dir),
            "log": record.and_then(|record| record.log.as_ref()),
            "service": self.service,
            "servers": self.ready["servers"],
            "sessions": self.ready["sessions"],
            "calls": self.ready["calls"],
            "held_calls": self.waiting.held_calls,
            "dead_letters": self.waiting.dead_letters,
            "config": self.ready["config"],
            "clients": self.clients,
        })
    }

    fn draw(&self) -> String {
        let paint = Paint::stdout();
        let version = self.record.as_ref().map(|record| format!(" {}", record.version)).unwrap_or_default();
        let title = format!("Toolbooth{version} is running: {}", line(&self.url));
        let mut text = format!("{}\n\n", paint.tone(Tone::Strong, &title));
        for (key, value) in self.lines() {
            text.push_str(&format!("  {key:<10}{}\n", render::wrap(&value, 12)));
        }
        if !self.clients.is_empty() {
            text.push_str(&format!("\n{}", client_views::draw(&self.clients)));
        }
        text
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if let Some(record) = &self.record {
            let time = record.running_for().map(|time| format!(", running for {}", duration(time)));
            lines.push(("process", format!("{}{}", record.pid, time.unwrap_or_default())));
        }
        lines.push(("console", format!("{}/console/", line(&self.url))));
        if let Some(servers) = self.ready["servers"].as_object() {
            let states: Vec<String> =
                servers.iter().map(|(state, count)| format!("{count} {}", line(state))).collect();
            let states = if states.is_empty() { "none".to_owned() } else { states.join(", ") };
            lines.push(("servers", states));
        }
        if let Some(done) = self.ready["calls"]["done"].as_u64() {
            let failed = self.ready["calls"]["failed"].as_u64().unwrap_or(0);
            lines.push(("calls", format!("{done} done, {failed} failed")));
        }
        if let Some(held) = self.waiting.held_text() {
            lines.push(("held", format!("{held}: `toolbooth approvals`")));
        }
        if let Some(letters) = self.waiting.letters_text() {
            lines.push(("failed", format!("{letters}: `toolbooth dead-letters`")));
        }
        let config = &self.ready["config"];
        let files: Vec<String> = config["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|file| Some(render::path(Path::new(file.as_str()?))))
            .collect();
        if !files.is_empty() {
            lines.push(("config", files.join(", ")));
        }
        if let Some(error) = config["reload_error"]["message"].as_str() {
            lines.push(("problem", format!("the last reload failed: {}", line(error))));
        }
        let waiting: Vec<String> = config["restart_needed"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(line)
            .collect();
        if !waiting.is_empty() {
            lines.push(("restart", format!("needed for {}", waiting.join(", "))));
        }
        let Some(record) = &self.record else { return lines };
        lines.push(("data", render::path(&self.data_dir)));
        if let Some(log) = &record.log {
            lines.push(("log", render::path(log)));
        }
        if let Some(file) = &self.service {
            lines.push(("service", render::path(file)));
        }
        if let Some(seconds) = record.linger_seconds {
            lines.push(("ends", format!("{seconds} s after its last client has disconnected")));
        }
        if record.version != env!("CARGO_PKG_VERSION") {
            let own = env!("CARGO_PKG_VERSION");
            lines.push((
                "note",
                format!("this command is version {own}; stop and start the gateway to use it"),
            ));
        }
        lines
    }
}

/// "42 s", "3 min", "5 h", "2 days".
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
