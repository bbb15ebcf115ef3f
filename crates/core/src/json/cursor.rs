//! A cursor over text that is known to be JSON: one pass, no tree, and every position in the text is known.
//!
//! It never panics: on text that is not JSON it ends early and finds less.

use super::strings::decode_lossily;
use super::tokenizer::{TokenError, Tokenizer, is_space, plain_string_end, value_end};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kinds of JSON are the documentation")]
pub enum JsonKind {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

impl JsonKind {
    /// The kind with its article, for sentences.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }
}

/// A position in JSON text, before a value.
#[derive(Debug, Clone)]
pub struct JsonCursor<'a> {
    text: &'a str,
    at: usize,
}

/// One member of an object, with its positions in the text.
#[derive(Debug, Clone)]
pub struct MemberSpan<'a> {
    /// The decoded key.
    pub key: Cow<'a, str>,
    /// The range of the member, from its key's quote to its value's end.
    pub whole: Range<usize>,
    /// The range of its value.
    pub value: Range<usize>,
}

impl<'a> JsonCursor<'a> {
    /// A cursor before the value at `at`.
    pub fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// The cursor's position.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The text after the cursor.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        // Most texts have no white space here.
        if self.byte().is_some_and(|byte| byte > b' ') {
            return;
        }
        while self.byte().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// The kind of the next value.
    pub fn kind(&mut self) -> JsonKind {
        self.skip_space();
        match self.byte() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') | None => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// Reads the next value, a string, and returns it decoded.
    pub fn text(&mut self) -> Cow<'a, str> {
        self.skip_space();
        let start = self.at + 1;
        // Most strings have no escapes: their first quote is their last.
        if self.byte() == Some(b'"')
            && let Some(end) = plain_string_end(self.text.as_bytes(), start)
        {
            self.at = end + 1;
            return Cow::Borrowed(self.text.get(start..end).unwrap_or_default());
        }
        let Range { start, end } = self.skip();
        decode_lossily(self.text.get(start + 1..end.saturating_sub(1)).unwrap_or_default())
    }

    /// Skips the next value and returns its range.
    pub fn skip(&mut self) -> Range<usize> {
        self.skip_space();
        let from = self.at;
        self.at = value_end(self.text.as_bytes(), from);
        from..self.at
    }

    /// Visits the members of the next value, an object. `visit` may read the member's value.
    pub fn members<E>(
        &mut self,
        mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open();
        while self.more(b'}') {
            let key = self.text();
            self.pass(b':');
            let before = self.at;
            visit(self, key)?;
            if self.at == before {
                self.skip();
            }
            self.pass(b',');
        }
        Ok(())
    }

    /// Visits the elements of the next value, an array. `visit` may read the element.
    pub fn elements<E>(&mut self, mut visit: impl FnMut(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.open();
        while self.more(b']') {
            let before = self.at;
            visit(self)?;
            if self.at == before {
                self.skip();
            }
            self.pass(b',');
        }
        Ok(())
    }

    /// Visits the members of the next value with their positions; none if it is not an object.
    #[inline]
    pub fn each_member(&mut self, mut visit: impl FnMut(MemberSpan<'a>)) {
        if self.kind() != JsonKind::Object {
            return;
        }
        self.open();
        while self.more(b'}') {
            let from = self.at;
            let key = self.text();
            self.pass(b':');
            let value = self.skip();
            visit(MemberSpan { key, whole: from..value.end, value });
            self.pass(b',');
        }
    }

    /// The members of the next value, an object.
    pub fn member_spans(&mut self) -> Vec<MemberSpan<'a>> {
        let mut spots = Vec::new();
        self.each_member(|spot| spots.push(spot));
        spots
    }

    /// The ranges of the elements of the next value, an array.
    pub fn element_ranges(&mut self) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        if self.kind() != JsonKind::Array {
            return places;
        }
        self.open();
        while self.more(b']') {
            places.push(self.skip());
            self.pass(b',');
        }
        places
    }

    fn open(&mut self) {
        self.skip_space();
        self.at = (self.at + 1).min(self.text.len());
    }

    /// Whether another entry follows; skips the closing bracket if none does.
    fn more(&mut self, end: u8) -> bool {
        self.skip_space();
        match self.byte() {
            Some(byte) if byte == end => {
                self.at += 1;
                false
            }
            // Not JSON: nothing more is found.
            Some(b'}' | b']' | b',' | b':') | None => {
                self.at = self.text.len();
                false
            }
            Some(_) => true,
        }
    }

    fn pass(&mut self, expected: u8) {
        self.skip_space();
        if self.byte() == Some(expected) {
            self.at += 1;
        }
    }
}

/// Whether JSON text nests deeper than `limit`.
pub fn nests_deeper(text: &str, limit: usize) -> bool {
    // `{` and `[` differ in one bit from each other and from nothing else. Most texts have too few of them.
    if text.bytes().filter(|byte| byte | 0x20 == b'{').count() <= limit {
        return false;
    }
    let read = Tokenizer::read_all(text.as_bytes(), limit, |_| ControlFlow::Continue(()));
    matches!(read, Err(TokenError::TooDeep(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let cases = [
            ("[[]]", 2, false),
            ("[[]]", 1, true),
            (r#"{"a":["[[[\"[[[[",{}]}"#, 3, false),
            ("[{},{},{},{}]", 2, false),
        ];
        for (text, limit, expected) in cases {
            assert_eq!(nests_deeper(text, limit), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_finds_the_members_that_serde_json_finds(keys in prop::collection::btree_set("[a-c\"\\\\é]{0,3}", 0..6), value in "[a-c\"\\\\{}\\[\\],:]{0,8}") {
            let object: serde_json::Map<String, serde_json::Value> = keys.iter()
                .map(|key| (key.clone(), serde_json::json!([value, { key: [1.5, value] }]))).collect();
            let text = serde_json::to_string_pretty(&object).expect("JSON");
            let spots = JsonCursor::new(&text, 0).member_spans();
            prop_assert_eq!(spots.len(), object.len());
            for (spot, (key, value)) in spots.iter().zip(&object) {
                prop_assert_eq!(&spot.key, key);
                let found: serde_json::Value = serde_json::from_str(&text[spot.value.clone()]).expect("JSON");
                prop_assert_eq!(&found, value);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\]\",:\\\\au0-9é ]{0,40}") {
            let _ = JsonCursor::new(&text, 0).member_spans();
            let _ = JsonCursor::new(&text, 0).element_ranges();
            let _ = JsonCursor::new(&text, 0).text();
        }
    }
}
