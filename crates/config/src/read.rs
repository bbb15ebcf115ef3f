//! Deserializes trees into types. Errors contain the location, the path and the known keys.

use crate::node::{MapKey, Mark, Node, PathStep, TemplateText, Typing, Value};
use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use std::fmt;

/// The newtype name that requests a string with its template and its value.
pub(crate) const SECRET: &str = "$toolbooth::SecretText";

/// The newtype name that requests a list, or a single value in place of a list.
pub(crate) const ONE_OR_MANY: &str = "$toolbooth::OneOrMany";

/// The maximum number of errors in one tree; after each, the invalid part is removed and the tree is read again.
const MAX_ERRORS: usize = 64;

/// An error in a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadError {
    /// The kind of error.
    pub kind: ReadErrorKind,
    /// The location.
    pub mark: Option<Mark>,
    /// The path from the root of the tree.
    pub path: Vec<PathStep>,
}

/// The kind of a read error.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadErrorKind {
    /// An unknown key.
    UnknownKey {
        /// The key.
        key: String,
        /// The valid keys.
        known: &'static [&'static str],
    },
    /// A word that is not one of the valid values.
    UnknownWord {
        /// The word.
        word: String,
        /// The valid words.
        known: &'static [&'static str],
    },
    /// A required key is missing.
    Missing(&'static str),
    /// A key is given twice, possibly in another spelling.
    Twice(&'static str),
    /// The value has the wrong type.
    Type {
        /// The type found.
        found: String,
        /// The type expected.
        expected: String,
    },
    /// Any other error, as a message.
    Other(String),
}

impl ReadError {
    fn new(kind: ReadErrorKind) -> Self {
        Self { kind, mark: None, path: Vec::new() }
    }

    fn at(mut self, mark: Mark) -> Self {
        self.mark.get_or_insert(mark);
        self
    }

    fn inside(mut self, step: PathStep) -> Self {
        self.path.insert(0, step);
        self
    }

    /// The path in dotted form: `env.TOKEN`, `rules[2].effect`.
    pub fn dotted(&self) -> String {
        dotted(&self.path)
    }
}

/// A path in dotted form: `env.TOKEN`, `rules[2].effect`.
pub fn dotted(path: &[PathStep]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            PathStep::Key(key) if out.is_empty() => out.push_str(key),
            PathStep::Key(key) => {
                out.push('.');
                out.push_str(key);
            }
            PathStep::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ReadErrorKind::UnknownKey { key, .. } => write!(f, "unknown key `{key}`"),
            ReadErrorKind::UnknownWord { word, .. } => write!(f, "unknown word `{word}`"),
            ReadErrorKind::Missing(key) => write!(f, "`{key}` is missing"),
            ReadErrorKind::Twice(key) => write!(f, "`{key}` is given twice"),
            ReadErrorKind::Type { found, expected } => write!(f, "expected {expected}, found {found}"),
            ReadErrorKind::Other(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(sentence: T) -> Self {
        Self::new(ReadErrorKind::Other(sentence.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(ReadErrorKind::Type {
            found: plain_kind(found).to_owned(),
            expected: plain_expected(expected),
        })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Float(number) => number.to_string(),
            other => plain_kind(other).to_owned(),
        };
        Self::new(ReadErrorKind::Type { found, expected: plain_expected(expected) })
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::new(ReadErrorKind::UnknownKey { key: key.to_owned(), known })
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(ReadErrorKind::UnknownWord { word: word.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(ReadErrorKind::Missing(key))
    }

    fn duplicate_field(key: &'static str) -> Self {
        Self::new(ReadErrorKind::Twice(key))
    }
}

/// Replaces serde's names of Rust types with plain names.
fn plain_expected(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "a sequence" => "a list".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "u8" | "u16" | "u32" | "u64" => "a non-negative integer".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "an integer".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        words if words.starts_with("struct ") => "a map".to_owned(),
        _ => words,
    }
}

/// The type of a value. Messages do not contain the value: it may be a secret in the wrong place.
fn plain_kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a map",
        Unexpected::Unit | Unexpected::Option => "null",
        _ => "something else",
    }
}

/// Reads a tree and reports all errors: after each error the invalid part is removed and the rest is read again.
/// The value is absent if the rest could not be read either.
pub fn read_all<T: de::DeserializeOwned>(node: &Node) -> (Option<T>, Vec<ReadError>) {
    let mut errors = Vec::new();
    let mut rest = node.clone();
    loop {
        match T::deserialize(&rest) {
            Ok(value) => return (Some(value), errors),
            Err(error) => {
                let pruned = rest.prune(&error.path);
                errors.push(error);
                if !pruned || errors.len() >= MAX_ERRORS {
                    return (None, errors);
                }
            }
        }
    }
}

impl TemplateText {
    /// The elements of a comma-separated list.
    fn loose_parts(&self) -> Vec<&str> {
        let inner = self.used().trim();
        let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner);
        inner.split(',').map(|part| part.trim().trim_matches('"')).filter(|part| !part.is_empty()).collect()
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            self.number(visitor)
        }
    )*};
}

impl Node {
    fn number<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, ReadError> {
        if let Value::Text(text) = &self.value
            && text.typing() == Typing::Loose
        {
            let used = text.used().trim();
            let visited = match (used.parse::<u64>(), used.parse::<i64>(), used.parse::<f64>()) {
                (Ok(number), ..) => visitor.visit_u64(number),
                (_, Ok(number), _) => visitor.visit_i64(number),
                (.., Ok(number)) => visitor.visit_f64(number),
                _ => Err(de::Error::invalid_type(Unexpected::Str(""), &visitor)),
            };
            return visited.map_err(|error: ReadError| error.at(self.mark));
        }
        self.deserialize_any(visitor)
    }

    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., Some(number)) => visitor.visit_f64(number),
                _ => Err(de::Error::custom("this number is out of range")),
            },
            Value::Text(text) => visitor.visit_borrowed_str(text.used()),
            Value::List(elements) => visitor.visit_seq(Elements { elements, next: 0 }),
            Value::Map(members) => visitor.visit_map(Members { members, next: 0 }),
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.visit(visitor).map_err(|error| self.as_written(error).at(self.mark))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if let Value::Text(text) = &self.value
            && text.typing() == Typing::Loose
        {
            return match text.used().trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => visitor.visit_bool(true),
                "false" | "0" | "no" | "off" => visitor.visit_bool(false),
                _ => Err(de::Error::invalid_type(Unexpected::Str(""), &visitor)),
            }
            .map_err(|error: ReadError| error.at(self.mark));
        }
        self.deserialize_any(visitor)
    }

    numbers! { deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
    deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if let Value::Text(text) = &self.value
            && text.typing() == Typing::Loose
        {
            let parts = text.loose_parts().into_iter().map(BorrowedStrDeserializer::<ReadError>::new);
            return visitor.visit_seq(SeqDeserializer::new(parts)).map_err(|error| error.at(self.mark));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Text(text) if name == SECRET => {
                let parts =
                    [text.shown(), text.used()].into_iter().map(BorrowedStrDeserializer::<ReadError>::new);
                visitor.visit_seq(SeqDeserializer::new(parts))
            }
            _ if name == SECRET => self.visit(visitor),
            Value::List(_) if name == ONE_OR_MANY => self.visit(visitor),
            Value::Text(text) if name == ONE_OR_MANY && text.typing() == Typing::Loose => {
                self.deserialize_seq(visitor)
            }
            Value::Null | Value::Map(_) if name == ONE_OR_MANY => {
                Err(de::Error::invalid_type(self.unexpected(), &visitor))
            }
            _ if name == ONE_OR_MANY => visitor.visit_seq(Single(Some(self))),
            _ => visitor.visit_newtype_struct(self),
        }
        .map_err(|error| error.at(self.mark))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match &self.value {
            Value::Text(text) => visitor.visit_enum(text.used().into_deserializer()),
            _ => Err(de::Error::invalid_type(self.unexpected(), &"a string")),
        }
        .map_err(|error: ReadError| self.as_written(error).at(self.mark))
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier ignored_any
        i128 u128
    }
}

impl Node {
    /// The error with the text as it is written: the value of a variable may be a secret.
    fn as_written(&self, mut error: ReadError) -> ReadError {
        if let Value::Text(text) = &self.value
            && text.is_expanded()
            && !text.used().is_empty()
            && let ReadErrorKind::UnknownWord { word: found, .. } | ReadErrorKind::Other(found) =
                &mut error.kind
        {
            *found = found.replace(text.used(), text.shown());
        }
        error
    }

    pub(crate) fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(truth) => Unexpected::Bool(*truth),
            Value::Number(_) => Unexpected::Float(0.0),
            Value::Text(_) => Unexpected::Str(""),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }
}

struct Elements<'de> {
    elements: &'de [Node],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Elements<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some(element) = self.elements.get(self.next) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(element)
            .map(Some)
            .map_err(|error| error.at(element.mark).inside(PathStep::Index(self.next - 1)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len() - self.next)
    }
}

/// A single value in place of a list.
struct Single<'de>(Option<&'de Node>);

impl<'de> de::SeqAccess<'de> for Single<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.0.take().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Members<'de> {
    members: &'de [(MapKey, Node)],
    next: usize,
}

impl<'de> de::MapAccess<'de> for Members<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some((key, _)) = self.members.get(self.next) else { return Ok(None) };
        let name = BorrowedStrDeserializer::<ReadError>::new(&key.text);
        seed.deserialize(name)
            .map(Some)
            .map_err(|error| error.at(key.mark).inside(PathStep::Key(key.text.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let (key, node) = &self.members[self.next];
        self.next += 1;
        seed.deserialize(node).map_err(|error| error.at(node.mark).inside(PathStep::Key(key.text.clone())))
    }
}
