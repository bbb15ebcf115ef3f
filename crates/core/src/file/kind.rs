//! MIME types of files: declared or guessed, and which of them a browser may display inline.

use super::name::FileName;

/// The MIME type of unknown files.
pub const DEFAULT_MIME: &str = "application/octet-stream";
/// The maximum length of a declared MIME type.
const MAX_MIME: usize = 100;

/// File extensions and their MIME types.
const BY_ENDING: [(&str, &str); 62] = [
    ("aac", "audio/aac"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("go", "text/x-go"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("py", "text/x-python"),
    ("rs", "text/rust"),
    ("rst", "text/x-rst"),
    ("rtf", "application/rtf"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "text/typescript"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// Types that a browser may display inline without running active content.
const INLINE: [&str; 18] = [
    "audio/aac",
    "audio/flac",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/vnd.microsoft.icon",
    "image/webp",
    "text/plain",
    "video/mp4",
    "video/ogg",
    "video/webm",
];

/// How a file is delivered to a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// It may be displayed inline.
    Inline,
    /// It must be saved.
    Attachment,
}

/// How a file of this type is delivered to a browser.
pub fn presentation(mime: &str) -> Presentation {
    if INLINE.contains(&mime) { Presentation::Inline } else { Presentation::Attachment }
}

/// A MIME type as `type/subtype` in lower case, without parameters; `None` if it is invalid.
pub fn clean_mime(text: &str) -> Option<String> {
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, subtype) = essence.split_once('/')?;
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    (essence.len() <= MAX_MIME && token(kind) && token(subtype)).then_some(essence)
}

/// The MIME type that a name's extension implies.
pub fn guess_mime(name: &FileName) -> &'static str {
    let Some(ending) = name.extension() else { return DEFAULT_MIME };
    match BY_ENDING.binary_search_by(|(known, _)| (*known).cmp(&ending)) {
        Ok(place) => BY_ENDING[place].1,
        Err(_) => DEFAULT_MIME,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_types_are_read_without_their_parameters() {
        let cases = [
            ("text/plain", Some("text/plain")),
            ("Text/HTML; charset=utf-8", Some("text/html")),
            ("image/svg+xml", Some("image/svg+xml")),
            ("text", None),
            ("text/", None),
            ("/plain", None),
            ("text/pl ain", None),
            ("text/plain\r\nx: y", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(clean_mime(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(clean_mime(&format!("text/{}", "x".repeat(200))), None);
    }

    #[test]
    fn extensions_imply_mime_types() {
        assert!(BY_ENDING.is_sorted());
        let guess = |name: &str| guess_mime(&FileName::made_safe(name).expect("a name"));
        let cases = [
            ("a.PDF", "application/pdf"),
            ("a.tar.gz", "application/gzip"),
            ("README", DEFAULT_MIME),
            ("gif", DEFAULT_MIME),
            ("x.unheard", DEFAULT_MIME),
        ];
        for (name, expected) in cases {
            assert_eq!(guess(name), expected, "{name}");
        }
        for (_, mime) in BY_ENDING {
            assert_eq!(clean_mime(mime).as_deref(), Some(mime));
        }
    }

    #[test]
    fn active_content_is_never_displayed_inline() {
        for mime in ["text/html", "image/svg+xml", "application/xml", "text/javascript", DEFAULT_MIME] {
            assert_eq!(presentation(mime), Presentation::Attachment, "{mime}");
        }
        assert_eq!(presentation("image/png"), Presentation::Inline);
    }
}
