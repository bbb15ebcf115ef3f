//! `toolbooth reload`: the running gateway reads its configuration again.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::reach::{Reach, read};
use crate::render::{self, Paint, line};
use serde_json::Value;

/// Runs `toolbooth reload`.
pub fn run(global: &Global) -> Outcome {
    in_runtime(async {
        let reach = Reach::demand(global).await?;
        let report = ask(&reach).await?;
        if global.json {
            render::print_json(&report);
            return Ok(Exit::Ok);
        }
        render::print(&describe(&report));
        for finding in report["findings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            render::complain(&format!("\n{}", render::finding(&render::plain(finding), Paint::stderr())));
        }
        Ok(Exit::Ok)
    })
}

/// Makes a gateway read its configuration again; what it did.
pub async fn ask(reach: &Reach) -> Result<Value, Failure> {
    match reach.post("reading the configuration again", "/servers/reload", None).await {
        Ok(body) => read(&body),
        Err(failure) if failure.trouble.code.starts_with("config.") => {
            let message = format!(
                "the configuration was not applied, the last good one stays: {}",
                failure.trouble.message
            );
            let mut failure = failure;
            failure.trouble.message = message;
            failure.trouble.hint.get_or_insert_with(|| "`toolbooth config check` shows every problem".into());
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// What a reload did, in words.
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
        text.push_str(&format!("Restart needed: {restart} changed, and is fixed when the gateway starts.\n"));
    }
    let unchanged = usize::try_from(applied["unchanged"].as_u64().unwrap_or(0)).unwrap_or(0);
    if text.is_empty() {
        return format!("Nothing changed: {} left alone.\n", render::count(unchanged, "server"));
    }
    if unchanged > 0 {
        text.push_str(&format!("left alone {}\n", render::count(unchanged, "server")));
    }
    text
}
