//! `toolbooth up`: imports the servers of all clients on this machine, starts the gateway and connects the clients to it.

mod journal;
mod probe;
mod survey;
mod undo;

use super::connect::{client_parser, warn_of_cache};
use super::{in_runtime, reload, service};
use crate::background::{self, GatewayStart, StartOptions};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::prompter::Prompter;
use crate::render::{self, Paint, Tone, line};
use clap::Args;
use journal::{StartedGateway, UpJournal};
use probe::{ProbedServers, probe};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use survey::{ClientSurvey, FileChange};
use toolbooth_config::Sources;
use toolbooth_config::clients::ClientId;
use toolbooth_core::fault::Problem;
use undo::{ChangedFiles, UndoOptions};

/// How long a gateway that is replaced may take to finish its calls.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `toolbooth up`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every changed file is saved first; `toolbooth up --undo` restores it byte for byte. Files of projects are not changed."
)]
pub struct UpArguments {
    /// Show what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do it without a prompt; the servers that are shown count as trusted.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Undo everything that `toolbooth up` did.
    #[arg(long)]
    undo: bool,
    /// Put the old entries back into files that were changed after `toolbooth up`, and keep the changes.
    #[arg(long, requires = "undo")]
    merge: bool,
    /// Restore files even if they were changed after `toolbooth up`; the changes are lost.
    #[arg(long, requires = "undo", conflicts_with = "merge")]
    force: bool,
    /// Only this client; may repeat.
    #[arg(long, value_name = "CLIENT", value_parser = client_parser(), hide_possible_values = true)]
    client: Vec<ClientId>,
    /// How many seconds to wait for the servers.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

/// The clients that were connected, and those that could not be.
#[derive(Default)]
struct ConnectedClients {
    connected: Vec<ClientId>,
    failed: Vec<(ClientId, String)>,
}

/// Runs `toolbooth up`.
pub fn run(global: &GlobalOptions, arguments: &UpArguments) -> CommandResult {
    if global.url.is_some() {
        return Err(CommandFailure::misuse(
            "up.not-here",
            "`toolbooth up` works with the gateway of this machine",
            Some(
                "leave out --url and TOOLBOOTH_URL; `toolbooth connect` connects a client to a remote gateway",
            ),
        ));
    }
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let data_dir = gateway::data_dir(&sources);
    if arguments.undo {
        let changed = match (arguments.merge, arguments.force) {
            (true, _) => ChangedFiles::Merge,
            (_, true) => ChangedFiles::Overwrite,
            _ => ChangedFiles::Leave,
        };
        let options = UndoOptions { clients: &arguments.client, changed, dry_run: arguments.dry_run };
        return undo::run(global, &options, &data_dir);
    }
    let gateway_url = GatewayRecord::find(&data_dir).map(|record| record.url);
    let sources = Sources { gateway_url, ..sources };
    let survey = ClientSurvey::take(global, &sources, &arguments.client)?;
    let is_json = global.json;
    if survey.files.is_empty() {
        return nothing_found(global);
    }
    if !is_json {
        render::print(&survey.describe(Paint::stdout()));
    }
    warn_of_cache();
    if arguments.dry_run {
        if is_json {
            render::print_json(&json!({ "plan": survey.json(), "applied": false }));
        } else {
            render::print("\nNothing was changed.\n");
        }
        return Ok(Exit::Ok);
    }
    in_runtime(async {
        if !arguments.yes {
            let prompter = Prompter::here();
            if is_json || !prompter.is_attended() {
                if is_json {
                    render::print_json(&json!({ "plan": survey.json(), "applied": false }));
                }
                render::complain("Nothing was changed: without a terminal, `toolbooth up --yes` confirms.\n");
                return Ok(Exit::Ok);
            }
            let answer = prompter.read("\nThese servers run with your permissions. Continue? [y/N] ").await;
            if !answer.is_some_and(|answer| matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")) {
                render::print("Nothing was changed.\n");
                return Ok(Exit::Failed);
            }
        }
        apply(global, arguments, &data_dir, &survey).await
    })
}

fn nothing_found(global: &GlobalOptions) -> CommandResult {
    if global.json {
        render::print_json(&json!({ "plan": null, "applied": false }));
        return Ok(Exit::Ok);
    }
    let names: Vec<&str> = ClientId::all().map(ClientId::title).collect();
    let text = format!("No client was found here. Looked for {}.", names.join(", "));
    render::print(&format!("{}\n`toolbooth start` runs the gateway without them.\n", render::wrap(&text, 0)));
    Ok(Exit::Ok)
}

/// Imports, starts the gateway, connects the clients, probes the servers and reports.
async fn apply(
    global: &GlobalOptions,
    arguments: &UpArguments,
    data_dir: &Path,
    survey: &ClientSurvey,
) -> CommandResult {
    let unsaved = |error: std::io::Error| {
        CommandFailure::failed(FaultReport {
            code: "up.unsaved".to_owned(),
            blame: "caller".to_owned(),
            message: format!("the undo journal in {} cannot be written: {error}", render::path(data_dir)),
            hint: Some(
                "check the folder's permissions and free space; no file was changed that is not in the journal"
                    .to_owned(),
            ),
        })
    };
    let mut journal = UpJournal::begin(data_dir).map_err(unsaved)?;
    for path in survey.plan.written_files() {
        journal.save(&path, None).map_err(unsaved)?;
    }
    let imported = survey.plan.apply();
    journal.record_written().map_err(unsaved)?;
    imported.map_err(|error| CommandFailure::failed(Problem::of(&error)))?;
    let start = start_gateway(global, data_dir).await.map_err(|failure| {
        failure.hint("no client was changed; `toolbooth up --undo` removes the imported servers")
    })?;
    if let GatewayStart::Started(record) = &start {
        journal
            .record_gateway(StartedGateway { pid: record.pid, started: record.started })
            .map_err(unsaved)?;
    }
    let gateway = GatewayHandle::require_running(global).await?;
    if matches!(start, GatewayStart::AlreadyRunning(_)) {
        reload::ask(&gateway).await?;
    }
    let clients = connect_clients(&mut journal, survey);
    // A run that changed nothing leaves nothing to undo.
    journal
        .forget(|file| file.after == file.before.as_ref().map(|before| before.digest.clone()))
        .map_err(unsaved)?;
    let patience = Duration::from_secs(arguments.wait.min(3600));
    let servers = while_waiting("waiting for the servers", probe(&gateway, global, patience)).await?;
    gateway.close().await;
    report(global, survey, &clients, &servers, &start.record().url);
    // A server that does not work yet does not fail the command; the report says what to do about it.
    Ok(if clients.failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Starts the gateway, through its service if one is installed. A gateway that ends with its last client is replaced by
/// one that stays.
async fn start_gateway(global: &GlobalOptions, data_dir: &Path) -> Result<GatewayStart, CommandFailure> {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    if GatewayRecord::find(data_dir).is_some_and(|record| record.linger_seconds.is_some()) {
        background::stop(data_dir, STOP_PATIENCE).await?;
    }
    let by_service = match gateway::named(&sources).is_empty() {
        true => service::start_installed(&sources, data_dir).await,
        false => None,
    };
    match by_service {
        Some(started) => Ok(started),
        None => background::start(global, data_dir, &StartOptions::default()).await,
    }
}

/// Writes the files of the clients. The failure of one client does not concern the others.
fn connect_clients(journal: &mut UpJournal, survey: &ClientSurvey) -> ConnectedClients {
    let mut clients = ConnectedClients::default();
    for file in &survey.files {
        let outcome = match survey.current_change(file) {
            FileChange::Write { real, text, .. } => journal
                .save(&real, Some(file.client.as_str()))
                .and_then(|()| journal.write(&real, text.as_bytes()))
                .map_err(|error| error.to_string()),
            FileChange::None => Ok(()),
            FileChange::Impossible(why) => Err(why),
        };
        match outcome {
            Ok(()) if clients.connected.contains(&file.client) => {}
            Ok(()) => clients.connected.push(file.client),
            Err(why) => clients.failed.push((file.client, format!("{}: {why}", render::path(&file.path)))),
        }
    }
    clients
}

fn report(
    global: &GlobalOptions,
    survey: &ClientSurvey,
    clients: &ConnectedClients,
    servers: &ProbedServers,
    url: &str,
) {
    if global.json {
        let failed: Vec<_> =
            clients.failed.iter().map(|(client, why)| json!({ "client": client, "reason": why })).collect();
        render::print_json(&json!({
            "plan": survey.json(), "applied": true, "url": url, "servers": servers.json(),
            "clients": { "connected": clients.connected, "failed": failed },
        }));
        return;
    }
    let paint = Paint::stdout();
    let mut text = format!("\nThe gateway runs at {url}.\n");
    text.push_str(&servers.describe(paint));
    if !clients.connected.is_empty() {
        let names: Vec<&str> = clients.connected.iter().map(|client| client.title()).collect();
        let said = format!("{}. Restart them.", names.join(", "));
        text.push_str(&headed(paint, Tone::Good, "Connected clients", &said));
    }
    for (client, why) in &clients.failed {
        let head = format!("{} is not connected", client.title());
        text.push_str(&headed(paint, Tone::Bad, &head, &line(why)));
    }
    text.push_str("\n`toolbooth up --undo` undoes everything.\n`toolbooth service install` starts the gateway at login.\n");
    render::print(&text);
}

/// A wrapped sentence with a coloured beginning.
fn headed(paint: Paint, tone: Tone, head: &str, text: &str) -> String {
    let said = render::wrap(&format!("{head}: {text}"), 2);
    format!("{}\n", said.replacen(head, &paint.tone(tone, head), 1))
}
