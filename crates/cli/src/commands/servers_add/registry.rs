//! Looks servers up in an MCP registry, and keeps the answers for work without a network.

use super::ServerAddArguments;
use super::addition::{PlannedServerEntry, pairs, variables, with_common};
use crate::download::download;
use crate::edited_file;
use crate::failure::{CommandFailure, FaultReport};
use crate::remote_gateway::segment;
use crate::render::line;
use http::StatusCode;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use toolbooth_config::LoadedConfig;
use toolbooth_config::registry::{MAX_BYTES, RegistryChoice, RegistryError, RegistryInputs, RegistryServer};
use toolbooth_core::fault::Problem;

/// The version of the registry's API.
const API: &str = "v0.1";

/// Plans the entry of a server that a registry describes.
pub(super) async fn plan(
    name: &str,
    arguments: &ServerAddArguments,
    loaded: &LoadedConfig,
) -> Result<PlannedServerEntry, CommandFailure> {
    let url = arguments.registry.as_ref().unwrap_or(&loaded.settings.registry.url);
    let url = url.trim_end_matches('/');
    let version = arguments.version.as_deref().unwrap_or("latest");
    let request = format!("{url}/{API}/servers/{}/versions/{}", segment(name), segment(version));
    let cache = cache_file(&loaded.settings.data_dir, &request);
    let (text, note) = look_up(name, &request, &cache, arguments).await?;
    let mut planned = from_description(&text, arguments)?;
    planned.notes.extend(note);
    planned.source = Some(format!("{} from {}", line(name), line(url)));
    Ok(planned)
}

/// Plans the entry of a server from the text of its `server.json`.
pub(super) fn from_description(
    text: &[u8],
    arguments: &ServerAddArguments,
) -> Result<PlannedServerEntry, CommandFailure> {
    let failed = |error: RegistryError| CommandFailure::failed(Problem::of(&error));
    let described = RegistryServer::read(text).map_err(failed)?;
    let name = arguments.name.clone().unwrap_or_else(|| described.short_name());
    // Both options give values for the names in the description.
    let mut values = pairs("--input", &arguments.input)?;
    values.extend(variables(&arguments.env));
    let inputs = RegistryInputs {
        server: &name,
        values: &values,
        choice: match (arguments.remote, arguments.package) {
            (true, _) => RegistryChoice::Remote,
            (_, true) => RegistryChoice::Package,
            _ => RegistryChoice::Any,
        },
        is_installed: &is_installed,
    };
    let made = described.entry(&inputs).map_err(failed)?;
    let mut notes: Vec<String> = made.notes.iter().map(|note| line(note)).collect();
    for variable in &made.variables {
        let about =
            if variable.about.is_empty() { String::new() } else { format!(": {}", line(&variable.about)) };
        let unset = std::env::var_os(&variable.name).is_none();
        let state = if unset { ", which is not set now" } else { "" };
        notes.push(format!("it uses the variable {}{state}{about}", line(&variable.name)));
    }
    let version =
        if described.version.is_empty() { String::new() } else { format!(" {}", line(&described.version)) };
    Ok(PlannedServerEntry {
        name,
        entry: Value::Object(with_common(made.entry, arguments)),
        notes,
        source: Some(format!("{}{version}", line(&described.name))),
    })
}

/// Whether a program is in a folder of `PATH`.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The description, from the registry or from an earlier answer, and a remark about it.
async fn look_up(
    name: &str,
    request: &str,
    cache: &Path,
    arguments: &ServerAddArguments,
) -> Result<(Vec<u8>, Option<String>), CommandFailure> {
    let cached = || std::fs::read(cache).ok().filter(|text| text.len() <= MAX_BYTES);
    if arguments.offline {
        let text = cached().ok_or_else(|| not_found(name, "it was not looked up before", request))?;
        return Ok((text, None));
    }
    match download(request, MAX_BYTES).await {
        Ok(document) if document.status.is_success() => {
            // Without the copy, only work without a network is not possible.
            let _ =
                String::from_utf8(document.body.to_vec()).ok().map(|text| edited_file::write(cache, &text));
            Ok((document.body.to_vec(), None))
        }
        Ok(document) if document.status == StatusCode::NOT_FOUND => {
            Err(not_found(name, "the registry does not list it", request))
        }
        Ok(document) => {
            let why = format!("the registry answered {}", document.status.as_u16());
            cached().map(|text| (text, Some(from_cache(&why)))).ok_or_else(|| not_found(name, &why, request))
        }
        Err(failure) => {
            let why = failure.fault.message.clone();
            cached().map(|text| (text, Some(from_cache(&why)))).ok_or(failure)
        }
    }
}

fn from_cache(why: &str) -> String {
    format!("an earlier answer of the registry is used, because {}", line(why))
}

/// The file of an answer, by its request.
fn cache_file(data_dir: &Path, request: &str) -> PathBuf {
    let digest = Sha256::digest(request.as_bytes());
    let name = toolbooth_core::hex::encode(&digest[..16]);
    data_dir.join("registry").join(format!("{name}.json"))
}

fn not_found(name: &str, why: &str, request: &str) -> CommandFailure {
    let host = request.split("/v0.1/").next().unwrap_or(request);
    CommandFailure::failed(FaultReport {
        code: "registry.not-found".to_owned(),
        blame: "caller".to_owned(),
        message: format!("the server `{}` was not found: {}", line(name), line(why)),
        hint: Some(format!(
            "registry: {}; a local server is added with `servers add NAME -- COMMAND`",
            line(host)
        )),
    })
}
