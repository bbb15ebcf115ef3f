//! `config explain KEY`: the value of a key, its origin, and the values it overrides.

use crate::entry::{Reveal, view};
use crate::layer::{ConfigOrigin, Layer};
use crate::loaded_config::LoadedConfig;
use crate::lookup::{in_json, in_tree, is_secret_key, masked, rest_after};
use crate::node::{Mark, Node, Typing, Value};
use crate::secrets::{looks_secret, masked_address};
use crate::settings::Settings;
use crate::suggest::nearest;
use crate::texts::TextName;
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;
use toolbooth_core::names::ServerName;

/// The value of a key, and where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The dotted key.
    pub key: String,
    /// The value, with secrets as `${NAME}`; absent if the key is not set.
    pub value: Option<Json>,
    /// The origin of the value; absent for a default.
    pub origin: Option<ConfigOrigin>,
    /// The other sources of a list that is combined from several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<ConfigOrigin>,
    /// The values of other sources, highest layer first.
    pub over: Vec<Overridden>,
    /// Additional remarks.
    pub notes: Vec<String>,
}

/// A value that is overridden.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overridden {
    /// The origin of the value.
    pub origin: ConfigOrigin,
    /// The value.
    pub value: Json,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.value, &self.origin) {
            (Some(value), Some(origin)) => writeln!(f, "{} = {value}\n  from {origin}", self.key)?,
            (Some(value), None) => writeln!(f, "{} = {value}\n  the default", self.key)?,
            (None, _) => writeln!(f, "{} is not set", self.key)?,
        }
        for origin in &self.also {
            writeln!(f, "  and from {origin}")?;
        }
        for Overridden { origin, value } in &self.over {
            writeln!(f, "  overrides {value} from {origin}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

impl Explanation {
    fn unset(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: None,
            origin: None,
            also: Vec::new(),
            over: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Explains a dotted key such as `exposure.mode` or `servers.fs.env.TOKEN`.
pub fn explain(loaded: &LoadedConfig, dotted_key: &str) -> Explanation {
    match rest_after(dotted_key, "servers") {
        Some(rest) if !rest.is_empty() => server(loaded, dotted_key, rest),
        _ => setting(loaded, dotted_key),
    }
}

/// The lists whose value is that of all layers together.
const COMBINED: [&str; 5] =
    ["policy.rules", "deny_tools", "deny_server_tools", "hooks.pre_call", "hooks.post_call"];

/// The elements of a list; another value counts as a list of one.
fn listed(node: &Node) -> &[Node] {
    node.elements().unwrap_or(std::slice::from_ref(node))
}

/// Names the origins of all elements of a combined list. Values that are part of the list do not count as overridden;
/// `used` has an element for each of them.
fn combine(loaded: &LoadedConfig, explanation: &mut Explanation, elements: &[&Node], used: &[bool]) {
    let mut used = used.iter();
    explanation.over.retain(|_| !used.next().is_some_and(|used| *used));
    for element in elements {
        let origin = loaded.origin_of(element.mark);
        let is_named =
            explanation.origin.iter().chain(&explanation.also).any(|known| {
                (known.layer, &known.file, &known.via) == (origin.layer, &origin.file, &origin.via)
            });
        match &explanation.origin {
            None => explanation.origin = Some(origin),
            Some(_) if is_named => {}
            Some(_) => explanation.also.push(origin),
        }
    }
}

fn last_part(dotted: &str) -> &str {
    dotted.rsplit('.').next().unwrap_or(dotted)
}

fn setting(loaded: &LoadedConfig, key: &str) -> Explanation {
    let mut explanation = Explanation::unset(key);
    let winner = in_tree(&loaded.merged, key);
    if let Some(node) = winner {
        let of_variable = of_variable(loaded, key, node);
        explanation.value = Some(of_variable.unwrap_or_else(|| masked(last_part(key), node)));
        explanation.origin = Some(loaded.origin_of(node.mark));
    }
    let mut used = Vec::new();
    for document in loaded.documents.iter().rev() {
        let Some(node) = in_tree(&document.split.settings, key) else { continue };
        if winner.is_some_and(|winner| winner.mark == node.mark) {
            continue;
        }
        let waiting = loaded.untrusted.iter().any(|waiting| Some(&waiting.file) == document.path.as_ref());
        if waiting && document.layer == Layer::Project {
            explanation.notes.push(format!("{} waits for trust", loaded.origin_of(node.mark)));
        }
        let origin = loaded.origin_of(node.mark);
        used.push(!waiting);
        explanation.over.push(Overridden { origin, value: masked(last_part(key), node) });
    }
    if COMBINED.contains(&key) {
        explanation.notes.push("the values of all layers are combined".into());
        let elements: Vec<&Node> = match winner {
            Some(list) => listed(list).iter().collect(),
            None => loaded.rule_nodes(),
        };
        if winner.is_none() && !elements.is_empty() {
            let rules = elements.iter().map(|rule| masked("rules", rule));
            explanation.value = Some(Json::Array(rules.collect()));
        }
        combine(loaded, &mut explanation, &elements, &used);
    }
    if explanation.value.is_none() {
        let effective = serde_json::to_value(&loaded.settings).unwrap_or_default();
        explanation.value = in_json(&effective, key).filter(|value| !value.is_null()).cloned();
    }
    if explanation.value.is_none() && !is_known(key) {
        let known = crate::schema::setting_paths();
        let dotted: Vec<String> = known.iter().map(|path| path.join(".")).collect();
        let near = nearest(key, dotted.iter().map(String::as_str));
        let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        explanation.notes.push(format!("there is no such setting{meant}"));
    }
    explanation
}

/// The effective value of a setting that a variable of the environment sets; `None` for other nodes and for secrets,
/// which are shown as the variable.
fn of_variable(loaded: &LoadedConfig, key: &str, node: &Node) -> Option<Json> {
    let Value::Text(text) = &node.value else { return None };
    let name = last_part(key);
    if text.typing() != Typing::Loose || text.shown() == text.used() || is_secret_key(name) {
        return None;
    }
    let effective = serde_json::to_value(&loaded.settings).unwrap_or_default();
    match in_json(&effective, key)? {
        Json::Null => None,
        Json::String(value) if looks_secret(value) => None,
        Json::String(value) => Some(masked_address(value).map_or_else(|| value.as_str().into(), Json::from)),
        other => Some(other.clone()),
    }
}

fn is_known(key: &str) -> bool {
    let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
    in_json(&defaults, key).is_some()
}

fn server(loaded: &LoadedConfig, key: &str, rest: &str) -> Explanation {
    let mut explanation = Explanation::unset(key);
    let named = |name: &ServerName| rest_after(rest, name.as_str()).map(str::to_owned);
    let found = loaded
        .servers
        .iter()
        .filter_map(|server| Some((server, named(&server.name)?)))
        .max_by_key(|(server, _)| server.name.as_str().len());
    let Some((server, field)) = found else {
        let names = loaded.servers.iter().map(|server| server.name.as_str());
        let first = rest.split('.').next().unwrap_or(rest);
        let meant = nearest(first, names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        explanation.notes.push(format!("there is no server with that name{meant}"));
        return explanation;
    };
    let Some(history) = loaded.history.get(&server.name) else { return explanation };
    let winner = in_tree(&history.node, &field);
    if let Some(node) = winner {
        explanation.value = Some(masked(last_part(&field), node));
        explanation.origin = Some(loaded.origin_of(node.mark));
    } else if let Some(entry) = server.state.entry() {
        explanation.value = in_json(&view(entry, Reveal::Templates), &field).cloned();
    }
    for (_, entry) in history.written.iter().rev() {
        let Some(node) = in_tree(entry, &field) else { continue };
        if winner.is_none_or(|winner| winner.mark != node.mark) {
            let value = masked(last_part(&field), node);
            explanation.over.push(Overridden { origin: loaded.origin_of(node.mark), value });
        }
    }
    if !server.shadowed.is_empty() {
        let note = format!("the entry at {} replaces the other entries completely", server.origin.location());
        explanation.notes.push(note);
    }
    if server.state.as_str() != "ready" {
        explanation.notes.push(format!("the server is `{}`", server.state.as_str()));
    }
    explanation
}

impl LoadedConfig {
    /// The layer and location of a mark.
    pub(crate) fn origin_of(&self, mark: Mark) -> ConfigOrigin {
        let layer = match self.texts.name(mark.text) {
            Some(TextName::Variable(_)) => Layer::Environment,
            Some(TextName::Argument(_)) => Layer::CommandLine,
            Some(TextName::File(path)) => {
                let document = self.documents.iter().find(|document| document.path.as_ref() == Some(path));
                document.map_or(Layer::BuiltIn, |document| document.layer)
            }
            None => Layer::BuiltIn,
        };
        ConfigOrigin::new(layer, self.texts.location(mark))
    }

    /// The rules of all layers as written, highest layer first.
    pub(crate) fn rule_nodes(&self) -> Vec<&Node> {
        self.rules.iter().rev().flat_map(|(_, rules)| listed(rules)).collect()
    }

    /// The origins of all settings that are set, by dotted key. A list that several files set has its first origin.
    pub fn origins(&self) -> Vec<(String, ConfigOrigin)> {
        let mut origins = Vec::new();
        leaves(&self.merged, &mut String::new(), &mut |key, node| {
            origins.push((key.to_owned(), self.origin_of(node.mark)));
        });
        let first_rule = self.rule_nodes().first().map(|rule| self.origin_of(rule.mark));
        origins.extend(first_rule.map(|origin| ("policy.rules".to_owned(), origin)));
        origins
    }
}

fn leaves(node: &Node, path: &mut String, found: &mut impl FnMut(&str, &Node)) {
    let Some(members) = node.members() else { return found(path, node) };
    for (key, inner) in members {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(&key.text);
        leaves(inner, path, found);
        path.truncate(length);
    }
}
