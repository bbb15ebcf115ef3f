//! `toolbooth config import`: imports the servers of other clients.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::render::{self, plain};
use clap::Args;
use serde_json::json;
use toolbooth_config::Sources;
use toolbooth_config::clients::ClientId;
use toolbooth_config::import::{ImportError, ImportFrom, ImportPlan, plan as make_plan, undo as take_back};
use toolbooth_core::fault::Problem;

/// Arguments of `toolbooth config import`.
#[derive(Debug, Args)]
#[command(after_help = "The other client's files are never changed. Secrets are sealed in a separate file.")]
pub struct ImportArguments {
    /// Name of a client such as cursor, or a file; without it, lists what can be imported.
    #[arg(value_name = "CLIENT|FILE", conflicts_with = "undo")]
    from: Option<String>,
    /// Write the files.
    #[arg(long, requires = "from")]
    apply: bool,
    /// Undo the last import.
    #[arg(long, conflicts_with = "apply")]
    undo: bool,
}

/// Runs `toolbooth config import`.
pub fn run(global: &GlobalOptions, arguments: &ImportArguments) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    if arguments.undo {
        return undo(global, &sources);
    }
    let gateway_url = GatewayRecord::find(&gateway::data_dir(&sources)).map(|record| record.url);
    let sources = Sources { gateway_url, ..sources };
    let Some(from) = &arguments.from else { return survey(global, &sources) };
    let from: ImportFrom = from.parse().unwrap_or_else(|never| match never {});
    let plan = make_plan(&sources, &from).map_err(|error| failed(&error))?;
    if !arguments.apply {
        return show(global, &plan);
    }
    let applied = plan.apply().map_err(|error| failed(&error))?;
    if global.json {
        render::print_json(&json!({ "plan": plan, "applied": applied }));
        return Ok(Exit::Ok);
    }
    if applied.servers.is_empty() {
        return show(global, &plan);
    }
    let mut text = format!(
        "Imported {}: {}.\n",
        render::count(applied.servers.len(), "server"),
        applied.servers.join(", ")
    );
    for file in &applied.written {
        text.push_str(&format!("  wrote {}\n", render::path(file)));
    }
    text.push_str("`toolbooth config import --undo` undoes the import.\n");
    render::print(&text);
    Ok(Exit::Ok)
}

fn failed(error: &ImportError) -> CommandFailure {
    let failure = CommandFailure::failed(Problem::of(error));
    match error {
        ImportError::Unreadable(finding) => {
            CommandFailure { drawn: Some(toolbooth_config::render(finding)), ..failure }
        }
        _ => failure,
    }
}

fn show(global: &GlobalOptions, plan: &ImportPlan) -> CommandResult {
    if global.json {
        render::print_json(&json!({ "plan": plan }));
        return Ok(Exit::Ok);
    }
    render::print(&plain(&plan.to_string()));
    if !plan.servers.is_empty() {
        render::print("\nNothing was written. Add --apply to write the files.\n");
    }
    Ok(Exit::Ok)
}

/// Lists the servers of every client.
fn survey(global: &GlobalOptions, sources: &Sources) -> CommandResult {
    let plans: Vec<(ClientId, Result<ImportPlan, ImportError>)> = ClientId::all()
        .map(|client| (client, make_plan(sources, &ImportFrom::Client(client))))
        .filter(|(_, plan)| !matches!(plan, Err(ImportError::NothingFound { .. })))
        .collect();
    if global.json {
        let clients = plans.iter().map(|(client, plan)| match plan {
            Ok(plan) => json!({ "client": client, "plan": plan }),
            Err(error) => json!({ "client": client, "error": error.to_string() }),
        });
        render::print_json(&json!({ "clients": clients.collect::<Vec<_>>() }));
        return Ok(Exit::Ok);
    }
    if plans.is_empty() {
        let known: Vec<&str> = ClientId::all().map(ClientId::as_str).collect();
        let sentence = format!("No other client has servers here (looked for {}).", known.join(", "));
        render::print(&format!("{}\n", render::wrap(&sentence, 2)));
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    for (client, plan) in &plans {
        text.push_str(&match plan {
            Ok(plan) if plan.servers.is_empty() => format!("{:<15} nothing new\n", client.as_str()),
            Ok(plan) => {
                let names: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
                let servers = render::count(names.len(), "server");
                format!("{:<15} {servers}: {}\n", client.as_str(), plain(&names.join(", ")))
            }
            Err(error) => format!("{:<15} cannot be read: {}\n", client.as_str(), plain(&error.to_string())),
        });
    }
    text.push_str("\n`toolbooth config import CLIENT` shows the changes; --apply writes them.\n");
    render::print(&text);
    Ok(Exit::Ok)
}

fn undo(global: &GlobalOptions, sources: &Sources) -> CommandResult {
    let undone = take_back(sources).map_err(|error| failed(&error))?;
    if global.json {
        render::print_json(&json!({ "undone": undone }));
        return Ok(Exit::Ok);
    }
    let mut text = "The last import was undone.\n".to_owned();
    for (word, files) in [("restored", &undone.restored), ("removed", &undone.removed)] {
        for file in files {
            text.push_str(&format!("  {word} {}\n", render::path(file)));
        }
    }
    render::print(&text);
    Ok(Exit::Ok)
}
