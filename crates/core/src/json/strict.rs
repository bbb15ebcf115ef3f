//! Strict checks of text from outside: no duplicate keys in an object, limited nesting, JSON to the last byte.
//!
//! If a policy reads one of two equal keys and a server the other, the policy can be bypassed. So a text with duplicate
//! keys is refused before it is used. Texts inside of texts (arguments that a model wrote as a string) are checked in
//! the same way.

use super::raw::{JsonError, RawJson};
use super::strings::decode;
use super::tokenizer::{Token, TokenError, TokenKind, Tokenizer};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Number of keys up to which a linear search is faster than a set.
const FEW_KEYS: usize = 16;

/// Errors of the strict check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// The text is not JSON, not UTF-8, or nests too deep.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A key appears twice in one object.
    #[error("the key {0:?} appears twice in one object")]
    Twice(String),
    /// A key has an unpaired surrogate. Parsers decode it differently, so they may disagree on the key.
    #[error("a key has an escape that is not a valid character")]
    HalfCharacter,
}

impl From<StrictError> for JsonError {
    fn from(error: StrictError) -> Self {
        match error {
            // `JsonError` already says "not valid JSON".
            StrictError::Token(TokenError::Syntax { fault, at, .. }) => Self(format!("{fault} at byte {at}")),
            other => Self(other.to_string()),
        }
    }
}

/// Checks a whole text: JSON, no duplicate keys in an object, at most `max_depth` deep.
pub fn check_strictly(text: &[u8], max_depth: usize) -> Result<(), StrictError> {
    let mut keys = OpenKeys { from: Vec::with_capacity(8), keys: Vec::with_capacity(16), many: Vec::new() };
    let mut wrong = None;
    let read = Tokenizer::read_all(text, max_depth, |token| match keys.take(&token, text) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            wrong = Some(error);
            ControlFlow::Break(())
        }
    });
    match (wrong, read) {
        (Some(error), _) => Err(error),
        (None, read) => Ok(read?),
    }
}

/// Checks a text from outside strictly and returns it as one JSON value.
pub fn parse_strictly(text: impl Into<bytes::Bytes>, max_depth: usize) -> Result<RawJson, JsonError> {
    let text = text.into();
    check_strictly(&text, max_depth)?;
    RawJson::parse(text)
}

/// The keys of all open objects, outermost first.
struct OpenKeys<'a> {
    /// For each open object the position of its first key.
    from: Vec<usize>,
    keys: Vec<Cow<'a, str>>,
    /// Sets of keys of objects that have many, each with the number of open objects.
    many: Vec<(usize, HashSet<Cow<'a, str>>)>,
}

impl<'a> OpenKeys<'a> {
    fn take(&mut self, token: &Token<'_>, text: &'a [u8]) -> Result<(), StrictError> {
        match token.kind {
            TokenKind::ObjectStart => self.from.push(self.keys.len()),
            TokenKind::ObjectEnd => self.close(),
            TokenKind::Key => {
                let key = decoded(token, text).ok_or(StrictError::HalfCharacter)?;
                return self.add(key);
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        if self.many.last().is_some_and(|(of, _)| *of == self.from.len()) {
            self.many.pop();
        }
        if let Some(from) = self.from.pop() {
            self.keys.truncate(from);
        }
    }

    fn add(&mut self, key: Cow<'a, str>) -> Result<(), StrictError> {
        let depth = self.from.len();
        let from = self.from.last().copied().unwrap_or(0);
        let twice = |key: &str| StrictError::Twice(key.chars().take(64).collect());
        if let Some((of, set)) = self.many.last_mut()
            && *of == depth
        {
            if set.contains(&key) {
                return Err(twice(&key));
            }
            set.insert(key);
            return Ok(());
        }
        if self.keys[from..].contains(&key) {
            return Err(twice(&key));
        }
        self.keys.push(key);
        if self.keys.len() - from > FEW_KEYS {
            self.many.push((depth, self.keys.drain(from..).collect()));
        }
        Ok(())
    }
}

/// A key decoded, so that two spellings of one key are equal. `None` if it is not valid text.
fn decoded<'a>(key: &Token<'_>, text: &'a [u8]) -> Option<Cow<'a, str>> {
    let inside = std::str::from_utf8(text.get(key.range.start + 1..key.range.end - 1)?).ok()?;
    if key.escaped { decode(inside).ok() } else { Some(Cow::Borrowed(inside)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strict_check_refuses_texts_that_parsers_read_differently() {
        let many: String = (0..40).map(|n| format!("\"k{n}\":{{\"k{n}\":1}},")).collect();
        let cases = [
            (r#"{"a":1,"b":{"a":1}}"#.to_owned(), true),
            (r#"{"a":1,"\u0061":2}"#.to_owned(), false),
            (r#"[{"x":[{"a":{},"b":[],"a":2}]}]"#.to_owned(), false),
            (r#"{"\ud800a":1}"#.to_owned(), false),
            (r#"{"a":"\ud800"}"#.to_owned(), true),
            (format!("{{{many}\"k3\":2}}"), false),
            (format!("{{{many}\"z\":{{\"k3\":1}}}}"), true),
            (format!("[{{{many}\"z\":2}},{{{many}\"z\":2,\"z\":3}}]"), false),
            ("[[[[[]]]]]".to_owned(), false),
            ("{\"a\":1".to_owned(), false),
        ];
        for (text, expected) in cases {
            assert_eq!(check_strictly(text.as_bytes(), 4).is_ok(), expected, "{text}");
        }
    }
}
