//! The tree that JSON, TOML and YAML are parsed into. Every value knows its location.

use serde_json::Number;
use std::fmt;

/// The ID of a source text: an index into the loaded texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextId(pub(crate) u32);

/// A byte range of a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The source text.
    pub text: TextId,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Mark {
    /// Creates a range of `text`. Offsets beyond 4 GiB cannot occur because the file size is limited.
    pub fn new(text: TextId, start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { text, start: clamp(start), end: clamp(end.max(start)) }
    }
}

/// A value with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The location of the value.
    pub mark: Mark,
}

/// The value of a node. Maps keep the order of the file and may contain a key twice, so that it can be reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string, before or after expansion.
    Text(TemplateText),
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Vec<(MapKey, Node)>),
}

/// A key of a map with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct MapKey {
    /// The key.
    pub text: String,
    /// The location of the key.
    pub mark: Mark,
}

/// A string as written and, after expansion, its value. `Debug` prints the string as written.
#[derive(Clone, PartialEq)]
pub struct TemplateText {
    template: String,
    value: Option<String>,
    typing: Typing,
}

/// Whether a string may be read as a number, a boolean or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// Only as a string.
    Strict,
    /// As any type: it comes from a variable or the command line, where everything is a string.
    Loose,
}

impl TemplateText {
    /// A string from a file.
    pub fn written(template: impl Into<String>) -> Self {
        Self { template: template.into(), value: None, typing: Typing::Strict }
    }

    /// A string from a variable or the command line, displayed as `template`.
    pub fn loose(template: impl Into<String>, value: impl Into<String>) -> Self {
        Self { template: template.into(), value: Some(value.into()), typing: Typing::Loose }
    }

    /// The same string with its expanded value.
    pub fn expanded(&self, value: String) -> Self {
        Self { template: self.template.clone(), value: Some(value), typing: self.typing }
    }

    /// The string as written, for display.
    pub fn shown(&self) -> &str {
        &self.template
    }

    /// The expanded value.
    pub fn used(&self) -> &str {
        self.value.as_deref().unwrap_or(&self.template)
    }

    /// Whether the string may be read as another type.
    pub fn typing(&self) -> Typing {
        self.typing
    }

    /// Whether the string has a value: it was expanded, or comes from a variable or the command line.
    pub fn is_expanded(&self) -> bool {
        self.value.is_some()
    }
}

impl fmt::Debug for TemplateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.template, f)
    }
}

/// One step of a path from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// A key of a map.
    Key(String),
    /// An index of a list.
    Index(usize),
}

impl Node {
    /// Creates an empty map, located at `mark`.
    pub fn empty_map(mark: Mark) -> Self {
        Self { value: Value::Map(Vec::new()), mark }
    }

    /// The members, if this is a map.
    pub fn members(&self) -> Option<&[(MapKey, Node)]> {
        match &self.value {
            Value::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The members as a mutable list, if this is a map.
    pub fn members_mut(&mut self) -> Option<&mut Vec<(MapKey, Node)>> {
        match &mut self.value {
            Value::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The elements, if this is a list.
    pub fn elements(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The member with this key; of duplicates, the last one.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// The member with this key, and the key itself; of duplicates, the last one.
    pub fn entry(&self, key: &str) -> Option<&(MapKey, Node)> {
        self.members()?.iter().rev().find(|(name, _)| name.text == key)
    }

    /// The value at a path of keys (or list indexes written as numbers).
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        path.iter().try_fold(self, |node, step| match &node.value {
            Value::List(elements) => elements.get(step.as_ref().parse::<usize>().ok()?),
            _ => node.get(step.as_ref()),
        })
    }

    /// The expanded value, if this is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text.used()),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn truth(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(truth) => Some(*truth),
            Value::Text(text) if text.typing() == Typing::Loose => text.used().parse().ok(),
            _ => None,
        }
    }

    /// The type of the value, with its article.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Removes the value at `path`; returns false if it does not exist.
    pub fn prune(&mut self, path: &[PathStep]) -> bool {
        let [step, rest @ ..] = path else { return false };
        match (&mut self.value, step) {
            (Value::Map(members), PathStep::Key(key)) => {
                let Some(index) = members.iter().rposition(|(name, _)| name.text == *key) else {
                    return false;
                };
                if rest.is_empty() {
                    members.remove(index);
                    return true;
                }
                members[index].1.prune(rest)
            }
            (Value::List(elements), PathStep::Index(index)) if *index < elements.len() => {
                if rest.is_empty() {
                    elements.remove(*index);
                    return true;
                }
                elements[*index].prune(rest)
            }
            _ => false,
        }
    }

    /// Sets the value at a path of keys, and creates the maps that are missing.
    pub fn set(&mut self, path: &[&str], key_mark: Mark, node: Node) {
        let Some((first, rest)) = path.split_first() else {
            *self = node;
            return;
        };
        if !matches!(self.value, Value::Map(_)) {
            *self = Self::empty_map(key_mark);
        }
        let Some(members) = self.members_mut() else { return };
        let index = members.iter().rposition(|(name, _)| name.text == *first).unwrap_or_else(|| {
            members.push((MapKey { text: (*first).to_owned(), mark: key_mark }, Self::empty_map(key_mark)));
            members.len() - 1
        });
        members[index].1.set(rest, key_mark, node);
    }

    /// Converts the tree to JSON with strings as written, so that expanded secrets are not in it.
    pub fn shown(&self) -> serde_json::Value {
        self.json(&|text| text.shown().to_owned())
    }

    /// Converts the tree to JSON with expanded strings.
    pub fn used(&self) -> serde_json::Value {
        self.json(&|text| text.used().to_owned())
    }

    fn json(&self, say: &impl Fn(&TemplateText) -> String) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(truth) => Json::Bool(*truth),
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(say(text)),
            Value::List(elements) => Json::Array(elements.iter().map(|node| node.json(say)).collect()),
            Value::Map(members) => {
                Json::Object(members.iter().map(|(key, node)| (key.text.clone(), node.json(say))).collect())
            }
        }
    }
}
