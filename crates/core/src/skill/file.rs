//! The files of a skill, which clients read as `skill://NAME/PATH`.

use crate::json::{ObjectWriter, RawJson};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;

/// A file of a skill.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillFile {
    /// Its path within the skill's folder, with `/` between names.
    pub path: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: FileContent,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum FileContent {
    /// Text.
    Text(String),
    /// Anything else.
    Binary(Bytes),
}

impl SkillFile {
    /// A file with this content; its media type follows from its name.
    pub fn new(path: String, bytes: Vec<u8>) -> Self {
        let content = match String::from_utf8(bytes) {
            Ok(text) => FileContent::Text(text),
            Err(error) => FileContent::Binary(error.into_bytes().into()),
        };
        Self { media_type: media_type(&path, &content), path, content }
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> usize {
        match &self.content {
            FileContent::Text(text) => text.len(),
            FileContent::Binary(bytes) => bytes.len(),
        }
    }

    /// Its definition in a list of resources of a skill.
    pub fn definition(&self, skill: &str, about: Option<&str>) -> RawJson {
        let mut definition = ObjectWriter::with_capacity(160);
        definition.text("uri", &uri_of(skill, &self.path));
        definition.text("name", &format!("{skill}/{}", self.path));
        if let Some(about) = about {
            definition.text("description", about);
        }
        definition.text("mimeType", self.media_type);
        definition.raw("size", &RawJson::from_value(&self.size_bytes()));
        definition.finish()
    }

    /// The result of `resources/read`.
    pub fn read_result(&self, skill: &str) -> RawJson {
        let uri = uri_of(skill, &self.path);
        let content = match &self.content {
            FileContent::Text(text) => json!({ "uri": uri, "mimeType": self.media_type, "text": text }),
            FileContent::Binary(bytes) => {
                json!({ "uri": uri, "mimeType": self.media_type, "blob": STANDARD.encode(bytes) })
            }
        };
        RawJson::from_value(&json!({ "contents": [content] }))
    }
}

/// The URI of a file of a skill. Characters that a URI cannot contain are escaped.
pub fn uri_of(skill: &str, path: &str) -> String {
    let mut uri = format!("skill://{skill}/");
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The file of a skill with a URI.
pub fn find_file<'a>(uri: &str, files: &'a [SkillFile], skill: &str) -> Option<&'a SkillFile> {
    files.iter().find(|file| uri_of(skill, &file.path) == uri)
}

fn media_type(path: &str, content: &FileContent) -> &'static str {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match (extension.as_deref(), content) {
        (Some("md"), FileContent::Text(_)) => "text/markdown",
        (Some("json"), FileContent::Text(_)) => "application/json",
        (Some("yaml" | "yml"), FileContent::Text(_)) => "application/yaml",
        (Some("csv"), FileContent::Text(_)) => "text/csv",
        (_, FileContent::Text(_)) => "text/plain",
        (Some("png"), FileContent::Binary(_)) => "image/png",
        (Some("jpg" | "jpeg"), FileContent::Binary(_)) => "image/jpeg",
        (Some("pdf"), FileContent::Binary(_)) => "application/pdf",
        (_, FileContent::Binary(_)) => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_resources() {
        let file = SkillFile::new("notes/a b.md".into(), b"# A".to_vec());
        assert_eq!(uri_of("brief", &file.path), "skill://brief/notes/a%20b.md");
        assert!(file.definition("brief", None).as_str().contains(r#""mimeType":"text/markdown","size":3"#));
        let files = [file, SkillFile::new("x.bin".into(), vec![0xff, 0])];
        let found = find_file("skill://brief/x.bin", &files, "brief").expect("a file");
        assert!(found.read_result("brief").as_str().contains(r#""blob":"/wA=""#));
        assert!(find_file("skill://brief/../x.bin", &files, "brief").is_none());
    }
}
