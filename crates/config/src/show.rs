//! `config show`: the configuration as JSON, with secrets as `${NAME}`.

use crate::entry::{Reveal, view};
use crate::load::LoadedConfig;
use crate::lookup::masked;
use crate::servers::{ConfiguredServer, ServerConfigState};
use serde_json::{Map, Value as Json, json};

/// What `config show` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowMode {
    /// The merged content of the files.
    Written,
    /// All effective values, including defaults, in normalised form.
    Resolved,
}

/// The configuration as JSON.
pub fn show(loaded: &LoadedConfig, mode: ShowMode) -> Json {
    let (mut settings, servers): (Json, Map<String, Json>) = match mode {
        ShowMode::Written => (
            masked("", &loaded.merged),
            loaded.history.iter().map(|(name, entry)| (name.to_string(), masked("", &entry.node))).collect(),
        ),
        ShowMode::Resolved => (
            serde_json::to_value(&loaded.settings).unwrap_or_default(),
            loaded.servers.iter().map(|server| (server.name.to_string(), server_view(server))).collect(),
        ),
    };
    if let Json::Object(map) = &mut settings {
        map.insert("servers".into(), Json::Object(servers));
    }
    settings
}

fn server_view(server: &ConfiguredServer) -> Json {
    let mut out = match &server.state {
        ServerConfigState::Ready(entry) | ServerConfigState::Disabled(entry) => {
            view(entry, Reveal::Templates)
        }
        ServerConfigState::NeedsTrust { entry_preview, .. } => json!({ "preview": entry_preview.fields }),
        ServerConfigState::Broken(finding) => json!({ "error": finding.to_string() }),
    };
    if let Json::Object(map) = &mut out {
        map.insert("state".into(), server.state.as_str().into());
        map.insert("origin".into(), server.origin.to_string().into());
    }
    out
}
