//! Checks of `toolbooth doctor` about servers.

use super::{DoctorReport, Status};
use crate::commands::shell_variables::{self, GatewayEnvironment};
use crate::render;
use serde_json::Value;
use std::collections::BTreeSet;
use toolbooth_config::{ConfiguredServer, LoadedConfig, ServerConfigState};

/// The servers that cannot run by the configuration as this command reads it, with their states and reasons. The
/// running gateway may have other files and other variables.
pub(super) fn known_problems(loaded: &LoadedConfig) -> BTreeSet<ServerProblem> {
    let problem = |server: &ConfiguredServer| {
        let (state, reason) = match &server.state {
            ServerConfigState::Broken(finding) => ("config_error", finding.problem().message),
            ServerConfigState::NeedsTrust { .. } => ("needs_trust", String::new()),
            _ => return None,
        };
        Some(ServerProblem { name: server.name.to_string(), state: state.to_owned(), reason })
    };
    loaded.servers.iter().filter_map(problem).collect()
}

/// The problem of a server that does not run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerProblem {
    name: String,
    state: String,
    /// Empty for a server that waits for trust.
    reason: String,
}

/// The problem of a server, as the gateway reports it.
pub(super) fn problem_of(server: &Value) -> ServerProblem {
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    let (state, reason) = (text("state"), text("reason"));
    let reason = if state == "needs_trust" { String::new() } else { reason };
    ServerProblem { name: text("name"), state, reason }
}

/// Removes what was reported about variables that this shell lacks and the running gateway has.
pub(super) fn forget_variables_of_gateway(
    report: &mut DoctorReport,
    known: &BTreeSet<ServerProblem>,
    listed: &[Value],
) {
    let runs =
        |name: &str| listed.iter().any(|server| server["name"] == name && server["state"] != "config_error");
    for problem in known.iter().filter(|problem| runs(&problem.name)) {
        if shell_variables::unset_variable(&problem.reason).is_some() {
            report.0.retain(|check| check.message != problem.reason);
        }
    }
}

/// Reports the state of a server, and the tools of it that need attention.
pub(super) fn check(report: &mut DoctorReport, server: &Value, environment: GatewayEnvironment) {
    check_state(report, server, environment);
    check_definitions(report, server);
}

/// Reports the state of a server.
fn check_state(report: &mut DoctorReport, server: &Value, environment: GatewayEnvironment) {
    let text = |key: &str| server[key].as_str().unwrap_or_default();
    let (name, reason) = (text("name"), text("reason"));
    let hint = shell_variables::hint_of(server, environment);
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
        "config_error" => {
            let correct = || "correct its entry in the configuration of the gateway".to_owned();
            let fix = hint.unwrap_or_else(correct);
            report.note("server", Status::Fail, format!("{name}: {reason}"), Some(fix));
        }
        "needs_trust" => {
            let fix = "run `toolbooth trust` in the folder of its file; it shows the command and asks";
            report.note("server", Status::Warn, format!("{name}: not trusted yet"), Some(fix.into()));
        }
        // Users give it their own keys; that the operator has not is not a fault of the gateway.
        "needs_auth" if server["own_key"].is_object() => {
            report.note("server", Status::Warn, format!("{name}: {reason}"), hint);
        }
        "needs_auth" => report.note("server", Status::Fail, format!("{name}: {reason}"), hint),
        "connecting" => {
            report.note("server", Status::Warn, format!("{name}: still connecting"), Some(log_hint(server)));
        }
        "disconnected" => report.note(
            "server",
            Status::Warn,
            format!("{name}: disconnected"),
            Some(format!("`toolbooth servers connect {name}`")),
        ),
        _ => {
            let fix = hint.or_else(|| Some(log_hint(server)));
            report.note("server", Status::Fail, format!("{name}: {reason}"), fix);
        }
    }
}

/// Reports definitions of a server that are set aside, or that need attention.
fn check_definitions(report: &mut DoctorReport, server: &Value) {
    let name = server["name"].as_str().unwrap_or_default();
    let asides = server["set_aside"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unchecked = asides.iter().filter(|aside| aside["kind"] == "schema").count();
    if unchecked > 0 {
        let message = format!("{name}: {} with imprecise schemas", render::count(unchecked, "tool"));
        let fix = format!("they work; `toolbooth servers show {name}` shows what is not checked");
        report.note("server", Status::Warn, message, Some(fix));
    }
    for aside in asides.iter().filter(|aside| aside["kind"] != "schema") {
        let word = |key: &str| aside[key].as_str().unwrap_or_default();
        let (tool, reason) = (word("name"), word("reason"));
        let (message, fix) = match word("kind") {
            "quarantine" => (
                format!("{name}: tool `{tool}` is in quarantine and not offered: {reason}"),
                Some(format!(
                    "inspect it with `toolbooth tools show {0}`; `toolbooth tools release {0}` releases it as it is",
                    word("exposed")
                )),
            ),
            "identity" => (
                format!("{name}: tool `{tool}`: {reason}"),
                Some(format!(
                    "if it means the caller, set `inject = true` for `{name}`; if it is plain data, ignore this"
                )),
            ),
            // The tool is offered, but its name needs attention.
            "name" => (format!("{name}: tool `{tool}`: {reason}"), None),
            kind => (format!("{name}: {kind} `{tool}` is set aside: {reason}"), None),
        };
        report.note("server", Status::Warn, message, fix);
    }
}

/// Where to find the reason for a server's failure: only processes have a log here.
fn log_hint(server: &Value) -> String {
    match server["transport"].as_str() {
        Some("http" | "sse" | "ws") => "check its `url` and the log of the server itself".to_owned(),
        _ => format!(
            "`toolbooth servers logs {}` shows its output",
            server["name"].as_str().unwrap_or_default()
        ),
    }
}
