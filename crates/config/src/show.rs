//! `config show`: the configuration as JSON, secrets as `${NAME}`.

use crate::entry::{Reveal, view};
use crate::load::Loaded;
use crate::lookup::masked;
use crate::servers::{ConfiguredServer, ServerConfigState};
use serde_json::{Map, Value as Json, json};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// What the files say, merged.
    Written,
    /// Every value in force, defaults included, in its normal form.
    Resolved,
}

/// The configuration as JSON.
pub fn show(loaded: &Loaded, resolved: View) -> Json {
    let (mut settings, servers): (Json, Map<String, Json>) = match resolved {
        View::Written => (
            masked("", &loaded.merged),
            loaded.history.iter().map(|(name, said)| (name.to_string(), masked("", &said.node))).collect(),
        ),
        View::Resolved => (
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
