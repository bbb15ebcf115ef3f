//! `toolbooth connect CLIENT`: adds the gateway to a client's configuration, with undo.

mod file;
mod lists;

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::install_method::InstallMethod;
use crate::remote_gateway::RemoteGateway;
use crate::render;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use file::ClientFile;
use lists::ListChange;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toolbooth_config::Sources;
use toolbooth_config::clients::{
    ClientDocument, ClientId, GATEWAY_NAME as NAME, GatewayEntry, closed_lists, rewire, sample,
};

/// Arguments of `toolbooth connect`.
#[derive(Debug, Args)]
#[command(
    after_help = "The client starts `toolbooth stdio`, which connects to the gateway or starts one; with --url it uses that URL instead."
)]
pub struct ConnectArguments {
    /// claude-desktop, claude-code, cursor, vscode, codex, gemini, windsurf, zed, opencode, cline, roo, copilot, continue,
    /// goose, lm-studio, amazon-q, kiro, warp, jetbrains or qwen.
    #[arg(value_parser = client_parser(), hide_possible_values = true)]
    client: ClientId,
    /// Show the changes without writing them.
    #[arg(long)]
    dry_run: bool,
    /// Undo the change.
    #[arg(long)]
    undo: bool,
}

/// Parses the name of a client.
pub fn client_parser() -> impl TypedValueParser<Value = ClientId> {
    let names = ClientId::all().map(ClientId::as_str);
    PossibleValuesParser::new(names).try_map(|name| ClientId::named(&name).ok_or("there is no such client"))
}

/// Runs `toolbooth connect`.
pub fn run(global: &GlobalOptions, arguments: &ConnectArguments) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let file = ClientFile::of(arguments.client, &sources)?;
    if arguments.undo {
        return undo(global, arguments, &sources, &file);
    }
    let entry = entry(global, &sources, arguments.client)?;
    let before = file.read()?;
    let text = before.as_deref().unwrap_or_default();
    let document = ClientDocument::parse(arguments.client, text).map_err(|why| file.unreadable(&why))?;
    let own_lists = closed_lists(arguments.client, text, &entry);
    let words = arguments.client.spec().entry(NAME, &entry).unwrap_or_default();
    let others = ListChange::admissions(arguments.client, &sources, &words)?;
    let has_entry = document.get(NAME).as_ref() == Some(&words);
    let is_current = has_entry && own_lists.is_empty();
    let known = is_current && others.is_empty();
    let lists: Vec<&String> =
        own_lists.iter().chain(others.iter().flat_map(|change| &change.lists)).collect();
    let after = rewire(arguments.client, text, &entry, &[]).map_err(|why| file.unreadable(&why))?;
    let report = json!({
        "client": arguments.client.as_str(), "file": file.path, "entry": entry, "lists": lists, "changed": !known, "written": !known && !arguments.dry_run,
    });
    if !is_current && !arguments.dry_run {
        file.keep_backup(before.as_deref())?;
        file.write(&after)?;
    }
    if !arguments.dry_run {
        others.iter().try_for_each(ListChange::admit)?;
    }
    if matches!(entry, GatewayEntry::Stdio { .. }) {
        warn_of_cache();
    }
    if global.json {
        render::print_json(&report);
        return Ok(Exit::Ok);
    }
    let mut text = describe(arguments, &file, &entry, known, before.is_some());
    let places = own_lists.iter().map(|list| (list, &file.path));
    let places = places
        .chain(others.iter().flat_map(|change| change.lists.iter().map(move |list| (list, change.path()))));
    let verb = if arguments.dry_run { "would allow" } else { "allows" };
    for (list, path) in places {
        text.push_str(&format!("`{list}` in {} {verb} `{NAME}`, too.\n", render::path(path)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}

/// The entry for the client's configuration.
fn entry(
    global: &GlobalOptions,
    sources: &Sources,
    client: ClientId,
) -> Result<GatewayEntry, CommandFailure> {
    let Some(url) = &global.url else { return Ok(stdio_entry(global, sources)) };
    if client.spec().form.http.is_none() {
        let message = format!("the configuration file of {} does not support URLs", client.title());
        return Err(CommandFailure::misuse(
            "connect.no-url",
            message,
            Some("leave out --url: the client then starts `toolbooth stdio`"),
        ));
    }
    let gateway = RemoteGateway::at(url)?;
    Ok(GatewayEntry::Http { url: format!("{}/mcp", gateway.url) })
}

/// The entry of a client that starts `toolbooth stdio`.
pub fn stdio_entry(global: &GlobalOptions, sources: &Sources) -> GatewayEntry {
    let args = stdio_arguments(global, sources);
    GatewayEntry::Stdio { command: program(), args, env: folder_variables(sources) }
}

/// The variables that name other folders for the configuration than the usual ones. A client or a service that is started
/// by the desktop does not have the variables of the shell.
pub fn folder_variables(sources: &Sources) -> BTreeMap<String, String> {
    let usual = sources.home.as_ref().map(|home| home.join(".config"));
    let chosen = sources
        .xdg_config_home
        .clone()
        .filter(|folder| folder.is_absolute() && Some(folder) != usual.as_ref());
    chosen.map(|folder| ("XDG_CONFIG_HOME".to_owned(), folder.display().to_string())).into_iter().collect()
}

/// The data directory, if the user has chosen it with a variable.
fn chosen_data_dir(global: &GlobalOptions, sources: &Sources) -> Option<PathBuf> {
    let set = |name: &str| sources.env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let by_argument = global.data_dir.is_some() || sources.overrides.iter().any(|(key, _)| key == "data_dir");
    if by_argument {
        return None;
    }
    let usual = sources.home.as_ref().map(|home| home.join(".local/share"));
    let is_moved = set("XDG_DATA_HOME").is_some_and(|base| Some(base) != usual);
    let data_dir = gateway::data_dir(sources);
    // A file of the user may name the directory, too, and then it counts without the variable.
    let is_chosen =
        set("TOOLBOOTH_DATA_DIR").is_some() || (is_moved && data_dir == sources.default_data_dir());
    is_chosen.then(|| sources.absolute(&data_dir))
}

/// The absolute path of this program, as the user started it: a package manager replaces the file behind a link at an
/// update, and then only the link stays valid.
pub fn program() -> String {
    let Ok(running) = std::env::current_exe() else { return NAME.to_owned() };
    let started = std::env::args_os().next().map(PathBuf::from).and_then(|word| {
        if word.components().count() > 1 {
            return std::path::absolute(word).ok();
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(&word))
            .find(|file| file.is_absolute() && file.is_file())
    });
    let is_this = |file: &PathBuf| file.canonicalize().ok() == running.canonicalize().ok();
    started.filter(is_this).unwrap_or(running).display().to_string()
}

/// Warns if this program is in a cache: the path that a command writes into a file would stop working.
pub fn warn_of_cache() {
    let program = std::env::current_exe().and_then(|program| program.canonicalize()).unwrap_or_default();
    if let Some(warning) = InstallMethod::of_running(&program).cache_warning() {
        render::complain(&format!("{}\n", render::wrap(&format!("warning: {warning}"), 0)));
    }
}

/// The configuration files of this command line, as absolute paths: a client may start us in any folder.
pub fn stdio_arguments(global: &GlobalOptions, sources: &Sources) -> Vec<String> {
    let mut arguments = Vec::new();
    for (flag, path) in global.named_paths() {
        arguments.extend([flag.to_owned(), sources.absolute(path).display().to_string()]);
    }
    if let Some(folder) = chosen_data_dir(global, sources) {
        arguments.extend(["--data-dir".to_owned(), folder.display().to_string()]);
    }
    if global.no_project {
        arguments.push("--no-project".to_owned());
    }
    for pair in &global.set {
        arguments.extend(["--set".to_owned(), pair.clone()]);
    }
    if let Some(persona) = &global.persona {
        arguments.extend(["--persona".to_owned(), persona.clone()]);
    }
    arguments.push("stdio".to_owned());
    arguments
}

fn describe(
    arguments: &ConnectArguments,
    file: &ClientFile,
    entry: &GatewayEntry,
    known: bool,
    existed: bool,
) -> String {
    let (title, path) = (arguments.client.title(), render::path(&file.path));
    if known {
        return format!("{title} is already connected: {path}\n");
    }
    if arguments.dry_run {
        let shown = sample(arguments.client, entry);
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

fn undo(
    global: &GlobalOptions,
    arguments: &ConnectArguments,
    sources: &Sources,
    file: &ClientFile,
) -> CommandResult {
    let client = arguments.client;
    let text = file.read()?.unwrap_or_default();
    let mut document = ClientDocument::parse(client, &text).map_err(|why| file.unreadable(&why))?;
    let others = ListChange::withdrawals(client, sources, document.get(NAME).as_ref())?;
    let kept = file.read_backup().filter(|text| ClientDocument::parse(client, text).is_ok());
    let earlier = kept.as_deref().and_then(|text| ClientDocument::parse(client, text).ok());
    // If nothing else has changed since, the backup is restored byte for byte.
    let untouched =
        kept.as_deref().is_some_and(|kept| with_entry_of(client, kept, &document) == Some(text.clone()));
    let was_there = document.disconnect(earlier.as_ref()).map_err(|why| file.unreadable(&why))?;
    let mut done = "wrote   ";
    if was_there && !arguments.dry_run {
        match &kept {
            Some(kept) if untouched => {
                file.write(kept)?;
                done = "restored";
            }
            None if document.is_empty() => {
                file.remove()?;
                done = "removed ";
            }
            _ => file.write(&document.text())?,
        }
        file.drop_backup();
        others.iter().try_for_each(ListChange::withdraw)?;
    }
    if global.json {
        render::print_json(&json!({
            "client": client.as_str(), "file": file.path, "changed": was_there, "written": was_there && !arguments.dry_run,
        }));
        return Ok(Exit::Ok);
    }
    let (title, path) = (client.title(), render::path(&file.path));
    render::print(&match (was_there, arguments.dry_run) {
        (false, _) => format!("{title} is not connected; there is nothing to undo in {path}.\n"),
        (true, true) => format!("The entry `{NAME}` would be removed from {path}.\n"),
        (true, false) => format!("{title} is disconnected. Restart it.\n  {done}  {path}\n"),
    });
    Ok(Exit::Ok)
}

/// An earlier text of a file with the gateway's entry of a later one.
fn with_entry_of(client: ClientId, earlier: &str, later: &ClientDocument) -> Option<String> {
    let mut document = ClientDocument::parse(client, earlier).ok()?;
    document.connect(&later.get(NAME)?).ok()?;
    Some(document.text())
}
