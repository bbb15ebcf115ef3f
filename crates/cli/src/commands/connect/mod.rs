//! `toolbooth connect CLIENT`: the gateway in a client's own configuration, with a way back.

mod client;
mod document;
mod file;

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::remote::Remote;
use crate::render;
use clap::Args;
use client::{App, Entry};
use document::Document;
use file::ClientFile;
use serde_json::json;
use toolbooth_config::Sources;

/// The name under which clients know the gateway.
const NAME: &str = "toolbooth";

/// Which client, and whether for real.
#[derive(Debug, Args)]
#[command(
    after_help = "The client starts `toolbooth stdio`, which joins or starts the gateway; with --url it is given that address instead."
)]
pub struct ConnectArguments {
    /// claude-code, cursor, vscode, claude-desktop or codex.
    #[arg(value_enum, hide_possible_values = true)]
    client: App,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take it back.
    #[arg(long)]
    undo: bool,
}

/// Runs `toolbooth connect`.
pub fn run(global: &Global, what: &ConnectArguments) -> Outcome {
    let sources = gateway::sources(global).map_err(Failure::usage)?;
    let file = ClientFile::of(what.client, &sources)?;
    if what.undo {
        return undo(global, what, &file);
    }
    let entry = entry(global, &sources, what.client)?;
    let before = file.read()?;
    let mut document = Document::parse(what.client, before.as_deref().unwrap_or_default())
        .map_err(|why| file.unreadable(&why))?;
    let known = document.put(NAME, &entry).map_err(|why| file.unreadable(&why))?;
    let after = document.text();
    let report = json!({
        "client": what.client.as_str(), "file": file.path, "entry": entry, "changed": !known, "written": !known && !what.dry_run,
    });
    if !known && !what.dry_run {
        file.keep_backup(before.as_deref())?;
        file.write(&after)?;
    }
    if global.json {
        render::print_json(&report);
        return Ok(Exit::Ok);
    }
    render::print(&describe(what, &file, &entry, known, before.is_some()));
    Ok(Exit::Ok)
}

/// What the client is told.
fn entry(global: &Global, sources: &Sources, client: App) -> Result<Entry, Failure> {
    let Some(url) = &global.url else {
        return Ok(Entry::Stdio { command: program(), args: stdio_arguments(global, sources) });
    };
    if client == App::ClaudeDesktop {
        let message = "Claude Desktop takes no addresses in its configuration file";
        return Err(Failure::misuse(
            "connect.no-url",
            message,
            Some("leave --url away: it will start `toolbooth stdio`"),
        ));
    }
    let gateway = Remote::at(url)?;
    Ok(Entry::Http { url: format!("{}/mcp", gateway.url) })
}

/// This program, by its whole path.
pub fn program() -> String {
    std::env::current_exe().map_or_else(|_| NAME.to_owned(), |path| path.display().to_string())
}

/// The same files that this command line names, as whole paths: a client starts us who knows where.
pub fn stdio_arguments(global: &Global, sources: &Sources) -> Vec<String> {
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

fn describe(what: &ConnectArguments, file: &ClientFile, entry: &Entry, known: bool, existed: bool) -> String {
    let (title, path) = (what.client.title(), render::path(&file.path));
    if known {
        return format!("{title} knows Toolbooth already: {path}\n");
    }
    if what.dry_run {
        let shown = Document::sample(what.client, NAME, entry);
        let shown: String = shown.lines().map(|line| format!("  {line}\n")).collect();
        let verb = if existed { "would be added to" } else { "would be written to" };
        return format!("This {verb} {path}:\n\n{}", render::plain(&shown));
    }
    let backup = if existed { format!("  backup  {}\n", render::path(&file.backup)) } else { String::new() };
    format!(
        "{title} knows Toolbooth now. Restart it to see the tools.\n  wrote   {path}\n{backup}\n`toolbooth connect {} --undo` takes it back.\n",
        what.client.as_str()
    )
}

fn undo(global: &Global, what: &ConnectArguments, file: &ClientFile) -> Outcome {
    let parse = |text: &str| Document::parse(what.client, text);
    let text = file.read()?.unwrap_or_default();
    let mut document = parse(&text).map_err(|why| file.unreadable(&why))?;
    let kept = file.read_backup().filter(|text| parse(text).is_ok()).unwrap_or_default();
    let earlier = parse(&kept).ok().filter(|_| !kept.is_empty());
    // Nothing else was written since: then not even a space shall differ.
    let untouched =
        parse(&kept).is_ok_and(|kept| kept.text_with(NAME, &document).is_some_and(|made| made == text));
    let was_there = document.take_out(NAME, earlier.as_ref());
    if was_there && !what.dry_run {
        match earlier {
            Some(_) if untouched => file.write(&kept)?,
            None if document.is_empty() => file.remove()?,
            _ => file.write(&document.text())?,
        }
        file.drop_backup();
    }
    if global.json {
        render::print_json(&json!({
            "client": what.client.as_str(), "file": file.path, "changed": was_there, "written": was_there && !what.dry_run,
        }));
        return Ok(Exit::Ok);
    }
    let (title, path) = (what.client.title(), render::path(&file.path));
    render::print(&match (was_there, what.dry_run) {
        (false, _) => format!("{title} does not know Toolbooth; nothing to take back in {path}.\n"),
        (true, true) => format!("The entry `{NAME}` would be taken out of {path}.\n"),
        (true, false) => format!("{title} no longer knows Toolbooth.\n  wrote   {path}\n"),
    });
    Ok(Exit::Ok)
}
