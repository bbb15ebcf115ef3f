//! The entry of a server in a configuration file: adds, changes and removes it, if the configuration is valid afterwards. The change
//! is checked before it is written, because a running gateway uses a written file at once.

use super::server_entry_fields::{EntryFields, WantedFields};
use crate::demo;
use crate::edited_file::{EditedFile, TextChange};
use crate::failure::{CommandFailure, FaultReport};
use crate::render::{self, line};
use serde_json::Value;
use std::path::{Path, PathBuf};
use toolbooth_config::{LoadedConfig, ServerConfigState, Sources, nearest};

/// A change of a server's entry that was checked, and is not written yet.
pub struct CheckedChange {
    change: TextChange,
    /// The state of the server after the change; `None` if the configuration does not have it then.
    pub state: Option<ServerConfigState>,
    /// The place of the server's entry after the change.
    pub place: Option<String>,
}

impl CheckedChange {
    /// The file that changes.
    pub fn file(&self) -> &Path {
        self.change.path()
    }

    /// Writes the file.
    pub fn save(&self) -> Result<(), CommandFailure> {
        self.change.save()
    }
}

/// Adds an entry to a file, if the configuration is valid with it.
pub fn add(
    sources: &Sources,
    loaded: &LoadedConfig,
    file: &Path,
    name: &str,
    entry: &Value,
) -> Result<CheckedChange, CommandFailure> {
    let mut document = open_for(loaded, file, name)?;
    document.add(name, entry)?;
    usable(sources, loaded, document.change(), name)
}

/// A change after which the server can be used, at the latest when its variables are set.
fn usable(
    sources: &Sources,
    loaded: &LoadedConfig,
    change: TextChange,
    name: &str,
) -> Result<CheckedChange, CommandFailure> {
    let after = load_with(sources, &change)?;
    let lost = loaded.servers.iter().find(|server| after.server(server.name.as_str()).is_none());
    if let Some(lost) = lost {
        let why = format!("its servers are not in one list, so `{}` would no longer be used", lost.name);
        return Err(not_changeable(name, &why));
    }
    match after.server(name).map(|server| &server.state) {
        // A variable can be set later.
        Some(ServerConfigState::Broken(finding)) if finding.code != "config.variable" => {
            let fault = FaultReport::from(finding.problem());
            let drawn = Some(toolbooth_config::render(finding));
            Err(CommandFailure { drawn, ..CommandFailure::usage(fault) })
        }
        _ => Ok(checked(change, &after, name)),
    }
}

fn checked(change: TextChange, after: &LoadedConfig, name: &str) -> CheckedChange {
    let server = after.server(name);
    let state = server.map(|server| server.state.clone());
    CheckedChange { change, state, place: server.map(|server| server.origin.to_string()) }
}

/// Loads the configuration with a file as it will be.
fn load_with(sources: &Sources, change: &TextChange) -> Result<LoadedConfig, CommandFailure> {
    let mut sources = Sources { proposed: Some(change.proposed()), ..sources.clone() };
    let loaded = toolbooth_config::load_with_trust(&mut sources)
        .map_err(|failure| CommandFailure::config(&failure))?;
    // A gateway does not reload such a configuration.
    match loaded.findings.iter().find(|finding| finding.code == "config.duplicate-name") {
        Some(finding) => Err(CommandFailure::usage(FaultReport::from(finding.problem()))),
        None => Ok(loaded),
    }
}

/// The fields of a server's entry, and the file that has it.
pub fn open_entry(loaded: &LoadedConfig, name: &str) -> Result<(EditedFile, EntryFields), CommandFailure> {
    let file = file_of(loaded, name)?;
    let document = EditedFile::open(&file)?;
    let members = document.entry(name).ok_or_else(|| not_found(name, &file))?;
    let fields = EntryFields::read(name, members).map_err(|why| not_changeable(name, &why))?;
    Ok((document, fields))
}

/// Changes the entry of a server in the file that has it, if the configuration is valid with it.
pub fn edit(
    sources: &Sources,
    loaded: &LoadedConfig,
    (mut document, fields): (EditedFile, EntryFields),
    wanted: &WantedFields,
) -> Result<CheckedChange, CommandFailure> {
    let name = fields.name();
    let changes = fields.changes_to(wanted)?;
    if !document.edit(name, &changes) {
        return Err(not_found(name, document.path()));
    }
    usable(sources, loaded, document.change(), name)
}

fn not_found(name: &str, file: &Path) -> CommandFailure {
    not_changeable(
        name,
        &format!("its entry in {} was not found, or its notation is not supported", render::path(file)),
    )
}

/// Opens the file that gets an entry. It is an error if there is a server with this name.
pub fn open_for(loaded: &LoadedConfig, file: &Path, name: &str) -> Result<EditedFile, CommandFailure> {
    if let Some(known) = loaded.server(name) {
        return Err(exists(name, &known.origin.to_string()));
    }
    let document = EditedFile::open(file)?;
    match document.contains(name) {
        true => Err(exists(name, &render::path(file))),
        false => Ok(document),
    }
}

/// Removes the entry of a server from the file that has it.
pub fn remove(sources: &Sources, loaded: &LoadedConfig, name: &str) -> Result<CheckedChange, CommandFailure> {
    let file = file_of(loaded, name)?;
    let mut document = EditedFile::open(&file)?;
    if !document.remove(name) {
        return Err(not_found(name, &file));
    }
    let change = document.change();
    let after = load_with(sources, &change)?;
    Ok(checked(change, &after, name))
}

/// Whether a name can be part of a URL: browsers read `.` and `..` as folders.
pub fn is_addressable(name: &str) -> bool {
    !matches!(name, "." | "..")
}

/// The file that gets new entries: the last one that was named, else the user's own.
pub fn usual_file(sources: &Sources, named: Option<&PathBuf>) -> Result<PathBuf, CommandFailure> {
    match named {
        Some(file) => Ok(sources.absolute(file)),
        None => user_file(sources),
    }
}

/// The file of the user that gets new entries: an existing one, or a new `toolbooth.toml`.
fn user_file(sources: &Sources) -> Result<PathBuf, CommandFailure> {
    let folder = sources.user_dir().ok_or_else(|| {
        CommandFailure::misuse(
            "usage.servers-add",
            "there is no home folder",
            Some("name a file with --file"),
        )
    })?;
    let usual =
        ["toolbooth.toml", "toolbooth.json", "toolbooth.yaml", "toolbooth.yml", "mcp.json", ".mcp.json"];
    let existing = usual.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    Ok(existing.unwrap_or_else(|| folder.join(usual[0])))
}

/// The file that defines a server.
pub fn file_of(loaded: &LoadedConfig, name: &str) -> Result<PathBuf, CommandFailure> {
    let Some(server) = loaded.server(name) else {
        if loaded.is_empty_of_servers() && demo::NAMES.contains(&name) {
            return Err(CommandFailure::misuse(
                "servers.not-changeable",
                format!("`{name}` is a bundled server, and in no configuration file"),
                Some(
                    "your first own server replaces the bundled ones; a line `[servers]` in toolbooth.toml turns them off",
                ),
            ));
        }
        let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
        let near = nearest(name, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        return Err(CommandFailure::misuse(
            "server.unknown",
            format!("no server `{}` is configured", line(name)),
            near.as_deref().or(Some("`toolbooth servers` lists all")),
        ));
    };
    match &server.origin.file {
        Some(file) => Ok(file.clone()),
        None => Err(not_changeable(name, &format!("it comes from {}", server.origin))),
    }
}

/// A name from the host of a URL: `https://mcp.tracker.example/mcp` is `tracker`.
pub fn name_of(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or(url).split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or(host);
    let host = host.split(':').next().unwrap_or(host);
    let is_number = host.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut parts: Vec<&str> = host.split('.').filter(|part| !part.is_empty()).collect();
    if !is_number && parts.len() > 1 {
        // The last part is the top-level domain, and the first often says only what kind of host it is.
        parts.pop();
        parts.retain(|part| !["www", "mcp", "api"].contains(part));
    }
    let name =
        if is_number { host.replace('.', "-") } else { parts.last().copied().unwrap_or(host).to_owned() };
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(64).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

fn exists(name: &str, place: &str) -> CommandFailure {
    CommandFailure::usage(FaultReport {
        code: "servers.exists".to_owned(),
        blame: "caller".to_owned(),
        message: format!("there is already a server `{}`: {}", line(name), line(place)),
        hint: Some(format!("choose another name, or run `toolbooth servers remove {}` first", line(name))),
    })
}

/// The failure to change an entry.
pub fn not_changeable(name: &str, why: &str) -> CommandFailure {
    CommandFailure::failed(FaultReport {
        code: "servers.not-changeable".to_owned(),
        blame: "caller".to_owned(),
        message: format!("the server `{}` cannot be changed by this command: {}", line(name), line(why)),
        hint: Some("change its entry by hand".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::names::ServerName;

    #[test]
    fn names_come_from_hosts() {
        let cases = [
            ("https://mcp.tracker.example/mcp", "tracker"),
            ("https://tracker.example.com/mcp", "example"),
            ("http://localhost:9000/mcp", "localhost"),
            ("http://127.0.0.1:9000/mcp", "127-0-0-1"),
            ("https://user:secret@shop.example/", "shop"),
            ("https://api.example", "api-example"),
        ];
        for (url, expected) in cases {
            let name = name_of(url);
            assert!(name.parse::<ServerName>().is_ok());
            assert_eq!(name, expected, "{url}");
        }
    }
}
