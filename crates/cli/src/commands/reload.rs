//! `toolbooth reload`: makes the running gateway reload its configuration.

use super::in_runtime;
use super::shell_variables::{self, GatewayEnvironment};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, line};
use serde_json::Value;

/// Runs `toolbooth reload`.
pub fn run(global: &GlobalOptions) -> CommandResult {
    in_runtime(async {
        let gateway = GatewayHandle::require_running(global).await?;
        let report = ask(&gateway).await?;
        let findings: Vec<&str> =
            report["findings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // The rest of the configuration is in force, but what has the error is not.
        let exit = match findings.iter().any(|finding| finding.starts_with("error[")) {
            true => Exit::Failed,
            false => Exit::Ok,
        };
        if global.json {
            render::print_json(&report);
            return Ok(exit);
        }
        render::print(&describe(&report));
        let environment = GatewayEnvironment::of(&gateway, global);
        for finding in findings {
            let finding = with_fix(finding, environment);
            render::complain(&format!("\n{}", render::finding(&render::plain(&finding), Paint::stderr())));
        }
        Ok(exit)
    })
}

/// Replaces the hint about a variable that is set in this shell, but not for the gateway.
fn with_fix(finding: &str, environment: GatewayEnvironment) -> String {
    let lacks = shell_variables::unset_variable(finding).is_some();
    let fix = if lacks { shell_variables::fix("", finding, environment) } else { None };
    let Some(fix) = fix else { return finding.to_owned() };
    let rest = finding.lines().filter(|line| !line.starts_with("hint: "));
    rest.map(|line| format!("{line}\n")).collect::<String>() + &format!("hint: {fix}\n")
}

/// Makes a gateway reload its configuration, and returns its report.
pub async fn ask(gateway: &GatewayHandle) -> Result<Value, CommandFailure> {
    match gateway.post("reloading the configuration", "/servers/reload", None).await {
        Ok(body) => read(&body),
        Err(failure) if failure.fault.code.starts_with("config.") => {
            let message = format!(
                "the configuration was not applied, the last good one stays in force: {}",
                failure.fault.message
            );
            let mut failure = failure;
            failure.fault.message = message;
            failure.fault.hint.get_or_insert_with(|| "`toolbooth config check` shows every problem".into());
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// Describes the result of a reload.
pub fn describe(report: &Value) -> String {
    let applied = &report["applied"];
    let mut text = String::new();
    for (key, word) in [("added", "added"), ("restarted", "restarted"), ("removed", "removed")] {
        let names: Vec<String> =
            applied[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(line).collect();
        if !names.is_empty() {
            text.push_str(&format!("{word:<10} {}\n", names.join(", ")));
        }
    }
    let names = |key: &str| -> String {
        let names = report[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(line);
        names.collect::<Vec<_>>().join(", ")
    };
    let (settings, restart) = (names("settings"), names("restart_needed"));
    if !settings.is_empty() {
        text.push_str(&format!("{:<10} {settings}\n", "settings"));
    }
    if !restart.is_empty() {
        text.push_str(&format!("Restart needed: {restart} changed and takes effect only at startup.\n"));
    }
    let unchanged = usize::try_from(applied["unchanged"].as_u64().unwrap_or(0)).unwrap_or(0);
    if text.is_empty() {
        return format!("Nothing changed ({}).\n", render::count(unchanged, "server"));
    }
    if unchanged > 0 {
        text.push_str(&format!("unchanged  {}\n", render::count(unchanged, "server")));
    }
    text
}
