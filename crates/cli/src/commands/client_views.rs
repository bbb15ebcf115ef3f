//! Says in a few lines how many tools which clients will see, and why.

use crate::failure::CommandFailure;
use crate::gateway_handle::{GatewayHandle, read};
use crate::remote_gateway::{RemoteGateway, segment};
use crate::render::{self, line};
use http::Method;
use serde::Serialize;
use serde_json::Value;

/// The clients that are described: the name a client sends, and the word for it here. A client of an unknown name
/// stands for all others.
const CLIENTS: [(&str, &str); 7] = [
    ("claude-code", "claude-code"),
    ("codex", "codex"),
    ("cursor", "cursor"),
    ("vscode", "vscode"),
    ("claude-desktop", "claude-desktop"),
    ("gemini-cli", "gemini"),
    ("unknown", "other clients"),
];

/// Clients that see the same, for the same reason.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ClientView {
    /// The words for the clients.
    pub clients: Vec<&'static str>,
    /// The exposure mode: `full`, `summary` or `search`.
    pub mode: String,
    /// The number of tools that the clients can use.
    pub tools: usize,
    /// The reason for the mode.
    pub reason: String,
}

/// Asks a gateway what clients will see. The gateway first waits a moment for servers that are starting.
pub async fn ask(gateway: &GatewayHandle) -> Result<Vec<ClientView>, CommandFailure> {
    let mut views = Vec::new();
    for (name, word) in CLIENTS {
        let answer = gateway.get(&format!("/exposure?client={}", segment(name))).await?;
        add(&mut views, word, &answer);
    }
    Ok(views)
}

/// The same for a gateway at a URL, without a progress message.
pub async fn ask_remote(remote: &RemoteGateway) -> Result<Vec<ClientView>, CommandFailure> {
    let mut views = Vec::new();
    for (name, word) in CLIENTS {
        let path = format!("/exposure?client={}", segment(name));
        let answer = remote.ask(Method::GET, &path, None).await?.good()?;
        add(&mut views, word, &read(&answer)?);
    }
    Ok(views)
}

fn add(views: &mut Vec<ClientView>, word: &'static str, answer: &Value) {
    let text = |key: &str| line(answer[key].as_str().unwrap_or_default());
    // The reason may name the client; without the name, clients with the same reason are one group.
    let named = format!("(`{}`) ", text("known_as"));
    let view = ClientView {
        clients: vec![word],
        mode: text("mode"),
        tools: usize::try_from(answer["tools"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX),
        reason: text("reason").replace(&named, ""),
    };
    let same = views
        .iter_mut()
        .find(|known| (&known.mode, known.tools, &known.reason) == (&view.mode, view.tools, &view.reason));
    match same {
        Some(same) => same.clients.push(word),
        None => views.push(view),
    }
}

/// Draws the views.
pub fn draw(views: &[ClientView]) -> String {
    let mut text = "Clients will see:\n".to_owned();
    for ClientView { clients, mode, tools, reason } in views {
        let count = render::count(*tools, "tool");
        let what = match mode.as_str() {
            "full" => format!("all {count}"),
            "summary" => format!("{count} with short descriptions"),
            _ => format!("only tools to search and call the {count}"),
        };
        let sentence = format!("{}: {what} ({reason})", clients.join(", "));
        text.push_str(&format!("  {}\n", render::wrap(&sentence, 4)));
    }
    if views.iter().any(|view| view.mode != "full") {
        let hint = "`exposure.mode` and `exposure.clients` change this; `toolbooth exposure explain` shows the costs.";
        text.push_str(&format!("  {}\n", render::wrap(hint, 4)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn clients_with_the_same_reason_are_one_group() {
        let mut views = Vec::new();
        let defers = |word: &str| {
            json!({ "known_as": word, "mode": "full", "tools": 336,
                "reason": format!("the client (`{word}`) defers tools on its own") })
        };
        add(&mut views, "claude-code", &defers("claude-code"));
        add(&mut views, "cursor", &defers("cursor"));
        let large = json!({ "mode": "search", "tools": 336,
            "reason": "not even summaries fit into `exposure.tool_tokens` (10000)" });
        add(&mut views, "other clients", &large);
        expect![[r#"
            Clients will see:
              claude-code, cursor: all 336 tools (the client defers tools on its own)
              other clients: only tools to search and call the 336 tools (not even summaries fit into `exposure.tool_tokens` (10000))
              `exposure.mode` and `exposure.clients` change this; `toolbooth exposure explain` shows the costs.
        "#]]
        .assert_eq(&draw(&views));
    }
}
