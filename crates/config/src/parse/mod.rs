//! Texts to trees: JSON with comments, TOML, YAML and `.env` files, all bounded and all with positions.

pub mod dotenv;
mod json;
mod toml;
mod yaml;

use crate::finding::Finding;
use crate::node::{Mark, Node, TextId};
use crate::texts::{TextName, Texts};
use std::path::Path;

/// The largest configuration file that is read.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// How deep lists and maps may nest.
pub const MAX_DEPTH: usize = 64;
/// How many values one file may hold, YAML aliases counted as often as they are used.
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
    /// The syntax a file's name promises; anything unknown is read as JSON.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ext| ext.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }
}

/// Where a text stops making sense, and why.
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

/// Reads a text that was taken from `path` into a tree.
pub fn parse(texts: &mut Texts, path: &Path, bytes: &[u8]) -> Result<Node, Box<Finding>> {
    parse_as(texts, path, bytes, Syntax::of(path))
}

/// Reads a text in a known syntax into a tree.
pub fn parse_as(texts: &mut Texts, path: &Path, bytes: &[u8], syntax: Syntax) -> Result<Node, Box<Finding>> {
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
        // An error at the end of the text is shown at its last word, not on an empty line after it.
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
            Finding::error("config.syntax", format!("this is not {name}: {}", error.message)).at(texts, mark);
        finding.hint = error.hint;
        if !is_configuration(path) {
            // What the parser met is a part of the text.
            finding.message = format!("this is not {name}");
        }
        Box::new(discreet(finding, path))
    })
}

/// Whether a file's name says that it is a configuration. Of any other file nothing is shown: it may be one that
/// only the gateway's user can read.
fn is_configuration(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let extension = real.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("json" | "jsonc" | "json5" | "toml" | "yaml" | "yml"))
}

/// A finding without the line it is about, unless the file is a configuration by its name.
pub(crate) fn discreet(mut finding: Finding, path: &Path) -> Finding {
    if !is_configuration(path) {
        finding.snippet = None;
        finding.label = None;
        finding.hint = Some("a configuration file ends in .json, .toml or .yaml".into());
    }
    finding
}

fn not_utf8(texts: &mut Texts, path: &Path, bytes: &[u8], valid: usize) -> Finding {
    let id: TextId = texts.add(TextName::File(path.to_owned()), String::from_utf8_lossy(bytes).as_ref());
    let finding = Finding::error("config.syntax", "the file is not UTF-8 text")
        .at(texts, Mark::new(id, valid, valid + 1))
        .hint("save it as UTF-8");
    discreet(finding, path)
}
