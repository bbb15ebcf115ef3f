//! Draws the terms of a tool.

use crate::render::{Paint, Tone, line};
use serde_json::Value;

/// Draws the terms as rows; empty if none are known.
pub fn draw(terms: &Value, paint: Paint) -> String {
    if !terms.is_object() {
        return String::new();
    }
    let text = |key: &str| terms[key].as_str().map(line);
    let words = |value: &Value| {
        let list = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(line);
        list.collect::<Vec<_>>().join(", ")
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    let mut row = |label, value: Option<String>| {
        rows.extend(value.filter(|value| !value.is_empty()).map(|value| (label, value)));
    };
    row("version", text("version"));
    let effect = terms["effect"]["rung"].as_str().map(line).unwrap_or_default();
    row("side effects", text("side_effects").map(|label| format!("{label} ({effect})")));
    row("timeout", terms["default_timeout"].as_f64().map(|seconds| format!("{seconds} s")));
    let flags = ["asks_consent", "requires_approval", "one_at_a_time", "idempotency_key"];
    let set: Vec<&str> = flags.into_iter().filter(|flag| terms[*flag] == true).collect();
    row("flags", Some(set.join(", ")));
    row("quality", terms["quality"].as_u64().map(|quality| format!("{quality} of 100")));
    row("safety level", text("safety_level"));
    row(
        "cost",
        terms["cost"]["per_call"].as_f64().map(|cost| {
            format!("{cost} {} a call", terms["cost"]["unit"].as_str().map(line).unwrap_or_default())
        }),
    );
    row("context", terms["token_cost"].as_u64().map(|tokens| format!("{tokens} tokens")));
    row("capabilities", Some(words(&terms["capabilities"])));
    row("personas", Some(words(&terms["persona_allowlist"])));
    row("auth scopes", Some(words(&terms["auth_scopes"])));
    row("credentials", credentials(terms));
    row("providers", Some(providers(&terms["providers"])));
    row("manifest", text("origin"));
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let drawn = rows
        .iter()
        .map(|(label, value)| format!("  {}  {value}\n", paint.tone(Tone::Dim, &format!("{label:<width$}"))));
    format!("\n{}", drawn.collect::<String>())
}

fn credentials(terms: &Value) -> Option<String> {
    let named = terms["auth"]["credentials"].as_array()?;
    let shown = named.iter().filter_map(|one| {
        let word = match (one["configured"] == true, one["required"] == true) {
            (true, _) => "set",
            (false, true) => "missing",
            (false, false) => "not set, optional",
        };
        Some(format!("{} ({word})", line(one["name"].as_str()?)))
    });
    Some(shown.collect::<Vec<_>>().join(", "))
}

fn providers(list: &Value) -> String {
    let shown = list.as_array().into_iter().flatten().filter_map(|one| {
        let id = line(one["id"].as_str()?);
        let unready = match (one["credentials_configured"] == false, one["reason"].as_str()) {
            (_, Some(reason)) => format!(", {}", line(reason)),
            (true, None) => ", credentials missing".to_owned(),
            (false, None) => String::new(),
        };
        Some(format!("{id} (priority {}{unready})", one["priority"]))
    });
    shown.collect::<Vec<_>>().join(", ")
}
