//! `toolbooth dead-letters`: lists, replays and drops calls that failed permanently.

mod show;

use super::approvals::{IdKind, id, short};
use super::{call_result, on_gateway, print_entries};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, line};
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The maximum number of dead letters for one `--all`: the capacity of a store.
const MAX_LETTERS: usize = 20_000;

/// Arguments of `toolbooth dead-letters`.
#[derive(Debug, Args)]
#[command(after_help = "\
An id may be given by 6 or more characters of its beginning or its end.
For example:
  toolbooth dead-letters
  toolbooth dead-letters replay 9f3ac2
  toolbooth dead-letters replay --all")]
pub struct DeadLettersArguments {
    #[command(subcommand)]
    action: Option<DeadLettersAction>,
}

#[derive(Debug, Subcommand)]
enum DeadLettersAction {
    /// List dead letters that are not resolved (the default).
    List(DeadLetterListArguments),
    /// Show a dead letter: its error, its attempts and the next replay.
    Show {
        /// Id of the dead letter.
        id: String,
    },
    /// Make the call again as its original caller.
    Replay(ReplayArguments),
    /// Drop a dead letter: its call is not made again.
    Drop(DeadLetterArguments),
}

#[derive(Debug, Clone, Default, Args)]
struct DeadLetterListArguments {
    /// List dead letters in this state: pending, retrying, resolved or dropped.
    #[arg(long, value_name = "STATE", conflicts_with = "all")]
    state: Option<String>,
    /// List dead letters of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// List dead letters in any state.
    #[arg(long)]
    all: bool,
    /// Maximum number of dead letters.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Args)]
struct DeadLetterArguments {
    /// Id of the dead letter.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All pending dead letters that you may see.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Args)]
struct ReplayArguments {
    #[command(flatten)]
    which: DeadLetterArguments,
    /// Replay even if the first call may have succeeded.
    #[arg(long)]
    anyway: bool,
}

/// Runs `toolbooth dead-letters`.
pub fn run(global: &GlobalOptions, arguments: DeadLettersArguments) -> CommandResult {
    on_gateway(GatewayHandle::open_persistent(global), async |gateway| {
        within(gateway, global, arguments).await
    })
}

/// Runs the command on an open gateway.
pub async fn within(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    arguments: DeadLettersArguments,
) -> CommandResult {
    match arguments.action.unwrap_or(DeadLettersAction::List(DeadLetterListArguments::default())) {
        DeadLettersAction::List(filter) => list(gateway, global, &filter).await,
        DeadLettersAction::Show { id } => show(gateway, global, &id).await,
        DeadLettersAction::Replay(arguments) => match &arguments.which.id {
            Some(text) => replay(gateway, global, text, arguments.anyway).await,
            None => replay_all(gateway, global, arguments.anyway).await,
        },
        DeadLettersAction::Drop(which) => match &which.id {
            Some(text) => drop_one(gateway, global, text).await,
            None => drop_all(gateway, global).await,
        },
    }
}

async fn list(
    gateway: &GatewayHandle,
    global: &GlobalOptions,
    filter: &DeadLetterListArguments,
) -> CommandResult {
    let mut path = format!("/dead-letters?limit={}", filter.limit.unwrap_or(100));
    let state = filter.state.as_deref().or((!filter.all).then_some("pending,retrying"));
    for (key, value) in [("state", state), ("tool", filter.tool.as_deref())] {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = gateway.get(&path).await?;
    print_entries(global, &answer, "dead_letters", "There are no dead letters.\n", show::table);
    if !global.json && answer["next_cursor"].is_string() {
        let shown = answer["dead_letters"].as_array().map_or(0, Vec::len);
        render::complain(&format!("The newest {shown} are shown; there may be more.\n"));
    }
    Ok(Exit::Ok)
}

async fn show(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let id = id(gateway, IdKind::DeadLetters, text).await?;
    let letter = gateway.get(&format!("/dead-letters/{id}")).await?;
    match global.json {
        true => render::print_json(&letter),
        false => render::print(&show::page(&letter)),
    }
    Ok(Exit::Ok)
}

#[derive(serde::Deserialize)]
struct ReplayAnswer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    held: Option<String>,
}

async fn replay(gateway: &GatewayHandle, global: &GlobalOptions, text: &str, anyway: bool) -> CommandResult {
    let id = id(gateway, IdKind::DeadLetters, text).await?;
    let letter = gateway.get(&format!("/dead-letters/{id}")).await?;
    gateway.connect(ServerSelection::One(letter["server"].as_str().unwrap_or_default())).await;
    let body = request_replay(gateway, &id, anyway).await?;
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    let answer: ReplayAnswer<'_> = serde_json::from_slice(&body).map_err(|_| {
        CommandFailure::misuse("gateway.stranger", "the answer is not from a Toolbooth gateway", None)
    })?;
    let name = letter["name"].as_str().map(line).unwrap_or_default();
    match (answer.held, answer.result) {
        (Some(held), _) => {
            let id = line(&held);
            let text = format!(
                "`{name}` waits for approval as {id}. It was not run. When it is approved (`toolbooth approvals \
                 approve {id}`), it runs; `toolbooth approvals show {id}` shows the result."
            );
            render::print(&format!("{}\n", render::wrap(&text, 0)));
            return Ok(Exit::Held);
        }
        (None, Some(result)) => {
            render::print(&format!("Replayed {name}.\n\n"));
            call_result::print_result(result.get());
        }
        (None, None) => render::print(&format!("Replayed {name}.\n")),
    }
    Ok(Exit::Ok)
}

async fn request_replay(
    gateway: &GatewayHandle,
    id: &str,
    anyway: bool,
) -> Result<bytes::Bytes, CommandFailure> {
    let body = json!({ "anyway": anyway }).to_string();
    gateway.post("replaying the call", &format!("/dead-letters/{id}/replay"), Some(body.into())).await
}

/// All pending dead letters, oldest first.
async fn waiting(gateway: &GatewayHandle) -> Result<Vec<Value>, CommandFailure> {
    let mut all: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = gateway.get(&format!("/dead-letters?state=pending&limit=1000{cursor}")).await?;
        all.extend(page["dead_letters"].as_array().into_iter().flatten().cloned());
        match page["next_cursor"].as_str() {
            Some(next) if all.len() < MAX_LETTERS => cursor = format!("&cursor={}", segment(next)),
            _ => break,
        }
    }
    all.reverse();
    Ok(all)
}

async fn replay_all(gateway: &GatewayHandle, global: &GlobalOptions, anyway: bool) -> CommandResult {
    let letters = waiting(gateway).await?;
    let servers: BTreeSet<&str> = letters.iter().filter_map(|letter| letter["server"].as_str()).collect();
    for server in servers {
        gateway.connect(ServerSelection::One(server)).await;
    }
    let (mut resolved, mut failed) = (Vec::new(), Vec::new());
    for letter in &letters {
        let id = letter["id"].as_str().unwrap_or_default();
        match request_replay(gateway, id, anyway).await {
            Ok(_) => resolved.push(id),
            Err(failure) => failed.push((id, failure)),
        }
    }
    if global.json {
        let failed: Vec<Value> =
            failed.iter().map(|(id, failure)| json!({ "id": id, "error": failure.fault })).collect();
        render::print_json(&json!({ "resolved": resolved, "failed": failed }));
    } else {
        render::print(&format!("Replayed {}.\n", render::count(resolved.len(), "call")));
        for (id, failure) in &failed {
            let end = short(&Value::from(*id)).to_owned();
            render::complain(&format!("{end}: {}\n", line(&failure.fault.message)));
        }
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

async fn drop_one(gateway: &GatewayHandle, global: &GlobalOptions, text: &str) -> CommandResult {
    let id = id(gateway, IdKind::DeadLetters, text).await?;
    let letter = gateway.delete(&format!("/dead-letters/{id}")).await?;
    if global.json {
        render::print_json(&letter);
    } else {
        let name = letter["name"].as_str().map(line).unwrap_or_default();
        render::print(&format!("Dropped {name}. The call is not made again.\n"));
    }
    Ok(Exit::Ok)
}

async fn drop_all(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    let letters = waiting(gateway).await?;
    let mut dropped = Vec::new();
    for letter in &letters {
        let id = letter["id"].as_str().unwrap_or_default();
        gateway.delete(&format!("/dead-letters/{id}")).await?;
        dropped.push(id);
    }
    match global.json {
        true => render::print_json(&json!({ "dropped": dropped })),
        false => render::print(&format!("Dropped {}.\n", render::count(dropped.len(), "dead letter"))),
    }
    Ok(Exit::Ok)
}
