//! Draws dead letters.

use super::short;
use crate::render::{Paint, Table, TableCell, Tone, ago, line, moment};
use serde_json::Value;

fn state(letter: &Value) -> TableCell {
    match (letter["state"].as_str().unwrap_or_default(), letter["may_have_happened"] == true) {
        ("pending", true) => TableCell::toned("in doubt", Tone::Bad),
        ("pending", false) => TableCell::toned("pending", Tone::Warn),
        ("resolved", _) => TableCell::toned("resolved", Tone::Good),
        (word, _) => TableCell::toned(word, Tone::Dim),
    }
}

/// A table of dead letters.
pub fn table(found: &[Value]) -> String {
    let mut table = Table::new(&["ID", "TOOL", "USER", "STATE", "SINCE", "ERROR", "ARGUMENTS"]);
    for letter in found {
        let text = |key: &str| letter[key].as_str().unwrap_or_default();
        table.row([
            TableCell::toned(short(&letter["id"]), Tone::Strong),
            text("name").into(),
            text("user").into(),
            state(letter),
            ago(letter["created_ms"].as_i64().unwrap_or(0)).into(),
            letter["error"]["code"].as_str().unwrap_or_default().into(),
            text("arguments").into(),
        ]);
    }
    table.draw(Paint::stdout())
}

/// The page of one dead letter.
pub fn page(letter: &Value) -> String {
    let paint = Paint::stdout();
    let text = |key: &str| letter[key].as_str().map(line).unwrap_or_default();
    let at = |key: &str| letter[key].as_i64().map(moment);
    let mut out = format!(
        "{}  {}\n\n{}\n\n",
        paint.tone(Tone::Strong, &text("name")),
        paint.tone(Tone::Dim, &text("id")),
        letter["error"]["message"].as_str().map(line).unwrap_or_default()
    );
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            out.push_str(&format!("  {:<11}{value}\n", paint.tone(Tone::Dim, name)));
        }
    };
    row("state", Some(text("state")));
    row("fault", letter["error"]["code"].as_str().map(line));
    row("caller", Some(text("user")));
    row("persona", Some(text("persona")));
    row("session", Some(text("session")));
    row("since", at("created_ms"));
    row("next retry", at("next_retry_ms"));
    row("ended", at("ended_ms"));
    row("arguments", Some(text("arguments")));
    if letter["may_have_happened"] == true {
        let warning = "The call may have succeeded: check before you replay it.";
        out.push_str(&format!("\n{}\n", paint.tone(Tone::Warn, warning)));
    }
    let attempts = letter["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !attempts.is_empty() {
        let mut table = Table::new(&["TIME", "PROVIDER", "RESULT", "MS"]);
        for attempt in attempts {
            let text = |key: &str| attempt[key].as_str().unwrap_or_default();
            table.row([
                moment(attempt["at_ms"].as_i64().unwrap_or(0)).into(),
                text("provider").into(),
                text("code").into(),
                attempt["duration_ms"].as_u64().unwrap_or(0).to_string().into(),
            ]);
        }
        out.push_str(&format!("\n{}", table.draw(paint)));
    }
    out
}
