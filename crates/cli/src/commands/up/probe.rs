//! Waits until every server has answered or failed, and says on one screen what works.

use crate::commands::shell_variables::{self, GatewayEnvironment};
use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Tone, line};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pause between two looks at the servers.
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of failed servers that are shown.
const MAX_SHOWN: usize = 12;

/// The servers after the probe.
pub struct ProbedServers(Vec<Value>);

/// Waits until no server is connecting. Servers that connect only on demand are connected now.
pub async fn probe(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    patience: Duration,
) -> Result<ProbedServers, CommandFailure> {
    let started = Instant::now();
    let mut is_first = true;
    loop {
        let answer = gateway.get("/servers").await?;
        let mut servers = answer["servers"].as_array().cloned().unwrap_or_default();
        let in_state = |state: &str| servers.iter().filter(|server| server["state"] == state).count();
        if std::mem::take(&mut is_first) && in_state("disconnected") > 0 {
            connect_idle(gateway, &servers, patience).await;
            continue;
        }
        if in_state("connecting") == 0 || started.elapsed() >= patience {
            let environment = GatewayEnvironment::of(gateway, global);
            servers.iter_mut().for_each(|server| shell_variables::add_hint(server, environment));
            return Ok(ProbedServers(servers));
        }
        sleep(PAUSE).await;
    }
}

/// Connects the servers that wait for their first call. A failure is shown with the server.
async fn connect_idle(gateway: &GatewayHandle, servers: &[Value], patience: Duration) {
    let idle = servers.iter().filter(|server| server["state"] == "disconnected");
    let connects = idle.filter_map(|server| server["name"].as_str()).map(|name| async move {
        let path = format!("/servers/{}/connect", segment(name));
        let _ = gateway.post(&format!("connecting `{name}`"), &path, None).await;
    });
    let all = futures_util::future::join_all(connects);
    let _ = tokio::time::timeout(patience, all).await;
}

impl ProbedServers {
    /// The servers as JSON.
    pub fn json(&self) -> &[Value] {
        &self.0
    }

    /// What works, and what to do about the rest.
    pub fn describe(&self, paint: Paint) -> String {
        let state = |server: &Value| server["state"].as_str().unwrap_or_default().to_owned();
        let name = |server: &Value| line(server["name"].as_str().unwrap_or_default());
        let working: Vec<&Value> = self.0.iter().filter(|server| state(server) == "connected").collect();
        let tools: u64 = working.iter().filter_map(|server| server["tools"].as_u64()).sum();
        let mut text = String::new();
        if !working.is_empty() {
            let names: Vec<String> =
                working.iter().map(|server| format!("{} ({})", name(server), server["tools"])).collect();
            let count = render::count(usize::try_from(tools).unwrap_or(usize::MAX), "tool");
            let verb = if working.len() == 1 { "works" } else { "work" };
            let head = paint.tone(Tone::Good, &format!("{} {verb}", render::count(working.len(), "server")));
            text.push_str(&format!("{head}, with {count}:\n  {}\n", render::wrap(&names.join(", "), 2)));
        }
        let disabled: Vec<String> =
            self.0.iter().filter(|server| state(server) == "disabled").map(name).collect();
        if !disabled.is_empty() {
            text.push_str(&format!("Disabled: {}\n", render::wrap(&disabled.join(", "), 2)));
        }
        let rest: Vec<&Value> =
            self.0.iter().filter(|server| !matches!(&*state(server), "connected" | "disabled")).collect();
        if !rest.is_empty() {
            let verb = if rest.len() == 1 { "does" } else { "do" };
            let head = format!("{} {verb} not work yet:", render::count(rest.len(), "server"));
            text.push_str(&format!("{}\n", paint.tone(Tone::Warn, &head)));
        }
        for server in rest.iter().take(MAX_SHOWN) {
            let reason = line(server["reason"].as_str().unwrap_or(reason_of(&state(server))));
            text.push_str(&format!("  {}\n", render::wrap(&format!("{}: {reason}", name(server)), 4)));
            text.push_str(&format!("    {}\n", render::wrap(&format!("→ {}", fix_of(server)), 6)));
        }
        if rest.len() > MAX_SHOWN {
            text.push_str(&format!("  and {} more: `toolbooth servers` lists all\n", rest.len() - MAX_SHOWN));
        }
        text
    }
}

fn reason_of(state: &str) -> &'static str {
    match state {
        "connecting" => "has not answered yet",
        "needs_trust" => "is not trusted yet",
        "needs_auth" => "needs a sign-in",
        "disconnected" => "is not connected",
        _ => "failed",
    }
}

/// What the user can do.
fn fix_of(server: &Value) -> String {
    let name = line(server["name"].as_str().unwrap_or_default());
    let hint = server["hint"].as_str().map(line);
    match server["state"].as_str() {
        Some("needs_trust") => "`toolbooth trust`".to_owned(),
        Some("needs_auth") => hint.unwrap_or_else(|| format!("`toolbooth servers login {name}`")),
        Some("connecting") => format!("wait, then `toolbooth servers show {name}`"),
        _ => hint.unwrap_or_else(|| format!("`toolbooth servers logs {name}` shows its last output")),
    }
}
