//! `toolbooth calls`: lists finished calls and shows their records.

use super::approvals::{IdKind, call_of_held, id, short};
use super::{on_gateway, print_entries, running_calls};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, ago, line, moment};
use clap::{Args, Subcommand};
use serde_json::Value;

/// The outcomes of calls.
const OUTCOMES: [&str; 7] = ["done", "tool_error", "failed", "timeout", "cancelled", "held", "unknown"];

/// Arguments of `toolbooth calls`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CallsArguments {
    #[command(subcommand)]
    action: Option<CallsAction>,
    #[command(flatten)]
    filter: CallsListArguments,
}

#[derive(Debug, Subcommand)]
enum CallsAction {
    /// List finished calls, newest first (the default).
    List(CallsListArguments),
    /// Show the record of a call: attempts, timings, files.
    Show {
        /// Id of the call or of its held call, or 6 or more characters of its beginning or its end.
        id: String,
    },
    /// List calls that have not ended: running ones, and those that wait for approval or for an answer.
    Running,
    /// Cancel a call that has not ended. A call that waits for approval is withdrawn and does not run.
    Cancel {
        /// Id of the call or of its held call, or 6 or more characters of its beginning or its end.
        id: String,
    },
}

#[derive(Debug, Clone, Args)]
struct CallsListArguments {
    /// Only calls of this user.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only calls of this server.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Only calls of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls with this outcome.
    #[arg(long, value_name = "OUTCOME", value_parser = OUTCOMES)]
    outcome: Option<String>,
    /// Only calls before this record, for the next page.
    #[arg(long, value_name = "N")]
    before: Option<u64>,
    /// Maximum number of calls.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: Option<u32>,
}

/// Runs `toolbooth calls`.
pub fn run(global: &GlobalOptions, arguments: CallsArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        match arguments.action.unwrap_or(CallsAction::List(arguments.filter)) {
            CallsAction::List(filter) => list(gateway, global, &filter).await,
            CallsAction::Show { id } => show(gateway, global, &id).await,
            CallsAction::Running => running_calls::list(gateway, global).await,
            CallsAction::Cancel { id } => running_calls::cancel(gateway, global, &id).await,
        }
    })
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions, filter: &CallsListArguments) -> CommandResult {
    let CallsListArguments { user, server, tool, outcome, before, limit } = filter;
    let mut path = format!("/calls?limit={}", limit.unwrap_or(50));
    let before = before.map(|before| before.to_string());
    let filters =
        [("user", user), ("server", server), ("tool", tool), ("outcome", outcome), ("before", &before)];
    for (key, value) in filters {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = gateway.get(&path).await?;
    print_entries(global, &answer, "calls", "There are no records of calls.\n", table);
    if let (Some(next), false) = (answer["next_before"].as_u64(), global.json) {
        render::complain(&format!("Older calls: toolbooth calls list --before {next}\n"));
    }
    Ok(Exit::Ok)
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let call = match find(gateway, text).await {
        Err(failure) if failure.fault.code == "call.unknown" => match call_of_held(gateway, text).await? {
            Some(id) => gateway.get(&format!("/calls/{id}")).await?,
            None => return Err(failure),
        },
        found => found?,
    };
    match global.json {
        true => render::print_json(&call),
        false => render::print(&page(&call)),
    }
    Ok(Exit::Ok)
}

async fn find(gateway: &GatewayHandle, text: &str) -> Result<Value, CommandFailure> {
    let id = id(gateway, IdKind::Calls, text).await?;
    gateway.get(&format!("/calls/{id}")).await
}

/// The name that clients use for the tool. That of a tool that is gone is made of its server and its own name.
fn name_of(call: &Value) -> String {
    let tool = call["tool"].as_str().unwrap_or_default();
    match (call["name"].as_str(), call["server"].as_str()) {
        (Some(name), _) => name.to_owned(),
        // Names with an underscore first are the gateway's own.
        (None, Some(server)) if !server.starts_with('_') => format!("{server}_{tool}"),
        (None, _) => tool.to_owned(),
    }
}

/// What has become of a call: the state of its held call or of the run that it started, if it has one.
fn present_outcome(call: &Value) -> &str {
    let text = |key: &str| call[key].as_str().unwrap_or_default();
    match (text("outcome"), text("held_state"), text("run_state")) {
        ("held", state @ ("rejected" | "expired"), _) => state,
        // The approved call has a record of its own.
        ("held", "approved" | "done" | "failed", _) => "approved",
        ("done", _, "waiting" | "held") => "held",
        ("done", _, state @ ("pending" | "running" | "failed" | "cancelled")) => state,
        (outcome, ..) => outcome,
    }
}

fn outcome(word: &str, code: &str) -> TableCell {
    let text = if code.is_empty() { word.to_owned() } else { format!("{word}, {code}") };
    outcome_cell(word, &text)
}

fn outcome_cell(word: &str, text: &str) -> TableCell {
    match word {
        "done" | "approved" => TableCell::toned(text, Tone::Good),
        "failed" | "rejected" | "tool_error" | "timeout" => TableCell::toned(text, Tone::Bad),
        "held" | "unknown" => TableCell::toned(text, Tone::Warn),
        _ => text.into(),
    }
}

/// Says that a call replays a dead letter, and whether automatically.
fn replay(call: &Value) -> Option<String> {
    call["replay_of"].as_str()?;
    Some(match call["replayed_by"].as_str() {
        Some(by) => format!("replay by {}", line(by)),
        None => "automatic replay".to_owned(),
    })
}

fn listed_outcome(call: &Value) -> TableCell {
    let word = present_outcome(call);
    let code = call["code"].as_str().filter(|code| !code.is_empty()).map(str::to_owned);
    let parts = [Some(word.to_owned()), code, replay(call)];
    outcome_cell(word, &parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// A table of calls.
fn table(calls: &[Value]) -> String {
    let mut table = Table::new(&["ID", "TIME", "TOOL", "USER", "OUTCOME", "MS", "ARGUMENTS"]);
    for call in calls {
        let text = |key: &str| call[key].as_str().unwrap_or_default();
        table.row([
            TableCell::toned(short(&call["id"]), Tone::Strong),
            ago(call["at_ms"].as_i64().unwrap_or(0)).into(),
            name_of(call).into(),
            text("user").into(),
            listed_outcome(call),
            call["duration_ms"].as_u64().unwrap_or(0).to_string().into(),
            text("arguments_preview").into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The page of one call.
fn page(call: &Value) -> String {
    let paint = Paint::stdout();
    let text = |key: &str| call[key].as_str().map(line).unwrap_or_default();
    let number = |key: &str, unit: &str| call[key].as_u64().map(|number| format!("{number} {unit}"));
    let mut out = format!(
        "{}  {}\n\n",
        paint.tone(Tone::Strong, &line(&name_of(call))),
        paint.tone(Tone::Dim, &text("id"))
    );
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            out.push_str(&format!("  {:<13}{value}\n", paint.tone(Tone::Dim, name)));
        }
    };
    row("outcome", Some(line(present_outcome(call))));
    row("fault", Some(text("code")));
    row("caller", Some(text("user")));
    row("persona", Some(text("persona")));
    row("session", Some(text("session")));
    row("began", call["at_ms"].as_i64().map(moment));
    row("took", number("duration_ms", "ms"));
    row("waited", number("waited_ms", "ms").filter(|waited| !waited.starts_with("0 ")));
    row("provider", Some(text("provider")));
    row("arguments", Some(text("arguments_preview")));
    row("result", number("result_bytes", "bytes"));
    row("held call", Some(text("held")));
    row("dead letter", Some(text("dead_letter")));
    row("replay", replay(call));
    row("replay of", Some(text("replay_of")));
    row("audit row", call["audit_seq"].as_u64().map(|seq| seq.to_string()));
    let attempts = call["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !attempts.is_empty() {
        let mut table = Table::new(&["PROVIDER", "OUTCOME", "MS"]);
        for attempt in attempts {
            let text = |key: &str| attempt[key].as_str().unwrap_or_default();
            let took = attempt["duration_ms"].as_u64().unwrap_or(0).to_string();
            table.row([text("provider").into(), outcome(text("outcome"), text("code")), took.into()]);
        }
        out.push_str(&format!("\n{}", table.draw(paint)));
    }
    let files = call["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !files.is_empty() {
        let mut table = Table::new(&["FILE", "TYPE", "VIEWER", "ID"]);
        for file in files {
            let text = |key: &str| file[key].as_str().unwrap_or_default();
            table.row([text("name").into(), text("mime").into(), text("viewer").into(), text("id").into()]);
        }
        out.push_str(&format!("\n{}", table.draw(paint)));
    }
    if call["display"].is_object() {
        out.push_str(&format!("\n  display  {}\n", line(&call["display"].to_string())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_of_a_call_shows_attempts_and_files() {
        let call = json!({
            "id": "0199", "server": "web", "tool": "find", "user": "ann", "outcome": "done", "at_ms": 0,
            "duration_ms": 90, "waited_ms": 0, "audit_seq": 4, "dead_letter": null,
            "attempts": [{"provider": "mcp:a", "outcome": "timeout", "code": "call.timeout", "duration_ms": 30},
                         {"provider": "mcp:b", "outcome": "done", "duration_ms": 60}],
            "artifacts": [{"id": "f1", "name": "report.html", "mime": "text/html", "viewer": "html"}],
        });
        let shown = page(&call);
        for part in ["web_find", "0199", "90 ms", "mcp:a", "timeout, call.timeout", "report.html", "html"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
        assert!(!shown.contains("waited") && !shown.contains("dead letter"), "{shown}");
    }

    #[test]
    fn a_list_shows_what_has_become_of_a_call() {
        let cases = [
            (json!({"outcome": "done"}), "done"),
            (json!({"outcome": "held", "held_state": "pending"}), "held"),
            (json!({"outcome": "held", "held_state": "rejected"}), "rejected"),
            (json!({"outcome": "held", "held_state": "done"}), "approved"),
            (json!({"outcome": "done", "run_state": "waiting"}), "held"),
            (json!({"outcome": "done", "run_state": "succeeded"}), "done"),
        ];
        for (call, expected) in cases {
            assert_eq!(present_outcome(&call), expected, "{call}");
        }
        assert_eq!(replay(&json!({"replay_of": "1"})).as_deref(), Some("automatic replay"));
        let by_hand = json!({"replay_of": "1", "replayed_by": "ann"});
        assert_eq!(replay(&by_hand).as_deref(), Some("replay by ann"));
        assert_eq!(replay(&json!({"dead_letter": "1"})), None);
    }

    #[test]
    fn a_tool_has_the_name_that_clients_use() {
        let names = [
            json!({"server": "notes", "tool": "send_note", "name": "send_note_2"}),
            json!({"server": "notes", "tool": "send_note"}),
            json!({"server": "_manifest", "tool": "skill_brief"}),
        ];
        assert_eq!(names.map(|call| name_of(&call)), ["send_note_2", "notes_send_note", "skill_brief"]);
    }
}
