//! The strict look at what comes from outside: no key twice in one object, no deep nesting, JSON to the last byte.
//!
//! A rule that reads one of two equal keys while a server reads the other can be walked round, so a text with
//! duplicate keys is refused before anybody reads it. Texts inside of texts (arguments that a model wrote as a
//! string) are looked at in the same way.

use super::{Token, TokenError, TokenKind, Tokenizer};
use crate::json::{JsonError, RawJson};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// How many keys are compared pairwise before a set pays off.
const FEW_KEYS: usize = 16;

/// Why a text does not stand the strict look.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// It is not JSON, not UTF-8, or too deep.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A key stands twice in one object.
    #[error("the key {0:?} stands twice in one object")]
    Twice(String),
    /// Readers differ in what they make of half a character, and with it in which key this is.
    #[error("a key holds an escape that stands for no character")]
    HalfCharacter,
}

impl From<StrictError> for JsonError {
    fn from(error: StrictError) -> Self {
        match error {
            // It already says so.
            StrictError::Token(TokenError::Syntax { what, at }) => Self(format!("{what} at byte {at}")),
            other => Self(other.to_string()),
        }
    }
}

/// Checks a whole text: JSON, no key twice in one object, at most `max_depth` deep.
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

/// Reads a text from outside as one JSON value, strictly.
pub fn parse_strictly(text: impl Into<bytes::Bytes>, max_depth: usize) -> Result<RawJson, JsonError> {
    let text = text.into();
    check_strictly(&text, max_depth)?;
    RawJson::parse(text)
}

/// The keys of all open objects, outermost first.
struct OpenKeys<'a> {
    /// For each open object, where its keys start among all.
    from: Vec<usize>,
    keys: Vec<Cow<'a, str>>,
    /// Sets of keys of objects that have many, with the number of open objects.
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

/// A key as readers see it: two spellings of one key are the same key. `None` if it is not valid UTF-8.
fn decoded<'a>(key: &Token<'_>, text: &'a [u8]) -> Option<Cow<'a, str>> {
    let spelled = std::str::from_utf8(text.get(key.range.clone())?).ok()?;
    if key.escaped {
        return serde_json::from_str::<String>(spelled).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(spelled.get(1..spelled.len() - 1)?))
}
