//! Compares every reader of JSON text with serde_json, on one text.

use crate::mutate::{Random, chunks};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{ControlFlow, Range};
use toolbooth_core::json::{
    ANY_DEPTH, Edit, JsonCursor, JsonDialect, JsonKind, RawJson, Token, TokenKind, Tokenizer, check_strictly,
    edit_object, nests_deeper,
};
use toolbooth_core::secret::KnownSecrets;

/// Whether serde_json accepts a text. Like the gateway, it does not convert numbers or decode strings here.
pub fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Checks that all readers agree on a text.
pub fn check(text: &[u8], random: &mut Random) {
    let tokens = tokens(JsonDialect::Plain, [text]);
    assert_eq!(tokens.is_some(), is_json(text), "the tokenizer and serde_json");
    assert_eq!(self::tokens(JsonDialect::Plain, chunks(text, random)), tokens, "in chunks");
    let commented = self::tokens(JsonDialect::Commented, [text]);
    assert_eq!(
        self::tokens(JsonDialect::Commented, chunks(text, random)),
        commented,
        "with comments, in chunks"
    );
    let raw = RawJson::parse(text.to_vec());
    assert_eq!(raw.is_ok(), tokens.is_some(), "RawJson");
    let (Some(tokens), Ok(raw)) = (tokens, raw) else { return };
    assert_eq!(commented.as_ref(), Some(&tokens), "comments are optional");
    assert_eq!(
        self::tokens(JsonDialect::Commented, [&*with_comments(text, &tokens, random)]).map(kinds),
        Some(kinds(tokens.clone()))
    );
    let text = std::str::from_utf8(text).expect("JSON is UTF-8");
    check_positions(text, &tokens);
    let depth = tokens.iter().map(|token| token.depth + usize::from(token.is_open())).max().unwrap_or(0);
    let limit = random.below(6);
    assert_eq!(nests_deeper(text, limit), depth > limit, "depth {depth}, limit {limit}");
    // Numbers too large for a double, halves of surrogate pairs and deep values have no `Value`: see `differences`.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    assert_eq!(read(&mut JsonCursor::new(text, 0)), value, "the cursor");
    assert_eq!(
        check_strictly(text.as_bytes(), ANY_DEPTH).is_ok(),
        has_distinct_keys(text),
        "the strict check"
    );
    check_raw(&raw, &value);
    check_masking(&raw, &value);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundToken {
    kind: TokenKind,
    depth: usize,
    range: Range<usize>,
    spelled: Option<Vec<u8>>,
    escaped: bool,
}

impl FoundToken {
    fn is_open(&self) -> bool {
        matches!(self.kind, TokenKind::ObjectStart | TokenKind::ArrayStart)
    }

    fn is_end(&self) -> bool {
        matches!(self.kind, TokenKind::ObjectEnd | TokenKind::ArrayEnd)
    }
}

fn kinds(tokens: Vec<FoundToken>) -> Vec<(TokenKind, usize, Option<Vec<u8>>)> {
    tokens.into_iter().map(|token| (token.kind, token.depth, token.spelled)).collect()
}

/// The tokens of a text in chunks; `None` if it is refused.
pub fn tokens<'a>(
    dialect: JsonDialect,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Vec<FoundToken>> {
    let mut found = Vec::new();
    let mut each = |token: Token<'_>| {
        let Token { kind, depth, range, spelled, escaped } = token;
        found.push(FoundToken { kind, depth, range, spelled: spelled.map(<[u8]>::to_vec), escaped });
        ControlFlow::Continue(())
    };
    let mut tokenizer = Tokenizer::in_dialect(dialect, ANY_DEPTH);
    for chunk in chunks {
        tokenizer.push(chunk, &mut each).ok()?;
    }
    tokenizer.finish(&mut each).ok()?;
    Some(found)
}

/// The text with comments between its tokens, and a comma before some closing brackets.
fn with_comments(text: &[u8], tokens: &[FoundToken], random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0;
    let mut may_have_comma = false;
    for token in tokens {
        out.extend_from_slice(&text[last..token.range.start]);
        if token.is_end() && may_have_comma && random.below(2) == 0 {
            out.push(b',');
        }
        let comments: [&[u8]; 6] = [b"", b"", b"/**/", b"/* \" * / ** */", b"// \" /* */ {\n", b"/***/ //\n"];
        out.extend_from_slice(random.pick(&comments));
        out.extend_from_slice(&text[token.range.clone()]);
        last = token.range.end;
        // A number must not be followed by a digit of the next text, which a comment separates.
        may_have_comma = !token.is_open() && token.kind != TokenKind::Key;
    }
    out.extend_from_slice(&text[last..]);
    out
}

/// Checks that a cursor at the start of each value finds the end that the tokenizer finds.
fn check_positions(text: &str, tokens: &[FoundToken]) {
    let mut open: Vec<usize> = Vec::new();
    for token in tokens {
        let start = match token.kind {
            TokenKind::ObjectStart | TokenKind::ArrayStart => {
                open.push(token.range.start);
                continue;
            }
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => open.pop().expect("an opening bracket"),
            _ => token.range.start,
        };
        // Skipping each of many nested values takes quadratic time.
        if token.depth < 64 {
            assert_eq!(JsonCursor::new(text, start).skip(), start..token.range.end);
        }
    }
}

/// Reads a value with a cursor.
fn read(cursor: &mut JsonCursor<'_>) -> Value {
    match cursor.kind() {
        JsonKind::Object => {
            let mut members = Map::new();
            let visit = |cursor: &mut JsonCursor<'_>, key: std::borrow::Cow<'_, str>| {
                members.insert(key.into_owned(), read(cursor));
                Ok::<(), fmt::Error>(())
            };
            cursor.members(visit).expect("members");
            Value::Object(members)
        }
        JsonKind::Array => {
            let mut elements = Vec::new();
            let visit = |cursor: &mut JsonCursor<'_>| {
                elements.push(read(cursor));
                Ok::<(), fmt::Error>(())
            };
            cursor.elements(visit).expect("elements");
            Value::Array(elements)
        }
        JsonKind::Text => Value::String(cursor.text().into_owned()),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => {
            let rest = cursor.rest();
            let length = cursor.skip().len();
            serde_json::from_str(&rest[..length]).expect("a scalar")
        }
    }
}

/// Checks the methods of `RawJson` and the editing of objects.
fn check_raw(raw: &RawJson, value: &Value) {
    let parsed = |raw: &RawJson| raw.read::<Value>().expect("JSON");
    assert_eq!(raw.string().as_deref(), value.as_str());
    assert_eq!(raw.is_object(), value.is_object());
    let elements = raw.elements().ok().map(|elements| elements.iter().map(parsed).collect::<Vec<_>>());
    assert_eq!(elements.as_ref(), value.as_array());
    let members = raw.members().ok().map(|members| {
        members.iter().map(|member| (member.key.clone(), parsed(&member.value))).collect::<Map<_, _>>()
    });
    assert_eq!(members.as_ref(), value.as_object());
    for key in ["a", "b", "id", "é", "\u{fffd}", ""] {
        let found = value.as_object().and_then(|members| members.get(key));
        assert_eq!(raw.member(key).as_ref().map(parsed).as_ref(), found, "member {key:?}");
        assert_eq!(raw.has(key), found.is_some(), "has {key:?}");
        let [picked] = raw.pick([key]);
        let picked = picked.map(|text| parsed(&raw.share(text)));
        assert_eq!(picked.as_ref(), found.filter(|value| !value.is_null()), "pick {key:?}");
    }
    if let Some(members) = value.as_object() {
        let edited =
            edit_object(raw, |key, _| if key == "a" { Edit::Drop } else { Edit::Keep }).expect("an object");
        let mut expected = members.clone();
        expected.shift_remove("a");
        assert_eq!(parsed(&edited), Value::Object(expected));
    }
}

/// Checks that a secret is masked in every string, and only there.
fn check_masking(raw: &RawJson, value: &Value) {
    let secrets = KnownSecrets::new(["correct-horse"]);
    let mut expected = value.clone();
    // Strings under these keys may be files, which are left as they are.
    let files = ["data", "blob", "b64"];
    if files.iter().any(|key| raw.as_str().contains(key)) {
        return;
    }
    mask(&mut expected, &secrets);
    let masked = secrets.mask_json(raw).map_or_else(|| value.clone(), |masked| masked.read().expect("JSON"));
    assert_eq!(masked, expected, "masking");
}

fn mask(value: &mut Value, secrets: &KnownSecrets) {
    match value {
        Value::String(text) => *text = secrets.mask(text).into_owned(),
        Value::Array(elements) => elements.iter_mut().for_each(|element| mask(element, secrets)),
        Value::Object(members) => members.values_mut().for_each(|member| mask(member, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether no object of a text has a key twice, by serde_json.
fn has_distinct_keys(text: &str) -> bool {
    DistinctKeysVisitor.deserialize(&mut serde_json::Deserializer::from_str(text)).is_ok()
}

#[derive(Clone, Copy)]
struct DistinctKeysVisitor;

impl<'de> DeserializeSeed<'de> for DistinctKeysVisitor {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DistinctKeysVisitor {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(self)?;
            if !keys.insert(key) {
                return Err(A::Error::custom("twice"));
            }
        }
        Ok(())
    }
}
