//! `toolbooth servers remove|enable|disable`, and what follows a change of the configuration.

use super::server_entry::{self, file_of, not_changeable};
use super::server_view::print_server;
use super::shell_variables::{self, GatewayEnvironment};
use super::{in_runtime, reload};
use crate::edited_file::EditedFile;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_handle::{GatewayHandle, read};
use crate::global_options::GlobalOptions;
use crate::remote_gateway::segment;
use crate::render::{self, line};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toolbooth_config::{LoadedConfig, ServerSwitch};

/// A change of a configured server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEdit {
    /// Remove its entry.
    Remove,
    /// Use it again.
    Enable,
    /// Keep its entry, and do not use it.
    Disable,
}

/// Changes a server in its configuration file.
pub fn run(global: &GlobalOptions, name: &str, edit: ServerEdit) -> CommandResult {
    let (sources, loaded) = gateway::load(global)?;
    if edit == ServerEdit::Remove
        && let Some(file) = manifest_of(&loaded, name)
    {
        return remove_manifest(global, name, file);
    }
    let path = match edit {
        ServerEdit::Remove => {
            let checked = server_entry::remove(&sources, &loaded, name)?;
            checked.save()?;
            checked.file().to_owned()
        }
        ServerEdit::Enable => switch(&loaded, name, ServerSwitch::On)?,
        ServerEdit::Disable => switch(&loaded, name, ServerSwitch::Off)?,
    };
    let word = match edit {
        ServerEdit::Remove => "removed",
        ServerEdit::Enable => "enabled",
        ServerEdit::Disable => "disabled",
    };
    in_runtime(async {
        if !global.json {
            render::print(&format!("The server {} is {word} in {}.\n", line(name), render::path(&path)));
            if edit == ServerEdit::Remove {
                render::print(&after_last(global).unwrap_or_default());
            }
        }
        let report = json!({ word: name, "file": path });
        match edit {
            ServerEdit::Enable => apply(global, name, report).await,
            ServerEdit::Remove | ServerEdit::Disable => reload_files(global, report).await,
        }
    })
}

/// Switches a server on or off; returns the file that has its entry.
fn switch(loaded: &LoadedConfig, name: &str, to: ServerSwitch) -> Result<PathBuf, CommandFailure> {
    let file = file_of(loaded, name)?;
    let mut document = EditedFile::open(&file)?;
    if !document.switch(name, to) {
        return Err(not_changeable(
            name,
            &format!("its entry in {} was not found, or its notation is not supported", render::path(&file)),
        ));
    }
    let path = document.path().to_owned();
    document.save()?;
    Ok(path)
}

/// Says which tools are offered if no server is configured any more.
fn after_last(global: &GlobalOptions) -> Option<String> {
    let (_, loaded) = gateway::load(global).ok()?;
    if !loaded.servers.is_empty() {
        return None;
    }
    let text = match loaded.is_empty_of_servers() {
        true => "It was the last one, so the bundled servers are offered again.".to_owned(),
        false => {
            // The list may be in another file than the removed entry.
            let files: Vec<String> = loaded.files_with_server_maps().into_iter().map(render::path).collect();
            format!(
                "It was the last one. An empty list of servers turns the bundled ones off as well: remove the list from {} \
                 to have them again.",
                files.join(" and ")
            )
        }
    };
    Some(format!("{}\n", render::wrap(&text, 0)))
}

/// The manifest that `servers add openapi` wrote under this name.
fn manifest_of(loaded: &LoadedConfig, name: &str) -> Option<PathBuf> {
    if loaded.server(name).is_some() {
        return None;
    }
    let folders = loaded.settings.manifests.tools.iter();
    folders.map(|folder| folder.join(format!("{name}.openapi.json"))).find(|file| file.is_file())
}

/// Whether a file is as `servers add openapi` writes a new one: an empty list of servers and nothing else. In any other
/// file the user may have written the list, to turn the bundled servers off.
fn is_only_a_list(settings: &Path) -> bool {
    std::fs::read_to_string(settings).is_ok_and(|text| text.trim() == "[servers]")
}

fn remove_manifest(global: &GlobalOptions, name: &str, file: PathBuf) -> CommandResult {
    let settings = file.parent().map(|folder| folder.with_file_name("toolbooth.toml"));
    let settings = settings.filter(|settings| settings.is_file());
    // Opened before anything is removed, so that a failure leaves everything as it was.
    let list = settings.as_deref().filter(|settings| is_only_a_list(settings));
    let list = list.map(EditedFile::open).transpose()?;
    std::fs::remove_file(&file)
        .map_err(|error| not_changeable(name, &format!("{} cannot be removed: {error}", file.display())))?;
    let is_empty = |folder: &Path| std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none());
    let settings = settings.filter(|_| file.parent().is_some_and(is_empty));
    if settings.is_some()
        && let Some(mut document) = list
    {
        document.remove_empty_map();
        if let Err(failure) = document.save() {
            // The tools are removed already, so the command has not failed.
            render::complain(&format!("Note: {}.\n", line(&failure.fault.message)));
        }
    }
    in_runtime(async {
        if !global.json {
            render::print(&format!("Removed the tools of {}: {}.\n", line(name), render::path(&file)));
            let offered = settings.and_then(|_| after_last(global));
            render::print(&offered.unwrap_or_default());
        }
        reload_files(global, json!({ "removed": name, "file": file })).await
    })
}

/// Makes the running gateway use the changed files, and shows the server.
pub async fn apply(global: &GlobalOptions, name: &str, report: Value) -> CommandResult {
    let Some(gateway) = local_gateway(global).await? else {
        return Ok(without_gateway(global, report));
    };
    let changes = reload::ask(&gateway).await?;
    let path = format!("/servers/{}/connect", segment(name));
    let mut server = match gateway.post(&format!("connecting `{name}`"), &path, None).await {
        Ok(body) => read(&body)?,
        // A server that waits for trust cannot be connected, and a file may not be one that the gateway reads.
        Err(failure) => {
            let known = gateway.get(&format!("/servers/{}", segment(name))).await;
            known.unwrap_or_else(
                |_| json!({ "name": name, "state": failure.fault.code, "reason": failure.fault.message }),
            )
        }
    };
    shell_variables::add_hint(&mut server, GatewayEnvironment::of(&gateway, global));
    gateway.close().await;
    match global.json {
        true => render::print_json(&with(report, &[("changes", changes), ("server", server.clone())])),
        false => print_server(&server, global),
    }
    Ok(if server["state"] == "connected" { Exit::Ok } else { Exit::Failed })
}

/// Makes the running gateway use the changed files.
pub async fn reload_files(global: &GlobalOptions, report: Value) -> CommandResult {
    let Some(gateway) = local_gateway(global).await? else {
        return Ok(without_gateway(global, report));
    };
    let changes = reload::ask(&gateway).await?;
    gateway.close().await;
    match global.json {
        true => render::print_json(&with(report, &[("changes", changes)])),
        // The gateway may have noticed the change of the file before it was asked.
        false if is_unchanged(&changes) => render::print("The running gateway uses the change.\n"),
        false => render::print(&reload::describe(&changes)),
    }
    Ok(Exit::Ok)
}

fn is_unchanged(changes: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    let applied = ["added", "restarted", "removed"].iter().all(|key| is_empty(&changes["applied"][*key]));
    applied && is_empty(&changes["settings"]) && is_empty(&changes["restart_needed"])
}

/// The running gateway that uses the files of this machine.
async fn local_gateway(global: &GlobalOptions) -> Result<Option<GatewayHandle>, CommandFailure> {
    GatewayHandle::running(&GlobalOptions { url: None, ..global.clone() }).await
}

fn without_gateway(global: &GlobalOptions, report: Value) -> Exit {
    match global.json {
        true => render::print_json(&report),
        false => render::print("No gateway is running; `toolbooth start` starts one.\n"),
    }
    Exit::Ok
}

fn with(mut report: Value, more: &[(&str, Value)]) -> Value {
    for (key, value) in more {
        report[*key] = value.clone();
    }
    report
}
