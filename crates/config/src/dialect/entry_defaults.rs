//! Options at the top of a file that are defaults of its servers, such as `autoConnect` of Attocode.

use super::FileSplitter;
use crate::finding::Finding;
use crate::node::{MapKey, Node, TemplateText, Value};

/// Top-level options that are defaults of the servers in the same file, with the field of an entry that each one sets.
pub(crate) const ENTRY_DEFAULTS: [(&str, &str); 4] = [
    ("autoConnect", "auto_connect"),
    ("auto_connect", "auto_connect"),
    ("requestTimeout", "timeout"),
    ("request_timeout", "timeout"),
];

/// All spellings of the fields that a top-level option may set.
const SPELLINGS: [(&str, &[&str]); 2] = [
    ("auto_connect", &["auto_connect", "autoConnect"]),
    ("timeout", &["timeout", "timeout_seconds", "tool_timeout_sec"]),
];

impl FileSplitter<'_> {
    /// The field of entries that a top-level option of Attocode sets. `requestTimeout` is in milliseconds.
    pub(super) fn entry_default(
        &mut self,
        key: MapKey,
        field: &str,
        mut node: Node,
    ) -> Option<(MapKey, Node)> {
        let expected = match field {
            "timeout" => match &node.value {
                Value::Number(milliseconds) => {
                    node.value = Value::Text(TemplateText::written(format!("{milliseconds}ms")));
                    None
                }
                Value::Text(_) => None,
                _ => Some("a number of milliseconds"),
            },
            _ => node.truth().is_none().then_some("true or false"),
        };
        if let Some(expected) = expected {
            let sentence = format!("`{}` must be {expected}, found {}", key.text, node.kind());
            self.split.findings.push(Finding::error("config.wrong-type", sentence).at(self.texts, node.mark));
            return None;
        }
        Some((MapKey { text: field.to_owned(), mark: key.mark }, node))
    }

    /// Adds default fields to the servers from `first` on that do not have them.
    pub(super) fn fill_in(&mut self, first: usize, defaults: &[(MapKey, Node)]) {
        for server in &mut self.split.servers[first..] {
            let Some(members) = server.node.members_mut() else { continue };
            for (key, node) in defaults {
                let own = [key.text.as_str()];
                let known = SPELLINGS.iter().find(|(field, _)| *field == key.text);
                let spellings = known.map_or(own.as_slice(), |(_, spellings)| spellings);
                if !members.iter().any(|(name, _)| spellings.contains(&name.text.as_str())) {
                    members.push((key.clone(), node.clone()));
                }
            }
        }
    }
}
