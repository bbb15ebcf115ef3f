//! Writes JSON text: objects member by member, strings with their escapes.

use super::raw::RawJson;
use super::tokenizer::special;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// Writes an object member by member, with values as text.
#[derive(Debug)]
pub struct ObjectWriter {
    out: Vec<u8>,
    empty: bool,
}

impl Default for ObjectWriter {
    fn default() -> Self {
        Self::with_capacity(128)
    }
}

impl ObjectWriter {
    /// Starts an object, with capacity for `capacity` bytes of text.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes a member.
    pub fn raw(&mut self, key: &str, value: &RawJson) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// Writes a member whose value is a list.
    pub fn list(&mut self, key: &str, values: &[RawJson]) -> &mut Self {
        self.key(key);
        self.out.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(value.as_bytes());
        }
        self.out.push(b']');
        self
    }

    /// Writes a member whose value is a string.
    pub fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        push_string(&mut self.out, value);
        self
    }

    /// Writes a member whose value is a number.
    pub fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self
    }

    /// Writes a member whose value is an object.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key);
        self.out.push(b'{');
        self.empty = true;
        fill(self);
        self.out.push(b'}');
        self.empty = false;
        self
    }

    /// Ends the object.
    pub fn finish(self) -> RawJson {
        // Everything written came from strings.
        RawJson::written(self.end())
    }

    /// Ends the object and returns its text as bytes.
    pub fn end(mut self) -> Bytes {
        self.out.push(b'}');
        self.out.into()
    }

    /// Writes the value of a member whose start was copied.
    pub(super) fn value(&mut self, value: &RawJson) {
        self.out.extend_from_slice(value.as_bytes());
    }

    /// Copies a member, or the start of one, from a text.
    pub(super) fn copy_spelled(&mut self, text: &str, place: Range<usize>) {
        self.comma();
        self.out.extend_from_slice(text.get(place).unwrap_or_default().as_bytes());
    }

    fn key(&mut self, key: &str) {
        self.comma();
        push_string(&mut self.out, key);
        self.out.push(b':');
    }

    fn comma(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }
}

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    if special(text.as_bytes()).is_none() {
        // Reserves space for the colon or comma that follows as well, to check the capacity once.
        out.reserve(text.len() + 4);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(RawJson::from_value(text).as_bytes());
    }
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_string(out: &mut BytesMut, text: &str) {
    if special(text.as_bytes()).is_none() {
        out.reserve(text.len() + 2);
        out.extend_from_slice(b"\"");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\"");
    } else {
        out.extend_from_slice(RawJson::from_value(text).as_bytes());
    }
}
