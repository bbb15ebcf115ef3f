//! Draws held calls and consents.

use super::short;
use crate::render::{Paint, Table, TableCell, Tone, ago, framed, line, moment, plain};
use serde_json::Value;
use std::io::IsTerminal;

/// The table cell of a state.
pub fn state(word: &str) -> TableCell {
    match word {
        "pending" => TableCell::toned(word, Tone::Warn),
        "done" => TableCell::toned(word, Tone::Good),
        "failed" | "rejected" => TableCell::toned(word, Tone::Bad),
        "expired" => TableCell::toned(word, Tone::Dim),
        word => word.into(),
    }
}

/// The arguments of a held call, on one line.
pub fn arguments(held: &Value) -> String {
    let shown = if held["edited"].is_null() { &held["arguments"] } else { &held["edited"] };
    shown.to_string()
}

/// The job or skill that a held call is a step of, such as `job brief`.
fn work(held: &Value) -> String {
    let text = |key: &str| held["run"][key].as_str();
    match (text("kind"), text("name")) {
        (Some(kind), Some(name)) => format!("{kind} {}", line(name)),
        _ if held["run"].is_object() => "a skill".to_owned(),
        _ => String::new(),
    }
}

/// A table of held calls.
pub fn table(found: &[Value]) -> String {
    let of_runs = found.iter().any(|held| held["run"].is_object());
    let mut table = match of_runs {
        true => Table::new(&["ID", "TOOL", "USER", "STATE", "SINCE", "FOR", "ARGUMENTS"]),
        false => Table::new(&["ID", "TOOL", "USER", "STATE", "SINCE", "ARGUMENTS"]),
    };
    for held in found {
        let text = |key: &str| held[key].as_str().unwrap_or_default();
        let id = TableCell::toned(short(&held["id"]), Tone::Strong);
        let (name, user) = (TableCell::from(text("name")), TableCell::from(text("user")));
        let state = state(text("state"));
        let since = TableCell::from(ago(held["created_ms"].as_i64().unwrap_or(0)));
        match of_runs {
            true => table.row([id, name, user, state, since, work(held).into(), arguments(held).into()]),
            false => table.row([id, name, user, state, since, arguments(held).into()]),
        }
    }
    table.draw(Paint::stdout())
}

/// The page of one held call, without its result.
pub fn page(held: &Value) -> String {
    let paint = Paint::stdout();
    let is_terminal = std::io::stdout().is_terminal();
    let text = |key: &str| held[key].as_str().map(line).unwrap_or_default();
    let at = |key: &str| held[key].as_i64().map(moment);
    let mut out = format!(
        "{}  {}\n\n{}\n\n",
        paint.tone(Tone::Strong, &text("name")),
        paint.tone(Tone::Dim, &text("id")),
        text("question")
    );
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            out.push_str(&format!("  {:<11}{value}\n", paint.tone(Tone::Dim, name)));
        }
    };
    row("state", Some(text("state")));
    let step = held["plan"]["step"].as_u64();
    row("plan", step.map(|step| format!("step {step} of {}", short(&held["plan"]["id"]))));
    let of_run = |key: &str| held["run"][key].as_str().map(line).unwrap_or_default();
    let origin = format!("{}, run {}, step {}", work(held), of_run("id"), of_run("step"));
    row("for", held["run"].is_object().then_some(origin));
    row("effect", Some(text("side_effect")));
    row("caller", Some(text("user")));
    row("persona", Some(text("persona")));
    row("client", Some(text("client")));
    row("since", at("created_ms"));
    if held["state"] == "pending" {
        row("until", at("expires_ms"));
        let who = match held["answerer"].as_str() {
            Some("approver_only") => "an approver other than the caller",
            Some("in_person") => "the caller or an approver, in person",
            _ => "the caller or an approver",
        };
        row("answer by", Some(who.to_owned()));
    }
    let decided = at("decided_ms").zip(held["decided_by"].as_str());
    row("decided", decided.map(|(at, by)| format!("{at} by {}", line(by))));
    row("reason", Some(text("decision_note")));
    row("remember", Some(text("remember")));
    row("waits for", Some(text("waiting_for")));
    row("ended", held["outcome"]["at_ms"].as_i64().map(moment));
    row("fault", held["outcome"]["code"].as_str().map(line));
    for (name, key) in [("Arguments", "arguments"), ("Changed to", "edited")] {
        if !held[key].is_null() {
            let shown = serde_json::to_string_pretty(&held[key]).unwrap_or_default();
            let shown = if is_terminal { framed(&shown) } else { plain(&shown) + "\n" };
            out.push_str(&format!("\n{name}:\n{shown}"));
        }
    }
    out
}

/// A table of consents.
pub fn consents(found: &[Value]) -> String {
    let mut table = Table::new(&["ID", "SERVER", "TOOL", "USER", "SESSION", "GIVEN BY", "SINCE"]);
    for consent in found {
        let text = |key: &str| consent[key].as_str().unwrap_or_default();
        table.row([
            TableCell::toned(short(&consent["id"]), Tone::Strong),
            text("server").into(),
            text("tool").into(),
            text("user").into(),
            text("session").into(),
            text("granted_by").into(),
            ago(consent["created_ms"].as_i64().unwrap_or(0)).into(),
        ]);
    }
    table.draw(Paint::stdout())
}
