//! A cursor over text that is known to be JSON: one pass, no tree, and every position in the text is known.
//!
//! It never panics: on text that is not JSON it ends early and finds less.

use crate::scan::quote_or_backslash;
use std::borrow::Cow;
use std::ops::Range;

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
        while self.byte().is_some_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
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
            && let Some(length) = quote_or_backslash(&self.text.as_bytes()[start..])
            && let end = start + length
            && self.text.as_bytes()[end] == b'"'
        {
            self.at = end + 1;
            return Cow::Borrowed(self.text.get(start..end).unwrap_or_default());
        }
        let Range { start, end } = self.skip();
        decoded(self.text.get(start + 1..end.saturating_sub(1)).unwrap_or_default())
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
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at + 1);
                continue;
            }
            b'{' | b'[' if depth == limit => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    false
}

/// The end of the value that starts at `from`.
fn value_end(bytes: &[u8], from: usize) -> usize {
    match bytes.get(from) {
        Some(b'"') => string_end(bytes, from + 1),
        Some(b'{' | b'[') => nested_end(bytes, from + 1),
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' | b'}' | b']' | b'"');
            let rest = bytes.get(from..).unwrap_or_default();
            from + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

/// The end of the object or array whose first byte after the opening bracket is at `from`.
fn nested_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 1_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        // The braces differ in one bit from the brackets, and from nothing else.
        match (*byte, *byte | 0x20) {
            (b'"', _) => at = string_end(bytes, at),
            (_, b'{') => depth += 1,
            (_, b'}') => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    at
}

/// The end, after the closing quote, of a string whose first character is at `from`.
fn string_end(bytes: &[u8], mut from: usize) -> usize {
    while let Some(found) = bytes.get(from..).and_then(quote_or_backslash) {
        from += found + 1;
        if bytes[from - 1] == b'"' {
            return from;
        }
        // The character after a backslash is part of the string.
        from += 1;
    }
    bytes.len()
}

/// Decodes the escapes of a key or text.
fn decoded(spelled: &str) -> Cow<'_, str> {
    if !spelled.contains('\\') {
        return Cow::Borrowed(spelled);
    }
    match serde_json::from_str::<String>(&format!("\"{spelled}\"")) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Owned(decoded_lossily(spelled)),
    }
}

/// Decodes a text with unpaired surrogates: each becomes the replacement character.
fn decoded_lossily(spelled: &str) -> String {
    let mut whole = String::with_capacity(spelled.len());
    let mut rest = spelled;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        let lengths = [12, 6, 2].into_iter().filter_map(|length| rest.get(at..at + length));
        let read = |escape: &str| serde_json::from_str::<String>(&format!("\"{escape}\"")).ok();
        let one = lengths.clone().find_map(|escape| {
            let text = read(escape)?;
            (text.chars().count() == 1).then_some((escape.len(), text))
        });
        let half = if rest[at..].starts_with("\\u") { 6 } else { 2 };
        let (length, text) = one.unwrap_or((half, char::REPLACEMENT_CHARACTER.to_string()));
        whole.push_str(&text);
        rest = rest.get(at + length..).unwrap_or_default();
    }
    whole.push_str(rest);
    whole
}

/// The text without these ranges.
pub fn without(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for cut in cuts {
        out.push_str(text.get(from..cut.start.max(from)).unwrap_or_default());
        from = from.max(cut.end);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// The ranges to cut so that some entries of an object or array disappear, each with one comma.
pub fn cuts(entries: &[Range<usize>], mut is_removed: impl FnMut(usize) -> bool) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    let mut kept_before = false;
    for (index, entry) in entries.iter().enumerate() {
        if !is_removed(index) {
            kept_before = true;
        } else if kept_before {
            cuts.push(entries[index - 1].end..entry.end);
        } else {
            let end = entries.get(index + 1).map_or(entry.end, |next| next.start);
            cuts.push(entry.start..end);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unpaired_surrogates_become_replacement_characters() {
        let cases = [
            (r#""\u0061\n\ud83d\ude00""#, "a\n\u{1f600}"),
            (r#""\ud800\u0075ser\\""#, "\u{fffd}user\\"),
            (r#""a\udc00\ud800b\ud800""#, "a\u{fffd}\u{fffd}b\u{fffd}"),
        ];
        for (text, expected) in cases {
            assert_eq!(JsonCursor::new(text, 0).text(), expected, "{text}");
        }
    }

    #[test]
    fn entries_are_cut_with_one_comma_and_nothing_else_changes() {
        let text = r#" { "a" : 1 ,"b":[1, {"x":"}\""}], "c\u0041": null }"#;
        let cases = [
            (&["a"][..], r#" { "b":[1, {"x":"}\""}], "c\u0041": null }"#),
            (&["b"], r#" { "a" : 1, "c\u0041": null }"#),
            (&["cA"], r#" { "a" : 1 ,"b":[1, {"x":"}\""}] }"#),
            (&["a", "b"], r#" { "c\u0041": null }"#),
            (&["b", "cA"], r#" { "a" : 1 }"#),
            (&["a", "b", "cA"], r#" {  }"#),
            (&[], text),
        ];
        for (removed, expected) in cases {
            let spots = JsonCursor::new(text, 0).member_spans();
            let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
            let left = without(text, cuts(&places, |index| removed.contains(&&*spots[index].key)));
            assert_eq!(left, expected, "{removed:?}");
        }
    }

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
