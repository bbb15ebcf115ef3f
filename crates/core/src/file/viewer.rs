//! Viewers: how the console shows a file, chosen by its MIME type, then by the extension of its name.

use super::kind::{DEFAULT_MIME, guess_mime};
use super::name::FileName;

/// The viewers of the console.
pub const VIEWERS: [&str; 10] =
    ["html", "image", "svg", "pdf", "csv", "code", "markdown", "json", "audio", "video"];

/// Types outside `text/` that are shown as source code.
const CODE: [&str; 9] = [
    "application/javascript",
    "application/jsonl",
    "application/sql",
    "application/toml",
    "application/x-ipynb+json",
    "application/x-sh",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
];

/// The viewer for a file: the suggested one if the console has it, else one for its type. `None` for a file that can
/// only be downloaded.
pub fn viewer_for(suggested: Option<&str>, mime: &str, name: &FileName) -> Option<&'static str> {
    let known = |word: &str| VIEWERS.into_iter().find(|viewer| viewer.eq_ignore_ascii_case(word));
    if let Some(viewer) = suggested.and_then(|word| known(word.trim())) {
        return Some(viewer);
    }
    // Servers often declare these for files of a more specific type.
    let is_general = matches!(mime, "text/plain" | DEFAULT_MIME);
    let by_name = || viewer_of_type(guess_mime(name));
    if is_general {
        by_name().or_else(|| viewer_of_type(mime))
    } else {
        viewer_of_type(mime).or_else(by_name)
    }
}

fn viewer_of_type(mime: &str) -> Option<&'static str> {
    if CODE.contains(&mime) {
        return Some("code");
    }
    Some(match mime {
        "text/html" | "application/xhtml+xml" => "html",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "text/csv" | "text/tab-separated-values" => "csv",
        "text/markdown" => "markdown",
        "application/json" => "json",
        _ if mime.ends_with("+json") => "json",
        _ if mime.ends_with("+xml") => "code",
        _ => match mime.split('/').next().unwrap_or_default() {
            "image" => "image",
            "audio" => "audio",
            "video" => "video",
            "text" => "code",
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_is_chosen_by_type_then_by_extension() {
        let cases = [
            (None, "text/html", "page.html", Some("html")),
            (None, "image/svg+xml", "dot.svg", Some("svg")),
            (None, "application/pdf", "paper.pdf", Some("pdf")),
            (None, "text/csv", "table.csv", Some("csv")),
            (None, "application/x-sh", "script.sh", Some("code")),
            (None, "text/markdown", "notes.md", Some("markdown")),
            (None, "application/json", "data.json", Some("json")),
            (None, "image/png", "dot.png", Some("image")),
            (None, "application/geo+json", "map", Some("json")),
            (None, "application/x-ipynb+json", "a.ipynb", Some("code")),
            (None, "text/plain", "table.csv", Some("csv")),
            (None, "text/plain", "table", Some("code")),
            (None, DEFAULT_MIME, "query.sql", Some("code")),
            (None, "application/x-unknown", "clip.mp4", Some("video")),
            (None, "application/zip", "a.zip", None),
            (Some("code"), "text/html", "page.html", Some("code")),
            (Some("HTML"), "text/plain", "a.txt", Some("html")),
            (Some("auto"), "text/html", "page.html", Some("html")),
            (Some("hologram"), "image/png", "dot.png", Some("image")),
        ];
        for (suggested, mime, name, expected) in cases {
            let name = FileName::made_safe(name).expect("a name");
            assert_eq!(viewer_for(suggested, mime, &name), expected, "{suggested:?} {mime} {name:?}");
        }
    }
}
