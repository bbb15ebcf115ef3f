//! `toolbooth servers add openapi`: the operations of an HTTP service as tools.

use super::addition::{checked, pairs};
use super::{ServerAddArguments, agreed, target_file};
use crate::commands::server_edits;
use crate::commands::server_entry::name_of;
use crate::download::download;
use crate::edited_file::{self, EditedFile};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult, FaultReport};
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::render::{self, line};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use toolbooth_config::openapi::{self, OpenApiError, OpenApiOptions, OpenApiTools};
use toolbooth_config::parse::MAX_BYTES;
use toolbooth_config::{LoadedConfig, Sources};
use toolbooth_core::fault::Problem;

/// The maximum number of operations without a tool that are shown.
const MAX_SHOWN: usize = 10;

/// Adds the tools of an OpenAPI document.
pub(super) async fn add(
    global: &GlobalOptions,
    arguments: &ServerAddArguments,
    sources: &Sources,
    loaded: &LoadedConfig,
    document: &str,
) -> CommandResult {
    let (text, url) = read(document, sources).await?;
    let failed = |error: OpenApiError| CommandFailure::usage(Problem::of(&error));
    let parsed = openapi::parse(Path::new(document), &text).map_err(failed)?;
    let name = match &arguments.name {
        Some(name) => checked(name)?,
        None => checked(&default_name(&parsed, url.as_deref(), document))?,
    };
    let options = OpenApiOptions {
        name: name.clone(),
        base_url: arguments.base_url.clone(),
        document_url: url,
        include: arguments.include.clone(),
        headers: pairs("--header", &arguments.header)?.into_iter().collect(),
    };
    let mut tools = openapi::read(&parsed, &options).map_err(failed)?;
    if !arguments.group.is_empty() {
        for entry in &mut tools.entries {
            entry["groups"] = json!(arguments.group);
        }
    }
    let beside = target_file(global, arguments, sources)?;
    let file = manifest_folder(&beside, loaded).join(format!("{name}.openapi.json"));
    if file.exists() {
        return Err(CommandFailure::usage(FaultReport {
            code: "servers.exists".to_owned(),
            blame: "caller".to_owned(),
            message: format!("there are already tools named `{name}`: {}", render::path(&file)),
            hint: Some(format!("give another --name, or run `toolbooth servers remove {name}` first")),
        }));
    }
    if arguments.dry_run {
        match global.json {
            true => render::print_json(&report(&name, &file, &tools)),
            false => render::print(&drawn(&tools, &format!("Would write {}", render::path(&file)))),
        }
        return Ok(Exit::Ok);
    }
    if !arguments.yes {
        // The document chooses where the requests go, with which variables.
        let text = drawn(&tools, &format!("This would be written to {}", render::path(&file)));
        let question = "The tools would send requests there, with the values of the variables. Add them?";
        if !agreed(&name, &text, &[], question)? {
            return Ok(Exit::Refused);
        }
    }
    make_folder_count(&beside, loaded)?;
    let text = serde_json::to_string_pretty(&tools.entries).unwrap_or_default();
    edited_file::write(&file, &format!("{text}\n"))?;
    if !global.json {
        let head = format!("Wrote {}", render::path(&file));
        // Without --yes the question has shown the rest.
        render::print(&if arguments.yes { drawn(&tools, &head) } else { format!("{head}.\n") });
    }
    server_edits::reload_files(global, report(&name, &file, &tools)).await
}

async fn read(document: &str, sources: &Sources) -> Result<(Vec<u8>, Option<String>), CommandFailure> {
    if !document.starts_with("http://") && !document.starts_with("https://") {
        let path = sources.absolute(Path::new(document));
        let text = std::fs::read(&path).map_err(|error| {
            let message = format!("{} cannot be read: {error}", render::path(&path));
            CommandFailure::misuse("usage.servers-add", message, None)
        })?;
        return Ok((text, None));
    }
    let found = while_waiting("downloading the document", download(document, MAX_BYTES)).await?;
    if !found.status.is_success() {
        return Err(CommandFailure::failed(FaultReport {
            code: "download.failed".to_owned(),
            blame: "upstream".to_owned(),
            message: format!("`{}` answered {}", line(document), found.status.as_u16()),
            hint: Some(
                "check the URL; a document that needs a sign-in can be downloaded and named as a file".into(),
            ),
        }));
    }
    Ok((found.body.to_vec(), Some(found.url)))
}

/// The host of the service, or the title of the document, or the name of the file.
fn default_name(document: &Value, url: Option<&str>, place: &str) -> String {
    if let Some(url) = url {
        return name_of(url);
    }
    let title = document["info"]["title"].as_str().unwrap_or_default();
    let stem = Path::new(place).file_stem().and_then(|stem| stem.to_str()).unwrap_or("api");
    let text = if title.is_empty() { stem } else { title };
    let plain: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(24)
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "api".to_owned() } else { words.join("-") }
}

/// The folder for manifests beside a configuration file.
fn manifest_folder(beside: &Path, loaded: &LoadedConfig) -> PathBuf {
    let folder = beside.parent().unwrap_or(Path::new("."));
    let named = loaded.settings.manifests.tools.iter().find(|tools| tools.starts_with(folder));
    named.cloned().unwrap_or_else(|| folder.join("tools"))
}

/// Manifests are read from the folder of a `toolbooth.*` file. Writes one if the folder has none.
fn make_folder_count(beside: &Path, loaded: &LoadedConfig) -> Result<(), CommandFailure> {
    if loaded.settings.manifests.tools.contains(&manifest_folder(beside, loaded)) {
        return Ok(());
    }
    let mut document = EditedFile::open(&beside.with_file_name("toolbooth.toml"))?;
    document.add_servers_key();
    document.save().map(drop)
}

fn report(name: &str, file: &Path, tools: &OpenApiTools) -> Value {
    let names: Vec<&Value> = tools.entries.iter().map(|entry| &entry["name"]).collect();
    let set_aside: Vec<Value> = tools
        .set_aside
        .iter()
        .map(|skipped| json!({ "operation": skipped.operation, "reason": skipped.reason }))
        .collect();
    let variables: Vec<&String> = tools.variables.iter().map(|variable| &variable.name).collect();
    json!({ "added": name, "file": file, "base_url": tools.base_url, "tools": names, "set_aside": set_aside,
        "variables": variables })
}

fn drawn(tools: &OpenApiTools, head: &str) -> String {
    let count = render::count(tools.entries.len(), "tool");
    let title = tools.title.as_deref().map(line).unwrap_or_else(|| "The service".to_owned());
    let mut text = format!("{head}: {count} of {title} at {}.\n", line(&tools.base_url));
    for variable in &tools.variables {
        let unset = if std::env::var_os(&variable.name).is_none() { " It is not set now." } else { "" };
        text.push_str(&format!(
            "  note: the requests use the variable {} ({}).{unset}\n",
            line(&variable.name),
            line(&variable.about)
        ));
    }
    for skipped in tools.set_aside.iter().take(MAX_SHOWN) {
        text.push_str(&format!("  left out: {}: {}\n", line(&skipped.operation), line(&skipped.reason)));
    }
    if tools.set_aside.len() > MAX_SHOWN {
        text.push_str(&format!("  … and {} more\n", tools.set_aside.len() - MAX_SHOWN));
    }
    text
}
