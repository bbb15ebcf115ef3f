//! `toolbooth connect CLIENT`: adds the gateway to a client's configuration, with undo.

mod client;
mod document;
mod file;

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::remote_gateway::RemoteGateway;
use crate::render;
use clap::Args;
use client::{ClientApp, ClientEntry};
use document::ClientDocument;
use file::ClientFile;
use serde_json::json;
use toolbooth_config::Sources;

/// The name of the gateway's entry in a client's configuration.
const NAME: &str = "toolbooth";

/// Arguments of `toolbooth connect`.
#[derive(Debug, Args)]
#[command(
    after_help = "The client starts `toolbooth stdio`, which connects to the gateway or starts one; with --url it uses that URL instead."
)]
pub struct ConnectArguments {
    /// claude-code, cursor, vscode, claude-desktop or codex.
    #[arg(value_enum, hide_possible_values = true)]
    client: ClientApp,
    /// Show the changes without writing them.
    #[arg(long)]
    dry_run: bool,
    /// Undo the change.
    #[arg(long)]
    undo: bool,
}

/// Runs `toolbooth connect`.
pub fn run(global: &GlobalOptions, arguments: &ConnectArguments) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let file = ClientFile::of(arguments.client, &sources)?;
    if arguments.undo {
        return undo(global, arguments, &file);
    }
    let entry = entry(global, &sources, arguments.client)?;
    let before = file.read()?;
    let mut document = ClientDocument::parse(arguments.client, before.as_deref().unwrap_or_default())
        .map_err(|why| file.unreadable(&why))?;
    let known = document.put(NAME, &entry).map_err(|why| file.unreadable(&why))?;
    let after = document.text();
    let report = json!({
        "client": arguments.client.as_str(), "file": file.path, "entry": entry, "changed": !known, "written": !known && !arguments.dry_run,
    });
    if !known && !arguments.dry_run {
        file.keep_backup(before.as_deref())?;
        file.write(&after)?;
    }
    if global.json {
        render::print_json(&report);
        return Ok(Exit::Ok);
    }
    render::print(&describe(arguments, &file, &entry, known, before.is_some()));
    Ok(Exit::Ok)
}

/// The entry for the client's configuration.
fn entry(
    global: &GlobalOptions,
    sources: &Sources,
    client: ClientApp,
) -> Result<ClientEntry, CommandFailure> {
    let Some(url) = &global.url else {
        return Ok(ClientEntry::Stdio { command: program(), args: stdio_arguments(global, sources) });
    };
    if client == ClientApp::ClaudeDesktop {
        let message = "the configuration file of Claude Desktop does not support URLs";
        return Err(CommandFailure::misuse(
            "connect.no-url",
            message,
            Some("leave out --url: the client then starts `toolbooth stdio`"),
        ));
    }
    let gateway = RemoteGateway::at(url)?;
    Ok(ClientEntry::Http { url: format!("{}/mcp", gateway.url) })
}

/// The absolute path of this program.
pub fn program() -> String {
    std::env::current_exe().map_or_else(|_| NAME.to_owned(), |path| path.display().to_string())
}

/// The configuration files of this command line, as absolute paths: a client may start us in any folder.
pub fn stdio_arguments(global: &GlobalOptions, sources: &Sources) -> Vec<String> {
    let mut arguments = Vec::new();
    let files = global.config.iter().map(|file| ("--config", Some(file)));
    let others = [
        ("--config-dir", global.config_dir.as_ref()),
        ("--config-overrides", global.config_overrides.as_ref()),
        ("--mcp-config", global.mcp_config.as_ref()),
        ("--llm-config", global.llm_config.as_ref()),
        ("--env-file", global.env_file.as_ref()),
        ("--data-dir", global.data_dir.as_ref()),
    ];
    for (flag, path) in files.chain(others) {
        if let Some(path) = path {
            arguments.extend([flag.to_owned(), sources.absolute(path).display().to_string()]);
        }
    }
    for pair in &global.set {
        arguments.extend(["--set".to_owned(), pair.clone()]);
    }
    arguments.push("stdio".to_owned());
    arguments
}

fn describe(
    arguments: &ConnectArguments,
    file: &ClientFile,
    entry: &ClientEntry,
    known: bool,
    existed: bool,
) -> String {
    let (title, path) = (arguments.client.title(), render::path(&file.path));
    if known {
        return format!("{title} is already connected: {path}\n");
    }
    if arguments.dry_run {
        let shown = ClientDocument::sample(arguments.client, NAME, entry);
        let shown: String = shown.lines().map(|line| format!("  {line}\n")).collect();
        let verb = if existed { "would be added to" } else { "would be written to" };
        return format!("This {verb} {path}:\n\n{}", render::plain(&shown));
    }
    let backup = if existed { format!("  backup  {}\n", render::path(&file.backup)) } else { String::new() };
    format!(
        "{title} is connected. Restart it to see the tools.\n  wrote   {path}\n{backup}\n`toolbooth connect {} --undo` undoes the change.\n",
        arguments.client.as_str()
    )
}

fn undo(global: &GlobalOptions, arguments: &ConnectArguments, file: &ClientFile) -> CommandResult {
    let parse = |text: &str| ClientDocument::parse(arguments.client, text);
    let text = file.read()?.unwrap_or_default();
    let mut document = parse(&text).map_err(|why| file.unreadable(&why))?;
    let kept = file.read_backup().filter(|text| parse(text).is_ok()).unwrap_or_default();
    let earlier = parse(&kept).ok().filter(|_| !kept.is_empty());
    // If nothing else has changed since, the backup is restored byte for byte.
    let untouched =
        parse(&kept).is_ok_and(|kept| kept.text_with(NAME, &document).is_some_and(|made| made == text));
    let was_there = document.remove(NAME, earlier.as_ref());
    if was_there && !arguments.dry_run {
        match earlier {
            Some(_) if untouched => file.write(&kept)?,
            None if document.is_empty() => file.remove()?,
            _ => file.write(&document.text())?,
        }
        file.drop_backup();
    }
    if global.json {
        render::print_json(&json!({
            "client": arguments.client.as_str(), "file": file.path, "changed": was_there, "written": was_there && !arguments.dry_run,
        }));
        return Ok(Exit::Ok);
    }
    let (title, path) = (arguments.client.title(), render::path(&file.path));
    render::print(&match (was_there, arguments.dry_run) {
        (false, _) => format!("{title} is not connected; there is nothing to undo in {path}.\n"),
        (true, true) => format!("The entry `{NAME}` would be removed from {path}.\n"),
        (true, false) => format!("{title} is disconnected.\n  wrote   {path}\n"),
    });
    Ok(Exit::Ok)
}
