//! Artifacts: files that tools return, as they come and as they were kept.

use super::encoded::decoded_size;
use crate::json::RawJson;
use crate::schema::shortened;
use bytes::Bytes;
use serde::Serialize;
use std::borrow::Cow;

/// The longest texts about a file that are kept.
const MAX_DESCRIPTION: usize = 1_000;
const MAX_WORD: usize = 100;
/// The longest name that is looked at; names are made safe, and shorter, where they are kept.
const MAX_NAME: usize = 4_096;

/// A file that a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its name, as the tool wrote it.
    pub name: String,
    /// What it holds, as the tool says.
    pub mime: Option<String>,
    /// What the tool says about it.
    pub description: Option<String>,
    /// How the tool wants it shown.
    pub viewer: Option<String>,
    /// What is in it.
    pub content: Content,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Base64, not decoded yet.
    Base64(Bytes),
    /// The bytes themselves.
    Plain(Bytes),
}

impl Content {
    /// How many bytes it will have.
    pub fn size(&self) -> u64 {
        match self {
            Self::Base64(text) => decoded_size(text),
            Self::Plain(bytes) => bytes.len() as u64,
        }
    }
}

/// A file that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, or its place among the others.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A file that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its id.
    pub id: String,
    /// Its name, made safe.
    pub name: String,
    /// Which file of this name it is.
    pub version: u32,
    /// What it holds.
    pub mime: String,
    /// Its length.
    pub size_bytes: u64,
    /// What the tool says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the tool wants it shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewer: Option<String>,
}

impl Artifact {
    /// Reads `{name, b64, mime?, description?, viewer?}`; `place` counts from 1.
    pub fn read(element: &RawJson, place: usize) -> Result<Self, Refused> {
        Self::read_as(element, place, &["name", "b64", "mime"])
    }

    /// Reads `{filename, content_base64, content_type?}`, as tools wrote it once.
    pub(super) fn read_old(element: &RawJson, place: usize) -> Result<Self, Refused> {
        Self::read_as(element, place, &["filename", "content_base64", "content_type"])
    }

    fn read_as(element: &RawJson, place: usize, keys: &[&str; 3]) -> Result<Self, Refused> {
        let [name, content, mime] = keys;
        let refused = |name: String, reason: String| Refused { name, reason };
        if !element.is_object() {
            return Err(refused(numbered(place), "it is no object".into()));
        }
        let words = |key: &str, most| {
            let value = element.member(key)?;
            value.string().map(|text| shortened(&text, most))
        };
        let named = words(name, MAX_NAME).filter(|name| !name.trim().is_empty());
        let named = named.ok_or_else(|| refused(numbered(place), format!("it has no `{name}`")))?;
        let shown = || shortened(&named, MAX_WORD);
        let content = match element.member(content) {
            Some(text) => {
                string_bytes(&text).ok_or_else(|| refused(shown(), format!("its `{content}` is no string")))
            }
            None => Err(refused(shown(), format!("it has no `{content}`"))),
        }?;
        Ok(Self {
            mime: words(mime, MAX_WORD),
            description: words("description", MAX_DESCRIPTION),
            viewer: words("viewer", MAX_WORD),
            content: Content::Base64(content),
            name: named,
        })
    }
}

fn numbered(place: usize) -> String {
    format!("#{place}")
}

/// What a JSON string says; without a copy where nothing in it is escaped.
pub(super) fn string_bytes(value: &RawJson) -> Option<Bytes> {
    match value.string()? {
        Cow::Borrowed(text) => Some(value.bytes().slice_ref(text.as_bytes())),
        Cow::Owned(text) => Some(text.into()),
    }
}
