//! Parsers for JSON with comments, TOML, YAML and `.env` files, with size limits and source positions.

pub mod dotenv;
mod json;
mod toml;
mod yaml;

use crate::finding::Finding;
use crate::node::{Mark, Node, TextId};
use crate::texts::{SourceTexts, TextName};
use std::path::Path;

/// The maximum size of a configuration file.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum nesting depth of lists and maps.
pub const MAX_DEPTH: usize = 64;
/// The maximum number of values in one file. YAML aliases count each time they are used.
pub const MAX_NODES: usize = 200_000;

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl Syntax {
    /// The syntax of a file, by its extension; other extensions are read as JSON.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ext| ext.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }
}

/// A syntax error, with its byte range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub message: String,
    pub start: usize,
    pub end: usize,
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(message: impl Into<String>, start: usize) -> Self {
        Self { message: message.into(), start, end: start + 1, hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The result of parsing a text or a part of it.
type ParseResult<T> = Result<T, SyntaxError>;

/// Parses the content of the file `path`, with the syntax of its extension.
pub fn parse(texts: &mut SourceTexts, path: &Path, bytes: &[u8]) -> Result<Node, Box<Finding>> {
    parse_as(texts, path, bytes, Syntax::of(path))
}

/// Parses the content of a file in a given syntax.
pub fn parse_as(
    texts: &mut SourceTexts,
    path: &Path,
    bytes: &[u8],
    syntax: Syntax,
) -> Result<Node, Box<Finding>> {
    if bytes.len() > MAX_BYTES {
        let sentence =
            format!("the file has {} bytes, more than {} MiB", bytes.len(), MAX_BYTES / 1024 / 1024);
        return Err(Box::new(Finding::error("config.too-large", sentence).in_file(path)));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return Err(Box::new(not_utf8(texts, path, bytes, error.valid_up_to()))),
    };
    let id = texts.add(TextName::File(path.to_owned()), text);
    let parsed = match syntax {
        Syntax::Json => json::parse(text, id),
        Syntax::Toml => toml::parse(text, id),
        Syntax::Yaml => yaml::parse(text, id),
    };
    parsed.map_err(|mut error| {
        // Show an error at the end of the text at its last character, not on an empty line.
        let last = text.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
        if error.start > last {
            (error.start, error.end) = (last, last + 1);
        }
        let mark = Mark::new(id, error.start, error.end);
        let name = match syntax {
            Syntax::Json => "JSON",
            Syntax::Toml => "TOML",
            Syntax::Yaml => "YAML",
        };
        let mut finding =
            Finding::error("config.syntax", format!("invalid {name}: {}", error.message)).at(texts, mark);
        finding.hint = error.hint;
        if !is_configuration(path) {
            // The message of the parser may quote the text.
            finding.message = format!("invalid {name}");
        }
        Box::new(without_quote(finding, path))
    })
}

/// Whether a file has the extension of a configuration file. Findings do not quote other files, since they may be
/// readable only for the gateway's user.
fn is_configuration(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let extension = real.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("json" | "jsonc" | "json5" | "toml" | "yaml" | "yml"))
}

/// Removes the quoted line from a finding, unless the file has the extension of a configuration file.
pub(crate) fn without_quote(mut finding: Finding, path: &Path) -> Finding {
    if !is_configuration(path) {
        finding.snippet = None;
        finding.label = None;
        finding.hint = Some("the name of a configuration file ends in .json, .toml or .yaml".into());
    }
    finding
}

fn not_utf8(texts: &mut SourceTexts, path: &Path, bytes: &[u8], valid: usize) -> Finding {
    let id: TextId = texts.add(TextName::File(path.to_owned()), String::from_utf8_lossy(bytes).as_ref());
    let finding = Finding::error("config.syntax", "the file is not UTF-8 text")
        .at(texts, Mark::new(id, valid, valid + 1))
        .hint("save it as UTF-8");
    without_quote(finding, path)
}
