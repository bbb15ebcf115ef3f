//! The one tree that JSON, TOML and YAML become: every value remembers where it was written.

use serde_json::Number;
use std::fmt;

/// Which text a value came from; an index into the loaded texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextId(pub(crate) u32);

/// A stretch of one text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The text it is in.
    pub text: TextId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Mark {
    /// A stretch of `text`; offsets beyond 4 GiB cannot occur because files are bounded.
    pub fn new(text: TextId, start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { text, start: clamp(start), end: clamp(end.max(start)) }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands.
    pub mark: Mark,
}

/// What a node holds. Maps keep the order of the file and may hold a key twice, so that it can be reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// Any number.
    Number(Number),
    /// Text, before or after expansion.
    Text(Text),
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Vec<(Key, Node)>),
}

/// A key of a map and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Where it stands.
    pub mark: Mark,
}

/// Text as written and, after expansion, what it became. Printing shows what was written.
#[derive(Clone, PartialEq)]
pub struct Text {
    template: String,
    value: Option<String>,
    typing: Typing,
}

/// Whether a text may stand for a number, a truth value or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// Text is text.
    Strict,
    /// It came from a variable or the command line, where everything is text.
    Loose,
}

impl Text {
    /// Text from a file.
    pub fn written(template: impl Into<String>) -> Self {
        Self { template: template.into(), value: None, typing: Typing::Strict }
    }

    /// Text from a variable or the command line, shown as `template`.
    pub fn loose(template: impl Into<String>, value: impl Into<String>) -> Self {
        Self { template: template.into(), value: Some(value.into()), typing: Typing::Loose }
    }

    /// What expansion made of it.
    pub fn expanded(&self, value: String) -> Self {
        Self { template: self.template.clone(), value: Some(value), typing: self.typing }
    }

    /// The text as written, for people.
    pub fn shown(&self) -> &str {
        &self.template
    }

    /// The text as used.
    pub fn used(&self) -> &str {
        self.value.as_deref().unwrap_or(&self.template)
    }

    /// Whether other types may be read from it.
    pub fn typing(&self) -> Typing {
        self.typing
    }

    /// Whether it has been expanded, or came with a value of its own.
    pub fn is_expanded(&self) -> bool {
        self.value.is_some()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.template, f)
    }
}

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into a map.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl Node {
    /// A map without members, standing at `mark`.
    pub fn empty_map(mark: Mark) -> Self {
        Self { value: Value::Map(Vec::new()), mark }
    }

    /// The members, if this is a map.
    pub fn members(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The members to change, if this is a map.
    pub fn members_mut(&mut self) -> Option<&mut Vec<(Key, Node)>> {
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

    /// The member of that name; of two, the later.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// The member of that name with its key; of two, the later.
    pub fn entry(&self, key: &str) -> Option<&(Key, Node)> {
        self.members()?.iter().rev().find(|(name, _)| name.text == key)
    }

    /// The value behind a chain of keys (or list indexes written as numbers).
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Node> {
        path.iter().try_fold(self, |node, step| match &node.value {
            Value::List(elements) => elements.get(step.as_ref().parse::<usize>().ok()?),
            _ => node.get(step.as_ref()),
        })
    }

    /// The text as used, if this is text.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text.used()),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    pub fn truth(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(truth) => Some(*truth),
            Value::Text(text) if text.typing() == Typing::Loose => text.used().parse().ok(),
            _ => None,
        }
    }

    /// What kind of thing this is, with its article.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a truth value",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Takes the value behind `path` out of the tree; false if there was none.
    pub fn prune(&mut self, path: &[Step]) -> bool {
        let [step, rest @ ..] = path else { return false };
        match (&mut self.value, step) {
            (Value::Map(members), Step::Key(key)) => {
                let Some(place) = members.iter().rposition(|(name, _)| name.text == *key) else {
                    return false;
                };
                if rest.is_empty() {
                    members.remove(place);
                    return true;
                }
                members[place].1.prune(rest)
            }
            (Value::List(elements), Step::Index(index)) if *index < elements.len() => {
                if rest.is_empty() {
                    elements.remove(*index);
                    return true;
                }
                elements[*index].prune(rest)
            }
            _ => false,
        }
    }

    /// Sets the value behind a chain of keys, making maps on the way.
    pub fn set(&mut self, path: &[&str], key_mark: Mark, node: Node) {
        let Some((first, rest)) = path.split_first() else {
            *self = node;
            return;
        };
        if !matches!(self.value, Value::Map(_)) {
            *self = Self::empty_map(key_mark);
        }
        let Some(members) = self.members_mut() else { return };
        let place = members.iter().rposition(|(name, _)| name.text == *first).unwrap_or_else(|| {
            members.push((Key { text: (*first).to_owned(), mark: key_mark }, Self::empty_map(key_mark)));
            members.len() - 1
        });
        members[place].1.set(rest, key_mark, node);
    }

    /// Plain JSON with texts as written, so that no secret is in it.
    pub fn shown(&self) -> serde_json::Value {
        self.json(&|text| text.shown().to_owned())
    }

    /// Plain JSON with texts as used.
    pub fn used(&self) -> serde_json::Value {
        self.json(&|text| text.used().to_owned())
    }

    fn json(&self, say: &impl Fn(&Text) -> String) -> serde_json::Value {
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
