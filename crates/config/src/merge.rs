//! Settings of several layers laid over each other, field by field.

use crate::finding::Finding;
use crate::layer::Layer;
use crate::node::{Key, Mark, Node, Value};
use crate::texts::Texts;

/// The key that protects what stands beside it from project files.
const ENFORCED: &str = "enforced";

/// Settings on their way through the layers.
pub(crate) struct Merger<'a> {
    texts: &'a Texts,
    pub merged: Node,
    /// The rules of each layer, in the order of the layers.
    pub rules: Vec<(Layer, Node)>,
    pub findings: Vec<Finding>,
    enforced: Vec<(Vec<String>, Mark)>,
}

impl<'a> Merger<'a> {
    pub(crate) fn new(texts: &'a Texts, mark: Mark) -> Self {
        Self {
            texts,
            merged: Node::empty_map(mark),
            rules: Vec::new(),
            findings: Vec::new(),
            enforced: Vec::new(),
        }
    }

    /// Lays the settings of one file over what is there.
    pub(crate) fn lay(&mut self, layer: Layer, mut settings: Node) {
        self.take_rules(layer, &mut settings);
        let mut merged = std::mem::replace(&mut self.merged, Node::empty_map(settings.mark));
        self.over(layer, &mut merged, settings, &mut Vec::new());
        self.merged = merged;
    }

    /// Rules are not replaced: every layer keeps its own, and the strictest wins.
    fn take_rules(&mut self, layer: Layer, settings: &mut Node) {
        let Some(rules) = settings.at(&["policy", "rules"]).cloned() else { return };
        settings.prune(&["policy", "rules"].map(|key| crate::node::Step::Key(key.to_owned())));
        match self.rules.last_mut() {
            Some((last, Node { value: Value::List(kept), .. })) if *last == layer => match rules.value {
                // Within a layer, a later file speaks first.
                Value::List(mut first) => {
                    first.append(kept);
                    *kept = first;
                }
                _ => self.rules.push((layer, rules)),
            },
            _ => self.rules.push((layer, rules)),
        }
    }

    fn over(&mut self, layer: Layer, base: &mut Node, over: Node, path: &mut Vec<String>) {
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

    fn set(&mut self, layer: Layer, base: &mut Node, key: Key, node: Node, path: &mut Vec<String>) {
        let Some(members) = base.members_mut() else { return };
        let place = members.iter().rposition(|(name, _)| name.text == key.text);
        let is_map = matches!(node.value, Value::Map(_));
        match place {
            Some(place) if is_map && matches!(members[place].1.value, Value::Map(_)) => {
                let mut inner = members[place].1.clone();
                self.over(layer, &mut inner, node, path);
                if let Some(members) = base.members_mut() {
                    members[place] = (key, inner);
                }
            }
            Some(place) if path.len() == 1 && key.text == "deny_tools" => {
                members[place].1 = united(&members[place].1, node);
            }
            Some(place) => members[place] = (key, node),
            None if is_map => {
                let mut inner = Node::empty_map(node.mark);
                self.over(layer, &mut inner, node, path);
                if let Some(members) = base.members_mut() {
                    members.push((key, inner));
                }
            }
            None => members.push((key, node)),
        }
    }

    /// Whether a layer may set this key.
    fn permits(&mut self, layer: Layer, path: &[String], key: &Key) -> bool {
        if layer != Layer::Project {
            return true;
        }
        let protected = self.enforced.iter().find(|(enforced, _)| path.starts_with(enforced));
        let Some((_, mark)) = protected else { return true };
        let sentence = format!("a project file may not change `{}`: it is enforced", path.join("."));
        let hint = format!("enforced at {}", self.texts.place(*mark));
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

/// One entry laid over another, field by field; lists are replaced.
pub(crate) fn merged_entry(base: &Node, over: &Node) -> Node {
    match (&base.value, &over.value) {
        (Value::Map(below), Value::Map(above)) => {
            let mut members = below.clone();
            for (key, node) in above {
                match members.iter().rposition(|(name, _)| name.text == key.text) {
                    Some(place) => members[place] = (key.clone(), merged_entry(&members[place].1, node)),
                    None => members.push((key.clone(), node.clone())),
                }
            }
            Node { value: Value::Map(members), mark: over.mark }
        }
        _ => over.clone(),
    }
}
