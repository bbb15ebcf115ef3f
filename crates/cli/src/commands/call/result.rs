//! What a tool answered, for people: texts as they are, everything else in a line.

use crate::render::{self, Paint, Tone, framed, line};
use serde_json::Value;
use std::io::IsTerminal;
use toolbooth_core::result::ARTIFACTS;

/// A result, read.
pub struct Read {
    /// Whether the tool says that it failed.
    pub is_error: bool,
    blocks: Vec<Block>,
    /// Files that were kept, a line each.
    kept: Vec<String>,
}

enum Block {
    Text(String),
    Note(String),
}

impl Read {
    /// Reads a result.
    pub fn of(result: &str) -> Self {
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let mut blocks: Vec<Block> = result["content"].as_array().into_iter().flatten().map(block).collect();
        if blocks.is_empty() && !result["structuredContent"].is_null() {
            blocks.push(Block::Text(
                serde_json::to_string_pretty(&result["structuredContent"]).unwrap_or_default(),
            ));
        }
        let kept = result["_meta"][ARTIFACTS].as_array().into_iter().flatten().map(kept).collect();
        Self { is_error: result["isError"].as_bool().unwrap_or(false), blocks, kept }
    }

    /// All of it as text: what is none is told in a line.
    pub fn text(&self) -> String {
        let told = self.blocks.iter().map(|block| match block {
            Block::Text(text) => text.clone(),
            Block::Note(note) => format!("[{note}]"),
        });
        let kept = self.kept.iter().map(|file| format!("[kept {file}]"));
        told.chain(kept).collect::<Vec<_>>().join("\n")
    }

    /// Writes it down: a result to standard output, a tool's own error to standard error.
    pub fn print(&self) {
        let terminal =
            if self.is_error { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let paint = if self.is_error { Paint::stderr() } else { Paint::stdout() };
        let mut text = String::new();
        for block in &self.blocks {
            let shown = match block {
                // A file or another program gets every byte; a terminal could be harmed by some.
                Block::Text(text) if terminal => framed(text),
                Block::Text(text) => text.clone(),
                Block::Note(note) => paint.tone(Tone::Dim, &format!("[{}]", line(note))),
            };
            text.push_str(&shown);
            if !shown.ends_with('\n') {
                text.push('\n');
            }
        }
        // For people: what another program reads is the answer alone.
        for file in self.kept.iter().filter(|_| terminal) {
            text.push_str(&paint.tone(Tone::Dim, &format!("[kept {}]", line(file))));
            text.push('\n');
        }
        match self.is_error {
            false => render::print(&text),
            true if text.is_empty() => render::complain("The tool failed and did not say why.\n"),
            true => render::complain(&text),
        }
    }
}

fn kept(file: &Value) -> String {
    let bytes = usize::try_from(file["size_bytes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let words = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
    format!("{}, {}, {}", words("name"), words("mime"), in_units(bytes))
}

fn block(content: &Value) -> Block {
    let text = |key: &str| content[key].as_str().unwrap_or_default();
    match text("type") {
        "text" => Block::Text(text("text").to_owned()),
        kind @ ("image" | "audio") => {
            Block::Note(format!("{kind} {}, {}", text("mimeType"), size(text("data"))))
        }
        "resource_link" => Block::Note(format!("link {} {}", text("name"), text("uri"))),
        "resource" => {
            let resource = &content["resource"];
            let of = |key: &str| resource[key].as_str().unwrap_or_default();
            match resource["text"].as_str() {
                Some(text) => Block::Text(text.to_owned()),
                None => {
                    Block::Note(format!("resource {} {}, {}", of("uri"), of("mimeType"), size(of("blob"))))
                }
            }
        }
        other => Block::Note(format!("{other} content; --json shows it")),
    }
}

/// The size of what a Base64 text stands for.
fn size(base64: &str) -> String {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    in_units((base64.len() * 3 / 4).saturating_sub(padding))
}

fn in_units(bytes: usize) -> String {
    match bytes {
        bytes @ 0..1_000 => format!("{bytes} bytes"),
        bytes @ 1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        bytes => format!("{} MB", bytes / 1_000_000),
    }
}
