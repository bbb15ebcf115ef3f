//! Artifacts: files that tools return, before and after they are stored.

use super::encoded::decoded_size;
use crate::json::RawJson;
use crate::schema::shortened;
use bytes::Bytes;
use serde::Serialize;
use std::borrow::Cow;

/// Maximum length of the texts about a file.
const MAX_DESCRIPTION: usize = 1_000;
const MAX_WORD: usize = 100;
/// Maximum length of a name that is read; names are sanitised and shortened when they are stored.
const MAX_NAME: usize = 4_096;

/// A file that a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The name as the tool wrote it.
    pub name: String,
    /// The media type, according to the tool.
    pub mime: Option<String>,
    /// The tool's description.
    pub description: Option<String>,
    /// The viewer that the tool suggests.
    pub viewer: Option<String>,
    /// The content.
    pub content: ArtifactContent,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactContent {
    /// Base64, not decoded yet.
    Base64(Bytes),
    /// The bytes themselves.
    Plain(Bytes),
}

impl ArtifactContent {
    /// The size in bytes, after decoding.
    pub fn size(&self) -> u64 {
        match self {
            Self::Base64(text) => decoded_size(text),
            Self::Plain(bytes) => bytes.len() as u64,
        }
    }
}

/// A file that was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedArtifact {
    /// Its name, or its number among the others.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredArtifact {
    /// Its id.
    pub id: String,
    /// Its sanitised name.
    pub name: String,
    /// The version among the files of this name.
    pub version: u32,
    /// The media type.
    pub mime: String,
    /// Its size.
    pub size_bytes: u64,
    /// The tool's description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The viewer that shows it; absent if it can only be downloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub viewer: Option<String>,
}

impl Artifact {
    /// Reads `{name, b64, mime?, description?, viewer?}`; `place` counts from 1.
    pub fn read(element: &RawJson, place: usize) -> Result<Self, RefusedArtifact> {
        Self::read_as(element, place, &["name", "b64", "mime"])
    }

    /// Reads `{filename, content_base64, content_type?}`, an older form.
    pub(super) fn read_old(element: &RawJson, place: usize) -> Result<Self, RefusedArtifact> {
        Self::read_as(element, place, &["filename", "content_base64", "content_type"])
    }

    fn read_as(element: &RawJson, place: usize, keys: &[&str; 3]) -> Result<Self, RefusedArtifact> {
        let [name, content, mime] = keys;
        let refused = |name: String, reason: String| RefusedArtifact { name, reason };
        if !element.is_object() {
            return Err(refused(numbered(place), "it is not an object".into()));
        }
        let words = |key: &str, most| {
            let value = element.member(key)?;
            value.string().map(|text| shortened(&text, most))
        };
        let named = words(name, MAX_NAME).filter(|name| !name.trim().is_empty());
        let named = named.ok_or_else(|| refused(numbered(place), format!("it has no `{name}`")))?;
        let shown = || shortened(&named, MAX_WORD);
        let content = match element.member(content) {
            Some(text) => string_bytes(&text)
                .ok_or_else(|| refused(shown(), format!("its `{content}` is not a string"))),
            None => Err(refused(shown(), format!("it has no `{content}`"))),
        }?;
        Ok(Self {
            mime: words(mime, MAX_WORD),
            description: words("description", MAX_DESCRIPTION),
            viewer: words("viewer", MAX_WORD),
            content: ArtifactContent::Base64(content),
            name: named,
        })
    }
}

fn numbered(place: usize) -> String {
    format!("#{place}")
}

/// The value of a JSON string; without a copy if it has no escapes.
pub(super) fn string_bytes(value: &RawJson) -> Option<Bytes> {
    match value.string()? {
        Cow::Borrowed(text) => Some(value.bytes().slice_ref(text.as_bytes())),
        Cow::Owned(text) => Some(text.into()),
    }
}
