//! `toolbooth dead-letters`: calls that failed for good, made again or given up.

mod show;

use super::approvals::{Among, id, short};
use super::{call, in_runtime};
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::own::Wanted;
use crate::reach::Reach;
use crate::remote::segment;
use crate::render::{self, line};
use clap::{Args, Subcommand};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How many letters one `--all` treats at most: what a store holds.
const MOST: usize = 20_000;

/// What about dead letters.
#[derive(Debug, Args)]
#[command(after_help = "\
An id may be given by 6 or more characters of its beginning or its end.
For example:
  toolbooth dead-letters
  toolbooth dead-letters replay 9f3ac2
  toolbooth dead-letters replay --all")]
pub struct DeadLettersArguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List calls that wait to be made again (the default).
    List(ListArguments),
    /// Show one: why it failed, what was tried, when it is made again.
    Show { id: String },
    /// Make the call again, as the one who made it first.
    Replay(ReplayArguments),
    /// Give it up.
    Drop(WhichArguments),
}

#[derive(Debug, Clone, Default, Args)]
struct ListArguments {
    /// Those in this state instead: pending, retrying, resolved or dropped.
    #[arg(long, value_name = "STATE", conflicts_with = "all")]
    state: Option<String>,
    /// Those of this tool.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Those in any state.
    #[arg(long)]
    all: bool,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: Option<u32>,
}

#[derive(Debug, Clone, Args)]
struct WhichArguments {
    /// The letter.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// Every one that waits and that you may see.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Args)]
struct ReplayArguments {
    #[command(flatten)]
    which: WhichArguments,
    /// Also if it may have happened.
    #[arg(long)]
    anyway: bool,
}

/// Runs `toolbooth dead-letters`.
pub fn run(global: &Global, what: DeadLettersArguments) -> Outcome {
    in_runtime(async {
        let reach = Reach::open_lasting(global).await?;
        let outcome = within(&reach, global, what).await;
        reach.close().await;
        outcome
    })
}

/// The same at a gateway that is open already.
pub async fn within(reach: &Reach, global: &Global, what: DeadLettersArguments) -> Outcome {
    match what.action.unwrap_or(Action::List(ListArguments::default())) {
        Action::List(filter) => list(reach, global, &filter).await,
        Action::Show { id } => show(reach, global, &id).await,
        Action::Replay(how) => match &how.which.id {
            Some(text) => replay(reach, global, text, how.anyway).await,
            None => replay_all(reach, global, how.anyway).await,
        },
        Action::Drop(which) => match &which.id {
            Some(text) => give_up(reach, global, text).await,
            None => give_up_all(reach, global).await,
        },
    }
}

async fn list(reach: &Reach, global: &Global, filter: &ListArguments) -> Outcome {
    let mut path = format!("/dead-letters?limit={}", filter.limit.unwrap_or(100));
    let state = filter.state.as_deref().or((!filter.all).then_some("pending,retrying"));
    for (key, value) in [("state", state), ("tool", filter.tool.as_deref())] {
        if let Some(value) = value {
            path.push_str(&format!("&{key}={}", segment(value)));
        }
    }
    let answer = reach.get(&path).await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let found = answer["dead_letters"].as_array().map(Vec::as_slice).unwrap_or_default();
    match found.is_empty() {
        true => render::print("There are no dead letters.\n"),
        false => render::print(&show::table(found)),
    }
    if answer["next_cursor"].is_string() {
        render::complain(&format!("The newest {} are shown; there may be more.\n", found.len()));
    }
    Ok(Exit::Ok)
}

async fn show(reach: &Reach, global: &Global, text: &str) -> Outcome {
    let id = id(reach, Among::DeadLetters, text).await?;
    let letter = reach.get(&format!("/dead-letters/{id}")).await?;
    match global.json {
        true => render::print_json(&letter),
        false => render::print(&show::page(&letter)),
    }
    Ok(Exit::Ok)
}

#[derive(serde::Deserialize)]
struct Came<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    held: Option<String>,
}

async fn replay(reach: &Reach, global: &Global, text: &str, anyway: bool) -> Outcome {
    let id = id(reach, Among::DeadLetters, text).await?;
    let letter = reach.get(&format!("/dead-letters/{id}")).await?;
    reach.connect(Wanted::One(letter["server"].as_str().unwrap_or_default())).await;
    let body = ask_again(reach, &id, anyway).await?;
    if global.json {
        render::print_raw_json(&String::from_utf8_lossy(&body));
        return Ok(Exit::Ok);
    }
    let came: Came<'_> = serde_json::from_slice(&body)
        .map_err(|_| Failure::misuse("gateway.stranger", "what answered is no Toolbooth gateway", None))?;
    let name = letter["name"].as_str().map(line).unwrap_or_default();
    match (came.held, came.result) {
        (Some(held), _) => {
            render::print(&format!("{name} waits for approval as {}.\n", line(&held)));
            return Ok(Exit::Held);
        }
        (None, Some(result)) => {
            render::print(&format!("Made {name} again.\n\n"));
            call::print_result(result.get());
        }
        (None, None) => render::print(&format!("Made {name} again.\n")),
    }
    Ok(Exit::Ok)
}

async fn ask_again(reach: &Reach, id: &str, anyway: bool) -> Result<bytes::Bytes, Failure> {
    let body = json!({ "anyway": anyway }).to_string();
    reach.post("making the call again", &format!("/dead-letters/{id}/replay"), Some(body.into())).await
}

/// Every letter that waits, oldest first.
async fn waiting(reach: &Reach) -> Result<Vec<Value>, Failure> {
    let mut all: Vec<Value> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = reach.get(&format!("/dead-letters?state=pending&limit=1000{cursor}")).await?;
        all.extend(page["dead_letters"].as_array().into_iter().flatten().cloned());
        match page["next_cursor"].as_str() {
            Some(next) if all.len() < MOST => cursor = format!("&cursor={}", segment(next)),
            _ => break,
        }
    }
    all.reverse();
    Ok(all)
}

async fn replay_all(reach: &Reach, global: &Global, anyway: bool) -> Outcome {
    let letters = waiting(reach).await?;
    let servers: BTreeSet<&str> = letters.iter().filter_map(|letter| letter["server"].as_str()).collect();
    for server in servers {
        reach.connect(Wanted::One(server)).await;
    }
    let (mut resolved, mut failed) = (Vec::new(), Vec::new());
    for letter in &letters {
        let id = letter["id"].as_str().unwrap_or_default();
        match ask_again(reach, id, anyway).await {
            Ok(_) => resolved.push(id),
            Err(failure) => failed.push((id, failure)),
        }
    }
    if global.json {
        let failed: Vec<Value> =
            failed.iter().map(|(id, failure)| json!({ "id": id, "error": failure.trouble })).collect();
        render::print_json(&json!({ "resolved": resolved, "failed": failed }));
    } else {
        render::print(&format!("Made {} again.\n", render::count(resolved.len(), "call")));
        for (id, failure) in &failed {
            let end = short(&Value::from(*id)).to_owned();
            render::complain(&format!("{end}: {}\n", line(&failure.trouble.message)));
        }
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

async fn give_up(reach: &Reach, global: &Global, text: &str) -> Outcome {
    let id = id(reach, Among::DeadLetters, text).await?;
    let letter = reach.delete(&format!("/dead-letters/{id}")).await?;
    if global.json {
        render::print_json(&letter);
    } else {
        let name = letter["name"].as_str().map(line).unwrap_or_default();
        render::print(&format!("Dropped {name}. It is not made again.\n"));
    }
    Ok(Exit::Ok)
}

async fn give_up_all(reach: &Reach, global: &Global) -> Outcome {
    let letters = waiting(reach).await?;
    let mut dropped = Vec::new();
    for letter in &letters {
        let id = letter["id"].as_str().unwrap_or_default();
        reach.delete(&format!("/dead-letters/{id}")).await?;
        dropped.push(id);
    }
    match global.json {
        true => render::print_json(&json!({ "dropped": dropped })),
        false => render::print(&format!("Dropped {}.\n", render::count(dropped.len(), "letter"))),
    }
    Ok(Exit::Ok)
}
