//! `toolbooth servers add`: adds a server, or the tools of an HTTP service, to the configuration.

mod addition;
mod openapi;
mod registry;
mod separator_tip;

pub use separator_tip::separator_tip;

use super::{in_runtime, server_edits, server_entry};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::prompter::discard_type_ahead;
use crate::render::{self, line};
use addition::{AdditionKind, PlannedServerEntry};
use clap::Args;
use serde_json::json;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use toolbooth_config::{LoadedConfig, ServerConfigState, Sources};

/// Arguments of `toolbooth servers add`.
#[derive(Debug, Args)]
#[command(override_usage = "\
toolbooth servers add [OPTIONS] NAME -- COMMAND...
       toolbooth servers add [OPTIONS] [NAME] URL|REGISTRY-NAME
       toolbooth servers add [OPTIONS] openapi FILE|URL")]
#[command(after_help = "\
For example:
  toolbooth servers add files -- \\
      npx -y @modelcontextprotocol/server-filesystem ~/notes
  toolbooth servers add git --env GITHUB_TOKEN -- uvx mcp-server-git
  toolbooth servers add https://mcp.tracker.example/mcp
  toolbooth servers add io.github.ann/weather           (from the registry)
  toolbooth servers add openapi https://pets.example/api.json --include 'list*'

The entry is written to your configuration file, whose comments stay; a running gateway uses it at once. An OpenAPI \
document becomes a manifest with one tool per operation. If an argument is a path in the current folder, the entry gets \
this folder as `cwd`. `registry.url` sets another registry.")]
pub struct ServerAddArguments {
    /// Name of the new server, before `-- COMMAND`; or its URL, its name in the registry, or `openapi`.
    #[arg(value_name = "NAME|URL|REGISTRY-NAME|openapi")]
    target: String,
    /// OpenAPI document, after `openapi`; or a URL or registry name, after a NAME.
    #[arg(value_name = "FILE|URL")]
    document: Option<String>,
    /// Command of a local server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Name of the server, if it is not the one in the URL or the registry.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Variable of a local server; without a value, your own variable is passed on. May repeat.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// Header of every request, such as 'Authorization=Bearer ${TOKEN}'. May repeat.
    #[arg(long, value_name = "NAME=VALUE")]
    header: Vec<String>,
    /// Working folder of a local server.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Transport of a remote server.
    #[arg(long, value_parser = ["http", "sse", "ws"])]
    transport: Option<String>,
    /// Group whose members may use the server. May repeat; without it, all users.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// URL of the registry, instead of `registry.url`.
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// Version in the registry; the latest by default.
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Value that a registry entry asks for. May repeat.
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// Use the remote server of a registry entry, not a package.
    #[arg(long, conflicts_with = "package")]
    remote: bool,
    /// Use a package of a registry entry, not the remote server.
    #[arg(long)]
    package: bool,
    /// Use only earlier answers of the registry.
    #[arg(long)]
    offline: bool,
    /// URL of the HTTP service, if the OpenAPI document does not name it.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Only operations that match: by id, tag, path or 'METHOD PATH'. May repeat.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// File to change: your toolbooth.toml or mcp.json by default.
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    file: Option<PathBuf>,
    /// Change .mcp.json of the current folder.
    #[arg(long)]
    project: bool,
    /// Show the entry without writing it.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before a server from the registry or the tools of an OpenAPI document are added.
    #[arg(long)]
    yes: bool,
}

/// Runs `toolbooth servers add`.
pub fn run(global: &GlobalOptions, arguments: &ServerAddArguments) -> CommandResult {
    let (sources, loaded) = gateway::load(global)?;
    let (kind, name) = AdditionKind::of(arguments)?;
    in_runtime(async {
        let planned = match kind {
            AdditionKind::OpenApi(document) => {
                return openapi::add(global, arguments, &sources, &loaded, document).await;
            }
            AdditionKind::Command(name) => {
                let file = target_file(global, arguments, &sources)?;
                let run_in = is_used_elsewhere(&file, &sources).then_some(sources.cwd.as_path());
                addition::local(name, arguments, run_in)?
            }
            AdditionKind::Url(url) => addition::remote(url, name, arguments)?,
            AdditionKind::Registry(wanted) => registry::plan(wanted, arguments, &loaded).await?,
            AdditionKind::Description(file) => described(file, arguments)?,
        };
        let planned = match name {
            Some(name) => PlannedServerEntry { name: addition::checked(name)?, ..planned },
            None => PlannedServerEntry { name: addition::checked(&planned.name)?, ..planned },
        };
        add(global, arguments, &sources, &loaded, &planned).await
    })
}

/// Plans the entry of a `server.json` file.
fn described(file: &str, arguments: &ServerAddArguments) -> Result<PlannedServerEntry, CommandFailure> {
    let text = std::fs::read(file).map_err(|error| {
        CommandFailure::misuse("usage.servers-add", format!("`{file}` cannot be read: {error}"), None)
    })?;
    registry::from_description(&text, arguments)
}

async fn add(
    global: &GlobalOptions,
    arguments: &ServerAddArguments,
    sources: &Sources,
    loaded: &LoadedConfig,
    planned: &PlannedServerEntry,
) -> CommandResult {
    let name = planned.name.as_str();
    let file = target_file(global, arguments, sources)?;
    server_entry::open_for(loaded, &file, name)?;
    if arguments.dry_run {
        show(global, planned, &file);
        return Ok(Exit::Ok);
    }
    if planned.source.is_some() && !arguments.yes && !confirm(planned, &file)? {
        return Ok(Exit::Refused);
    }
    let checked = server_entry::add(sources, loaded, &file, name, &planned.entry)?;
    checked.save()?;
    let state = checked.state;
    if !global.json {
        render::print(&format!("Added the server {} to {}.\n", line(name), render::path(&file)));
        print_notes(&planned.notes);
        if let Some(ServerConfigState::Broken(finding)) = &state {
            print_notes(&[format!("{}; until then it is not used", finding.message)]);
        }
        if state.is_some() && loaded.is_empty_of_servers() {
            print_notes(&["the bundled servers are offered only while no server is configured".to_owned()]);
        }
    }
    let report = json!({ "added": name, "file": file, "notes": planned.notes });
    match state {
        Some(ServerConfigState::NeedsTrust { .. }) => {
            if !global.json {
                render::print("It is in a project file: `toolbooth trust` shows and trusts it.\n");
            }
            server_edits::reload_files(global, report).await
        }
        Some(_) => server_edits::apply(global, name, report).await,
        None => {
            match global.json {
                true => render::print_json(&report),
                false => {
                    render::print("The configuration does not include this file: name it with --config.\n")
                }
            }
            Ok(Exit::Ok)
        }
    }
}

/// The file to change: the one that is named, else the user's own.
fn target_file(
    global: &GlobalOptions,
    arguments: &ServerAddArguments,
    sources: &Sources,
) -> Result<PathBuf, CommandFailure> {
    if let Some(file) = &arguments.file {
        return Ok(sources.absolute(file));
    }
    if arguments.project {
        return Ok(sources.cwd.join(".mcp.json"));
    }
    server_entry::usual_file(sources, global.config.last())
}

/// Whether a gateway that is started in another folder uses the file, too: it is the user's own, or elsewhere.
fn is_used_elsewhere(file: &Path, sources: &Sources) -> bool {
    let is_own = sources.user_dir().is_some_and(|folder| file.starts_with(folder));
    is_own || !file.starts_with(&sources.cwd)
}

fn show(global: &GlobalOptions, planned: &PlannedServerEntry, file: &Path) {
    if global.json {
        let PlannedServerEntry { name, entry, notes, source } = planned;
        return render::print_json(
            &json!({ "name": name, "entry": entry, "file": file, "source": source, "notes": notes }),
        );
    }
    render::print(&format!("This would be added to {}:\n\n{}", render::path(file), drawn(planned)));
    print_notes(&planned.notes);
}

fn drawn(planned: &PlannedServerEntry) -> String {
    let text = serde_json::to_string_pretty(&planned.entry).unwrap_or_default();
    let text: String = text.lines().map(|line| format!("  {line}\n")).collect();
    format!("{}\n{}", line(&planned.name), render::plain(&text))
}

fn print_notes(notes: &[String]) {
    for note in notes {
        render::print(&format!("  note: {}\n", render::wrap(&line(note), 8)));
    }
}

/// Shows an entry that the user did not type, and asks whether to add it.
fn confirm(planned: &PlannedServerEntry, file: &Path) -> Result<bool, CommandFailure> {
    let source = planned.source.as_deref().unwrap_or_default();
    let text = format!("{source}\n\n{}", drawn(planned));
    let question = format!("It would run with your permissions. Add it to {}?", render::path(file));
    agreed(&planned.name, &text, &planned.notes, &question)
}

/// Shows what would be added, and asks whether to add it. Without a terminal that is an error.
fn agreed(name: &str, text: &str, notes: &[String], question: &str) -> Result<bool, CommandFailure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        render::complain(text);
        return Err(CommandFailure::usage(FaultReport {
            code: "servers.not-confirmed".to_owned(),
            blame: "caller".to_owned(),
            message: format!("the server `{}` was not added: it needs your confirmation", line(name)),
            hint: Some("check the entry, and repeat the command with --yes".to_owned()),
        }));
    }
    render::print(text);
    print_notes(notes);
    discard_type_ahead();
    render::print(&format!("\n{question} [y/N] "));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
