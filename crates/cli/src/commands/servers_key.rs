//! `toolbooth servers key`: your own key for a server whose users give their own.

use super::server_view::suggest;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::hidden_input::{HiddenInput, read_secret};
use crate::remote_gateway::segment;
use crate::render::{self, Paint, Table, TableCell, Tone, line};
use bytes::Bytes;
use clap::Subcommand;
use serde_json::{Value, json};

/// The actions of `toolbooth servers key`.
#[derive(Debug, Subcommand)]
pub enum ServerKeyAction {
    /// List the servers that take your own key, and whether you have given one (the default).
    List,
    /// Give a server your own key, or replace it. The key is read from standard input, or asked for without being shown.
    #[command(after_help = "\
The gateway stores the key sealed, uses it for your own calls only, and never shows it.
For example:
  toolbooth servers key set shop                (asks for the key)
  pass show shop | toolbooth servers key set shop")]
    Set {
        /// Name of the server.
        name: String,
    },
    /// Delete your own key for a server, and close the connections that use it.
    #[command(alias = "remove")]
    Delete {
        /// Name of the server.
        name: String,
    },
}

/// Runs an action.
pub async fn perform(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    action: &ServerKeyAction,
) -> CommandResult {
    match action {
        ServerKeyAction::List => list(gateway, global).await,
        ServerKeyAction::Set { name } => set(gateway, global, name).await,
        ServerKeyAction::Delete { name } => delete(gateway, global, name).await,
    }
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let answer = gateway.get("/servers").await?;
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let keys: Vec<Value> = servers
        .iter()
        .filter(|server| server["own_key"].is_object())
        .map(|server| json!({ "name": server["name"], "key": server["own_key"] }))
        .collect();
    if global.json {
        render::print_json(&json!({ "keys": keys }));
        return Ok(Exit::Ok);
    }
    if keys.is_empty() {
        render::print("No server takes your own key.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["SERVER", "KEY", "SINCE"]);
    for entry in &keys {
        let key = &entry["key"];
        let (word, tone) = match (key["set"].as_bool(), key["refused"].as_bool()) {
            (Some(true), Some(true)) => ("refused", Tone::Bad),
            (Some(true), _) => ("set", Tone::Good),
            _ => ("missing", Tone::Warn),
        };
        let since = key["set_at_ms"].as_i64().map(render::moment).unwrap_or_default();
        table.row([
            entry["name"].as_str().unwrap_or_default().into(),
            TableCell::toned(word, tone),
            since.into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

async fn set(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let path = format!("/servers/{}/key", segment(name));
    // An unknown server is reported before the key is asked for.
    if let Err(failure) = gateway.get(&path).await {
        return Err(suggest(gateway, failure, name).await);
    }
    let key = match read_secret(&format!("Your key for {}: ", line(name))).await? {
        HiddenInput::Line(key) => key,
        HiddenInput::Interrupted => return Ok(Exit::Failed),
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(CommandFailure::misuse(
            "usage.no-key",
            "no key was given",
            Some("type it at the prompt, or send it to standard input"),
        ));
    }
    let body = Bytes::from(json!({ "key": key }).to_string());
    let answer = read(&gateway.put("storing the key", &path, body).await?)?;
    let text = format!("Your key for {} is stored. Only your own calls use it.\n", line(name));
    report(global, &answer, &text)
}

async fn delete(gateway: &GatewayHandle, global: &GlobalOptions, name: &str) -> CommandResult {
    let answer = match gateway.delete(&format!("/servers/{}/key", segment(name))).await {
        Ok(answer) => answer,
        Err(failure) => return Err(suggest(gateway, failure, name).await),
    };
    report(global, &answer, &format!("There is no key of yours for {}.\n", line(name)))
}

fn report(global: &GlobalOptions, answer: &Value, text: &str) -> CommandResult {
    match global.json {
        true => render::print_json(answer),
        false => render::print(text),
    }
    Ok(Exit::Ok)
}
