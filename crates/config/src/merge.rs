//! Merges the settings of several layers, key by key.

use crate::finding::Finding;
use crate::layer::Layer;
use crate::node::{MapKey, Mark, Node, Value};
use crate::texts::SourceTexts;

/// The key that protects its section from project files.
const ENFORCED: &str = "enforced";

/// Merges the settings of one layer after another.
pub(crate) struct SettingsMerger<'a> {
    texts: &'a SourceTexts,
    pub merged: Node,
    /// The rules of each layer, in the order of the layers.
    pub rules: Vec<(Layer, Node)>,
    pub findings: Vec<Finding>,
    enforced: Vec<(Vec<String>, Mark)>,
}

impl<'a> SettingsMerger<'a> {
    pub(crate) fn new(texts: &'a SourceTexts, mark: Mark) -> Self {
        Self {
            texts,
            merged: Node::empty_map(mark),
            rules: Vec::new(),
            findings: Vec::new(),
            enforced: Vec::new(),
        }
    }

    /// Merges the settings of one file into the result.
    pub(crate) fn merge(&mut self, layer: Layer, mut settings: Node) {
        self.take_rules(layer, &mut settings);
        let mut merged = std::mem::replace(&mut self.merged, Node::empty_map(settings.mark));
        self.merge_map(layer, &mut merged, settings, &mut Vec::new());
        self.merged = merged;
    }

    /// Collects the rules. They are not merged: every layer keeps its own, and the strictest rule wins.
    fn take_rules(&mut self, layer: Layer, settings: &mut Node) {
        let Some(rules) = settings.at(&["policy", "rules"]).cloned() else { return };
        settings.prune(&["policy", "rules"].map(|key| crate::node::PathStep::Key(key.to_owned())));
        match self.rules.last_mut() {
            Some((last, Node { value: Value::List(kept), .. })) if *last == layer => match rules.value {
                // Within a layer, the rules of a later file come first.
                Value::List(mut first) => {
                    first.append(kept);
                    *kept = first;
                }
                _ => self.rules.push((layer, rules)),
            },
            _ => self.rules.push((layer, rules)),
        }
    }

    fn merge_map(&mut self, layer: Layer, base: &mut Node, over: Node, path: &mut Vec<String>) {
        let Value::Map(members) = over.value else { return };
        let own = members.iter().any(|(key, node)| key.text == ENFORCED && node.truth() == Some(true));
        for (key, node) in members {
            path.push(key.text.clone());
            if key.text != ENFORCED && self.permits(layer, path, &key) {
                self.set(layer, base, key, node, path);
            }
            path.pop();
        }
        if own && layer != Layer::Project {
            self.enforced.push((path.clone(), over.mark));
        }
    }

    fn set(&mut self, layer: Layer, base: &mut Node, key: MapKey, node: Node, path: &mut Vec<String>) {
        let Some(members) = base.members_mut() else { return };
        let index = members.iter().rposition(|(name, _)| name.text == key.text);
        let is_map = matches!(node.value, Value::Map(_));
        match index {
            Some(index) if is_map && matches!(members[index].1.value, Value::Map(_)) => {
                let mut inner = members[index].1.clone();
                self.merge_map(layer, &mut inner, node, path);
                if let Some(members) = base.members_mut() {
                    members[index] = (key, inner);
                }
            }
            Some(index)
                if path.len() == 1 && matches!(key.text.as_str(), "deny_tools" | "deny_server_tools") =>
            {
                members[index].1 = united(&members[index].1, node);
            }
            // A later layer adds hooks; it cannot remove those of an earlier one.
            Some(index)
                if path.len() == 2
                    && path[0] == "hooks"
                    && matches!(key.text.as_str(), "pre_call" | "post_call") =>
            {
                members[index].1 = united(&members[index].1, node);
            }
            Some(index) => members[index] = (key, node),
            None if is_map => {
                let mut inner = Node::empty_map(node.mark);
                self.merge_map(layer, &mut inner, node, path);
                if let Some(members) = base.members_mut() {
                    members.push((key, inner));
                }
            }
            None => members.push((key, node)),
        }
    }

    /// Whether a layer may set this key; otherwise adds a finding.
    fn permits(&mut self, layer: Layer, path: &[String], key: &MapKey) -> bool {
        if layer != Layer::Project {
            return true;
        }
        let protected = self.enforced.iter().find(|(enforced, _)| path.starts_with(enforced));
        let Some((_, mark)) = protected else { return true };
        let sentence = format!("a project file may not change `{}`: it is enforced", path.join("."));
        let hint = format!("enforced at {}", self.texts.location(*mark));
        let finding =
            Finding::error("config.enforced", sentence).at(self.texts, key.mark).about(path.join("."));
        self.findings.push(finding.hint(hint));
        false
    }
}

fn united(earlier: &Node, later: Node) -> Node {
    let mark = later.mark;
    let listed = |node: Node| match node.value {
        Value::List(elements) => elements,
        _ => vec![node],
    };
    let all = listed(earlier.clone()).into_iter().chain(listed(later)).collect();
    Node { value: Value::List(all), mark }
}

/// Merges one server entry into another, field by field; lists are replaced.
pub(crate) fn merged_entry(base: &Node, over: &Node) -> Node {
    match (&base.value, &over.value) {
        (Value::Map(below), Value::Map(above)) => {
            let mut members = below.clone();
            for (key, node) in above {
                match members.iter().rposition(|(name, _)| name.text == key.text) {
                    Some(index) => members[index] = (key.clone(), merged_entry(&members[index].1, node)),
                    None => members.push((key.clone(), node.clone())),
                }
            }
            Node { value: Value::Map(members), mark: over.mark }
        }
        _ => over.clone(),
    }
}
