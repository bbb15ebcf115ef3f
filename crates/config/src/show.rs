//! `config show`: the configuration as JSON, with secrets as `${NAME}`.

use crate::entry::{Reveal, view};
use crate::loaded_config::LoadedConfig;
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
        show_rules(loaded, mode, map);
        map.insert("servers".into(), Json::Object(servers));
    }
    settings
}

/// Puts the rules of all layers into `policy.rules`, highest layer first, each with its origin.
fn show_rules(loaded: &LoadedConfig, mode: ShowMode, settings: &mut Map<String, Json>) {
    let nodes = loaded.rule_nodes();
    let layers = loaded.settings.policy.layers.iter().rev();
    let read =
        layers.flat_map(|layer| &layer.rules).map(|rule| serde_json::to_value(rule).unwrap_or_default());
    let rules: Vec<Json> = match mode {
        ShowMode::Written => nodes.iter().map(|node| masked("rules", node)).collect(),
        ShowMode::Resolved => read.collect(),
    };
    let with_origin = rules.into_iter().enumerate().map(|(index, mut rule)| {
        if let (Json::Object(rule), Some(node)) = (&mut rule, nodes.get(index)) {
            rule.insert("origin".into(), loaded.origin_of(node.mark).to_string().into());
        }
        rule
    });
    let rules: Vec<Json> = with_origin.collect();
    let policy = settings.get_mut("policy").and_then(Json::as_object_mut);
    match (policy, mode) {
        (Some(policy), ShowMode::Resolved) => {
            policy.remove("layers");
            policy.insert("rules".into(), rules.into());
        }
        (Some(policy), ShowMode::Written) if !rules.is_empty() => {
            policy.insert("rules".into(), rules.into());
        }
        (None, _) if !rules.is_empty() => {
            settings.insert("policy".into(), json!({ "rules": rules }));
        }
        _ => {}
    }
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
