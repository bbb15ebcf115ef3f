//! Raw JSON: text that is known to be JSON and stays text until a stage must read it.
//!
//! Nothing here serialises a value again: key order, number spelling, escapes and unknown members stay unchanged.

use super::cursor::JsonCursor;
use super::strings;
use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The text of one JSON value. Cloning is cheap and shares the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(ByteString);

/// The text is not JSON, or not the required kind of JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON: {0}")]
pub struct JsonError(pub String);

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl RawJson {
    /// Checks that `text` is one JSON value.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, JsonError> {
        let text = as_text(text.into())?;
        let mut deserializer = serde_json::Deserializer::from_str(&text);
        let value = <&RawValue>::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(Self::part_of(&text, value))
    }

    /// Shares the part of `whole` that `part` points into.
    ///
    /// `part` must lie inside `whole`, which holds for any value borrowed while reading it.
    pub fn part_of(whole: &ByteString, part: &RawValue) -> Self {
        Self(whole.slice_ref(part.get()))
    }

    /// Shares a part of `whole` that the caller has parsed and knows to be JSON.
    pub fn known_part(whole: &ByteString, part: &str) -> Self {
        debug_assert!(serde_json::from_str::<IgnoredAny>(part).is_ok(), "not JSON: {part}");
        Self(whole.slice_ref(part))
    }

    /// Shares the part of this value that `part` points into. `part` must lie inside this value.
    pub fn part(&self, part: &RawValue) -> Self {
        Self::part_of(&self.0, part)
    }

    /// Takes text that the caller has written itself and knows to be JSON.
    pub fn trusted(text: impl Into<Bytes>) -> Self {
        let bytes = text.into();
        debug_assert!(serde_json::from_slice::<IgnoredAny>(&bytes).is_ok(), "not JSON: {bytes:?}");
        Self::written(bytes)
    }

    /// Takes text that was written here from strings and other JSON.
    pub(super) fn written(bytes: Bytes) -> Self {
        Self(as_text(bytes).unwrap_or_else(|_| ByteString::from_static("null")))
    }

    /// Serialises a value that the gateway makes; not for values that it passes on.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => Self(text.into()),
            // Only maps with non-string keys and failing Serialize impls get here; the gateway has neither.
            Err(_) => Self::null(),
        }
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// `null`.
    pub fn null() -> Self {
        Self(ByteString::from_static("null"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The shared buffer.
    pub fn bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// Reads the value into a type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        Ok(serde_json::from_str(&self.0)?)
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_bytes().first() == Some(&b'{')
    }

    /// The string, if the value is one.
    pub fn string(&self) -> Option<Cow<'_, str>> {
        let inner = self.0.strip_prefix('"')?.strip_suffix('"')?;
        strings::decode(inner).ok()
    }

    /// The members of an object in order; an error if it is not an object.
    pub fn members(&self) -> Result<Vec<Member>, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_str(&self.0);
        let found = deserializer.deserialize_map(MembersVisitor(&self.0))?;
        Ok(found)
    }

    /// The value of one member of an object. Of duplicates the last one counts, as in most JSON parsers.
    pub fn member(&self, key: &str) -> Option<RawJson> {
        if !self.is_object() {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_str(&self.0);
        deserializer.deserialize_map(OneMember { whole: &self.0, key }).ok().flatten()
    }

    /// The texts of these members of an object, in one pass and without a copy. Of duplicates the last one counts,
    /// `null` counts as absent, and nothing is found if the value is not an object.
    pub fn pick<const N: usize>(&self, keys: [&str; N]) -> [Option<&str>; N] {
        let mut found = [None; N];
        JsonCursor::new(&self.0, 0).each_member(|spot| {
            if let Some(index) = keys.iter().position(|key| *key == spot.key) {
                found[index] = self.0.get(spot.value).filter(|value| *value != "null");
            }
        });
        found
    }

    /// Whether an object has a member of this name, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        let [found] = self.holds([key]);
        found
    }

    /// For each of these keys whether an object has a member of that name, in one pass and without a copy.
    pub fn holds<const N: usize>(&self, keys: [&str; N]) -> [bool; N] {
        let mut found = [false; N];
        JsonCursor::new(&self.0, 0).each_member(|spot| {
            if let Some(index) = keys.iter().position(|key| *key == spot.key) {
                found[index] = true;
            }
        });
        found
    }

    /// Shares a part of this value that is itself a value, such as one found by [`pick`](Self::pick) or a cursor.
    pub fn share(&self, part: &str) -> Self {
        Self(self.0.slice_ref(part))
    }

    /// The value at a path of member names.
    pub fn at(&self, path: &[&str]) -> Option<RawJson> {
        let (first, rest) = path.split_first()?;
        let found = self.member(first)?;
        if rest.is_empty() { Some(found) } else { found.at(rest) }
    }

    /// The elements of an array; an error if it is not an array.
    pub fn elements(&self) -> Result<Vec<RawJson>, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_str(&self.0);
        Ok(deserializer.deserialize_seq(ElementsVisitor(&self.0))?)
    }

    /// A copy that does not share a buffer with a larger text, so that the larger one can be freed.
    pub fn detached(&self) -> Self {
        Self(ByteString::from(&*self.0))
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(ByteString::from(Box::<str>::from(raw))))
    }
}

/// One member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The decoded key.
    pub key: String,
    /// The value's text.
    pub value: RawJson,
}

fn as_text(bytes: Bytes) -> Result<ByteString, JsonError> {
    ByteString::try_from(bytes).map_err(|_| JsonError("it is not UTF-8".into()))
}

struct MembersVisitor<'a>(&'a ByteString);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = Vec<Member>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Member>, A::Error> {
        let mut members = Vec::new();
        while let Some(ObjectKey(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            members.push(Member { key: key.into_owned(), value: RawJson::part_of(self.0, value) });
        }
        Ok(members)
    }
}

struct OneMember<'a> {
    whole: &'a ByteString,
    key: &'a str,
}

impl<'de> Visitor<'de> for OneMember<'_> {
    type Value = Option<RawJson>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(ObjectKey(key)) = map.next_key()? {
            if key == self.key {
                let value: &RawValue = map.next_value()?;
                found = Some(RawJson::part_of(self.whole, value));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct ElementsVisitor<'a>(&'a ByteString);

impl<'de> Visitor<'de> for ElementsVisitor<'_> {
    type Value = Vec<RawJson>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(value) = seq.next_element::<&RawValue>()? {
            elements.push(RawJson::part_of(self.0, value));
        }
        Ok(elements)
    }
}

#[derive(Deserialize)]
struct ObjectKey<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).expect("test JSON")
    }

    #[test]
    fn parts_keep_their_spelling() {
        let value = json(r#" {"z": 1.50, "a":12345678901234567890123, "\u006b":"\u00e9"} "#);
        assert_eq!(value.member("z").expect("z").as_str(), "1.50");
        assert_eq!(value.member("a").expect("a").as_str(), "12345678901234567890123");
        assert_eq!(value.member("k").expect("k").as_str(), r#""\u00e9""#);
        assert_eq!(value.member("missing"), None);
        assert!(value.has("k") && !value.has("missing") && json(r#"{"a":null}"#).has("a"));
    }

    #[test]
    fn trailing_text_and_incomplete_values_are_refused() {
        for bad in ["", "{", "1 2", r#"{"a":}"#, "nul", "\u{feff}{}"] {
            assert!(RawJson::parse(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_objects_have_members() {
        assert!(json("[1]").members().is_err());
        assert_eq!(json("[1,[2]]").elements().expect("array").len(), 2);
        assert!(json("{}").elements().is_err());
    }
}
