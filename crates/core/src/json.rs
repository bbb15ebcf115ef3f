//! Raw JSON: text that is known to be JSON and stays text until a stage must look inside.
//!
//! Nothing here re-serialises a value it was given: key order, number spelling, escapes and
//! unknown members come out as they went in.

use bytes::{Bytes, BytesMut};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The text of one JSON value. Cloning is cheap and shares the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

/// The text was not JSON, or not the kind of JSON that was needed.
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
        let bytes = text.into();
        let trimmed = {
            let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
            let value = <&RawValue>::deserialize(&mut deserializer)?;
            deserializer.end()?;
            bytes.slice_ref(value.get().as_bytes())
        };
        Ok(Self(trimmed))
    }

    /// Shares the part of `whole` that `part` points into.
    ///
    /// `part` must lie inside `whole`, which is so for any value borrowed while reading it.
    pub fn part_of(whole: &Bytes, part: &RawValue) -> Self {
        Self(whole.slice_ref(part.get().as_bytes()))
    }

    /// Shares the part of `whole` that `part` points into and that is known to be one value of it.
    pub(crate) fn trusted_part(whole: &Bytes, part: &str) -> Self {
        Self(whole.slice_ref(part.as_bytes()))
    }

    /// Takes text that the caller has made itself and knows to be JSON.
    pub fn trusted(text: impl Into<Bytes>) -> Self {
        let bytes = text.into();
        debug_assert!(serde_json::from_slice::<IgnoredAny>(&bytes).is_ok(), "not JSON: {bytes:?}");
        Self(bytes)
    }

    /// Writes any serialisable value; for values the gateway makes, never for ones it passes on.
    pub fn from_value(value: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(value) {
            Ok(text) => Self(text.into()),
            // Only maps with non-string keys and failing Serialize impls get here: neither is ours.
            Err(_) => Self(Bytes::from_static(b"null")),
        }
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// `null`.
    pub fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Every constructor checked or made UTF-8.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The shared buffer.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Reads the value into a type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        Ok(serde_json::from_slice(&self.0)?)
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// The string, if the value is one.
    pub fn string(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        (self.0.first() == Some(&b'"')).then(|| self.read::<Text<'_>>().ok().map(|t| t.0)).flatten()
    }

    /// The members of an object in their order; an error if it is no object.
    pub fn members(&self) -> Result<Vec<Member>, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.0);
        let found = deserializer.deserialize_map(MembersVisitor(&self.0))?;
        Ok(found)
    }

    /// The value of one member of an object: the last one of that name, as JSON readers take it.
    pub fn member(&self, key: &str) -> Option<RawJson> {
        if !self.is_object() {
            return None;
        }
        let mut deserializer = serde_json::Deserializer::from_slice(&self.0);
        deserializer.deserialize_map(OneMember { whole: &self.0, key }).ok().flatten()
    }

    /// Looks a path of member names up.
    pub fn at(&self, path: &[&str]) -> Option<RawJson> {
        let (first, rest) = path.split_first()?;
        let found = self.member(first)?;
        if rest.is_empty() { Some(found) } else { found.at(rest) }
    }

    /// The elements of an array; an error if it is no array.
    pub fn elements(&self) -> Result<Vec<RawJson>, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_slice(&self.0);
        Ok(deserializer.deserialize_seq(ElementsVisitor(&self.0))?)
    }

    /// A copy that shares no buffer with a larger text, so that the larger one can be freed.
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
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
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(Box::<str>::from(raw).into_string())))
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

struct MembersVisitor<'a>(&'a Bytes);

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = Vec<Member>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Member>, A::Error> {
        let mut members = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            members.push(Member { key: key.into_owned(), value: RawJson::part_of(self.0, value) });
        }
        Ok(members)
    }
}

struct OneMember<'a> {
    whole: &'a Bytes,
    key: &'a str,
}

impl<'de> Visitor<'de> for OneMember<'_> {
    type Value = Option<RawJson>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Key(key)) = map.next_key()? {
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

struct ElementsVisitor<'a>(&'a Bytes);

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
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes an object member by member, values as text.
#[derive(Debug)]
pub struct ObjectWriter {
    out: BytesMut,
    empty: bool,
}

impl Default for ObjectWriter {
    fn default() -> Self {
        Self::with_capacity(128)
    }
}

impl ObjectWriter {
    /// Starts an object, with room for `capacity` bytes of text.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut out = BytesMut::with_capacity(capacity);
        out.extend_from_slice(b"{");
        Self { out, empty: true }
    }

    /// Writes one member.
    pub fn raw(&mut self, key: &str, value: &RawJson) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// Writes one member with a string for value.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        write_string(&mut self.out, value);
        self
    }

    /// Ends the object.
    pub fn finish(mut self) -> RawJson {
        self.out.extend_from_slice(b"}");
        RawJson(self.out.freeze())
    }

    fn key(&mut self, key: &str) {
        if !self.empty {
            self.out.extend_from_slice(b",");
        }
        self.empty = false;
        write_string(&mut self.out, key);
        self.out.extend_from_slice(b":");
    }
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_string(out: &mut BytesMut, text: &str) {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        out.reserve(text.len() + 2);
        out.extend_from_slice(b"\"");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\"");
    } else {
        out.extend_from_slice(RawJson::from_value(text).as_bytes());
    }
}

/// What becomes of one member while an object is edited.
#[derive(Debug)]
pub enum Edit {
    /// It stays as it is.
    Keep,
    /// It goes.
    Drop,
    /// It gets another value, in the same place.
    Replace(RawJson),
}

/// Rewrites some members of an object and leaves all others, and their order, untouched.
pub fn edit_object(
    object: &RawJson,
    mut decide: impl FnMut(&str, &RawJson) -> Edit,
) -> Result<RawJson, JsonError> {
    let mut writer = ObjectWriter::with_capacity(object.as_bytes().len() + 64);
    for Member { key, value } in object.members()? {
        match decide(&key, &value) {
            Edit::Keep => writer.raw(&key, &value),
            Edit::Drop => &mut writer,
            Edit::Replace(other) => writer.raw(&key, &other),
        };
    }
    Ok(writer.finish())
}

/// Sets members of an object: in place where the key is there, else at the end.
pub fn with_members(object: &RawJson, set: &[(&str, RawJson)]) -> Result<RawJson, JsonError> {
    let mut writer = ObjectWriter::with_capacity(object.as_bytes().len() + 64);
    let members = object.members()?;
    for Member { key, value } in &members {
        let value = set.iter().find(|(name, _)| name == key).map_or(value, |(_, other)| other);
        writer.raw(key, value);
    }
    for (name, value) in set {
        if !members.iter().any(|member| member.key == *name) {
            writer.raw(name, value);
        }
    }
    Ok(writer.finish())
}

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
    }

    #[test]
    fn editing_touches_only_what_it_names() {
        let value = json(r#"{"b":1e2,"name":"x","c":[1, 2]}"#);
        let edited = edit_object(&value, |key, _| match key {
            "name" => Edit::Replace(json(r#""y""#)),
            "b" => Edit::Drop,
            _ => Edit::Keep,
        });
        assert_eq!(edited.expect("object").as_str(), r#"{"name":"y","c":[1, 2]}"#);
        let set = with_members(&value, &[("name", json("2")), ("new", json("3"))]);
        assert_eq!(set.expect("object").as_str(), r#"{"b":1e2,"name":2,"c":[1, 2],"new":3}"#);
    }

    #[test]
    fn trailing_text_and_half_values_are_refused() {
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
