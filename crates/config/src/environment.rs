//! Settings from `TOOLBOOTH_*` variables and `key=value` arguments.

use crate::finding::Finding;
use crate::node::{Mark, Node, TemplateText, Value};
use crate::suggest::nearest;
use crate::texts::{SourceTexts, TextName};
use std::collections::BTreeMap;

/// The beginning of the names of variables that are settings.
pub(crate) const PREFIX: &str = "TOOLBOOTH_";

/// Variables that commands read directly: arguments of every command, and the log level.
pub const RESERVED: [&str; 10] = [
    "URL",
    "TOKEN",
    "CONFIG",
    "CONFIG_DIR",
    "CONFIG_OVERRIDES",
    "MCP_CONFIG",
    "LLM_CONFIG",
    "LOG",
    "PERSONA",
    "JSON",
];

/// Reads the settings from variables. `paths` lists the settings of the schema.
pub(crate) fn from_variables(
    texts: &mut SourceTexts,
    env: &BTreeMap<String, String>,
    paths: impl FnOnce() -> Vec<Vec<String>>,
) -> (Option<Node>, Vec<Finding>) {
    let ours: Vec<(&String, &String, &str)> = env
        .iter()
        .filter_map(|(name, value)| Some((name, value, name.strip_prefix(PREFIX)?)))
        .filter(|(_, value, rest)| !value.is_empty() && !RESERVED.contains(rest))
        .collect();
    if ours.is_empty() {
        return (None, Vec::new());
    }
    let known: BTreeMap<String, Vec<String>> =
        paths().into_iter().map(|path| (path.join("_").to_ascii_uppercase(), path)).collect();
    let mut settings: Option<Node> = None;
    let mut findings = Vec::new();
    for (name, value, rest) in ours {
        let id = texts.add(TextName::Variable(name.clone()), "");
        let mark = Mark::new(id, 0, 0);
        let Some(path) = known.get(&rest.replace("__", "_")) else {
            let mut finding =
                Finding::warning("config.unknown-variable", format!("`{name}` is not a setting"))
                    .at(texts, mark);
            let words = known.keys().map(String::as_str).chain(RESERVED);
            finding.hint = nearest(rest, words).map(|near| format!("did you mean `{PREFIX}{near}`?"));
            findings.push(finding);
            continue;
        };
        // Show the variable's name in place of its value, which may be a secret.
        let text = TemplateText::loose(format!("${{{name}}}"), value.as_str());
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let node = Node { value: Value::Text(text), mark };
        settings.get_or_insert_with(|| Node::empty_map(mark)).set(&path, mark, node);
    }
    (settings, findings)
}

/// A `key=value` argument of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub path: Vec<String>,
    pub node: Node,
}

/// Converts the arguments of the command line, each with the path that it sets.
pub(crate) fn from_arguments(texts: &mut SourceTexts, overrides: &[(String, String)]) -> Vec<Argument> {
    overrides
        .iter()
        .map(|(key, value)| {
            let id = texts.add(TextName::Argument(key.clone()), "");
            let text = TemplateText::loose(value.as_str(), value.as_str());
            let node = Node { value: Value::Text(text), mark: Mark::new(id, 0, 0) };
            Argument { path: key.split('.').map(str::to_owned).collect(), node }
        })
        .collect()
}
