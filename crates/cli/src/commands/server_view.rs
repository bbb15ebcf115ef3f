//! How one server is shown, and the suggestion for an unknown one.

use crate::failure::CommandFailure;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Tone, line};
use serde_json::Value;
use toolbooth_config::nearest;

/// Adds the most similar name to a failure about an unknown server.
pub async fn suggest(gateway: &GatewayHandle, failure: CommandFailure, name: &str) -> CommandFailure {
    if failure.fault.code != "server.unknown" {
        return failure;
    }
    let Ok(answer) = gateway.get("/servers").await else { return failure };
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = servers.iter().filter_map(|server| server["name"].as_str()).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if (1..=8).contains(&names.len()) => failure.hint(format!("known: {}", names.join(", "))),
        None => failure,
    }
}

/// Shows one server.
pub fn print_server(server: &Value, global: &GlobalOptions) {
    if global.json {
        return render::print_json(server);
    }
    let paint = Paint::stdout();
    let text = |key: &str| server[key].as_str().map(line);
    let state = text("state").unwrap_or_default();
    let mut out = format!(
        "{}: {}\n",
        paint.tone(Tone::Strong, &text("name").unwrap_or_default()),
        paint.tone(tone_of(&state), &state)
    );
    let revision = text("revision").map(|revision| format!("MCP {revision}"));
    let lines = [
        ("about", text("description").or_else(|| text("short_description"))),
        ("author", text("author")),
        ("help", text("help_email")),
        ("level", text("compliance_level")),
        ("transport", text("transport")),
        ("where", text("target")),
        ("speaks", revision),
        ("offers", offers(server)),
        (
            "reason",
            text("reason").map(|reason| match text("code") {
                Some(code) => format!("{reason} [{code}]"),
                None => reason,
            }),
        ),
        ("hint", text("hint")),
        ("noise", noise(server)),
        (
            "next try",
            server["retry_in_seconds"]
                .as_u64()
                .filter(|seconds| *seconds > 0)
                .map(|seconds| format!("in {seconds} s")),
        ),
    ];
    for (key, value) in lines {
        if let Some(value) = value {
            out.push_str(&format!("  {key:<9}  {}\n", render::wrap(&value, 13)));
        }
    }
    for aside in server["set_aside"].as_array().into_iter().flatten() {
        let word = |key: &str| line(aside[key].as_str().unwrap_or_default());
        match &*word("kind") {
            "schema" => out.push_str(&format!("  note       `{}`: {}\n", word("name"), word("reason"))),
            kind => out.push_str(&format!("  set aside  {kind} `{}`: {}\n", word("name"), word("reason"))),
        }
    }
    render::print(&out);
}

/// Describes lines on standard output that are not MCP messages.
fn noise(server: &Value) -> Option<String> {
    let count = usize::try_from(server["stray_lines"].as_u64()?).unwrap_or(usize::MAX);
    let name = line(server["name"].as_str()?);
    let lines = render::count(count, "line");
    Some(format!(
        "{lines} on standard output that are not messages; `toolbooth servers logs {name}` shows them"
    ))
}

fn offers(server: &Value) -> Option<String> {
    let counts = [("tools", "tool"), ("prompts", "prompt"), ("resources", "resource")].map(|(key, noun)| {
        let count = usize::try_from(server[key].as_u64().unwrap_or(0)).unwrap_or(0);
        (count > 0).then(|| render::count(count, noun))
    });
    let parts: Vec<String> = counts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The colour of a state.
pub fn tone_of(state: &str) -> Tone {
    match state {
        "connected" => Tone::Good,
        "error" | "config_error" => Tone::Bad,
        "needs_trust" | "needs_auth" | "connecting" => Tone::Warn,
        _ => Tone::Dim,
    }
}
