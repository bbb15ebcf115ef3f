//! ArtifactContent blocks with encoded data: pictures, sounds and embedded files. They are kept as artifacts and are
//! sent to the client unchanged.

use super::artifact::{Artifact, ArtifactContent, string_bytes};
use crate::json::RawJson;
use crate::schema::shortened;

/// A block with encoded data.
#[derive(Debug)]
pub struct Media {
    /// The media type, such as `image/png`.
    pub mime: String,
    /// The data as a file.
    pub artifact: Artifact,
    /// The cost for a model, in bytes of text.
    pub weight: usize,
}

/// Maximum cost of a picture for a model, whatever its size: 1,600 tokens.
const MAX_WEIGHT: usize = 6_400;

/// Reads a block with data. `stem` begins the name of a file that has none.
pub fn read(block: &RawJson, stem: &str, number: usize) -> Option<Media> {
    let kind = block.member("type")?;
    let (holder, data, uri) = match kind.string()?.as_ref() {
        "image" | "audio" => (block.clone(), block.member("data")?, None),
        "resource" => {
            let resource = block.member("resource")?;
            let (blob, uri) = (resource.member("blob")?, resource.member("uri"));
            (resource, blob, uri)
        }
        _ => return None,
    };
    let data = string_bytes(&data)?;
    let mime = holder.member("mimeType");
    let mime = mime.as_ref().and_then(RawJson::string).map(|mime| shortened(&mime, 100));
    let mime = mime.unwrap_or_else(|| "application/octet-stream".to_owned());
    let named = uri.as_ref().and_then(RawJson::string).and_then(|uri| last_part(&uri));
    let name = named.unwrap_or_else(|| format!("{stem}-{number}.{}", extension(&mime)));
    let weight = data.len().min(MAX_WEIGHT);
    let artifact = Artifact {
        name,
        mime: Some(mime.clone()),
        description: None,
        viewer: None,
        content: ArtifactContent::Base64(data),
    };
    Some(Media { mime, artifact, weight })
}

/// The file name at the end of a URI.
fn last_part(uri: &str) -> Option<String> {
    let path = uri.split(['?', '#']).next()?;
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let last = path.rsplit('/').next()?;
    (last.contains('.') && !last.starts_with('.')).then(|| shortened(last, 150))
}

/// The file extension for a media type.
fn extension(mime: &str) -> String {
    let subtype = mime.rsplit('/').next().unwrap_or_default();
    match subtype {
        "jpeg" => "jpg".into(),
        "svg+xml" => "svg".into(),
        "mpeg" => "mp3".into(),
        "x-wav" | "wave" => "wav".into(),
        "plain" => "txt".into(),
        "octet-stream" => "bin".into(),
        other => {
            let plain: String = other.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
            if plain.is_empty() { "bin".into() } else { plain }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_with_data_are_files() {
        let cases = [
            (r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#, Some("t-1.png")),
            (r#"{"type":"image","data":"AA==","mimeType":"image/svg+xml"}"#, Some("t-1.svg")),
            (r#"{"type":"audio","data":"AA==","mimeType":"audio/mpeg"}"#, Some("t-1.mp3")),
            (r#"{"type":"image","data":"AA=="}"#, Some("t-1.bin")),
            (r#"{"type":"resource","resource":{"uri":"file:///a/b.pdf","blob":"AA=="}}"#, Some("b.pdf")),
            (
                r#"{"type":"resource","resource":{"uri":"x://a","blob":"AA==","mimeType":"a/b"}}"#,
                Some("t-1.b"),
            ),
            (r#"{"type":"resource","resource":{"uri":"x://a","text":"AA=="}}"#, None),
            (r#"{"type":"image"}"#, None),
            (r#"{"type":"text","text":"a","data":"AA=="}"#, None),
            ("7", None),
        ];
        for (block, expected) in cases {
            let media = read(&RawJson::parse(block).expect("JSON"), "t", 1);
            assert_eq!(media.as_ref().map(|media| &*media.artifact.name), expected, "{block}");
        }
    }
}
