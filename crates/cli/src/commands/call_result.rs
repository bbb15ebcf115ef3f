//! Prints a tool's result: text blocks as they are, each other block as a one-line note.

use crate::render::{self, Paint, Tone, framed, line};
use serde_json::Value;
use std::io::IsTerminal;
use toolbooth_core::result::ARTIFACTS;

/// A tool result, parsed for printing.
pub struct ToolResultText {
    /// Whether the tool reports an error.
    pub is_error: bool,
    blocks: Vec<ResultBlock>,
    /// Stored files, one line each.
    stored: Vec<String>,
}

enum ResultBlock {
    Text(String),
    Note(String),
}

impl ToolResultText {
    /// Parses a result.
    pub fn of(result: &str) -> Self {
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let mut blocks: Vec<ResultBlock> =
            result["content"].as_array().into_iter().flatten().map(block).collect();
        if blocks.is_empty() && !result["structuredContent"].is_null() {
            blocks.push(ResultBlock::Text(
                serde_json::to_string_pretty(&result["structuredContent"]).unwrap_or_default(),
            ));
        }
        let stored = result["_meta"][ARTIFACTS].as_array().into_iter().flatten().map(stored).collect();
        Self { is_error: result["isError"].as_bool().unwrap_or(false), blocks, stored }
    }

    /// The whole result as text, with a note for each block that is not text.
    pub fn text(&self) -> String {
        let blocks = self.blocks.iter().map(|block| match block {
            ResultBlock::Text(text) => text.clone(),
            ResultBlock::Note(note) => format!("[{note}]"),
        });
        let stored = self.stored.iter().map(|file| format!("[stored {file}]"));
        blocks.chain(stored).collect::<Vec<_>>().join("\n")
    }

    /// Prints a result to standard output, and an error of the tool to standard error.
    pub fn print(&self) {
        let terminal =
            if self.is_error { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        let paint = if self.is_error { Paint::stderr() } else { Paint::stdout() };
        let mut text = String::new();
        for block in &self.blocks {
            let shown = match block {
                // Files and pipes get the exact bytes; control characters could harm a terminal.
                ResultBlock::Text(text) if terminal => framed(text),
                ResultBlock::Text(text) => text.clone(),
                ResultBlock::Note(note) => paint.tone(Tone::Dim, &format!("[{}]", line(note))),
            };
            text.push_str(&shown);
            if !shown.ends_with('\n') {
                text.push('\n');
            }
        }
        // Only on a terminal: a program that reads the output gets the result alone.
        for file in self.stored.iter().filter(|_| terminal) {
            text.push_str(&paint.tone(Tone::Dim, &format!("[stored {}]", line(file))));
            text.push('\n');
        }
        match self.is_error {
            false => render::print(&text),
            true if text.is_empty() => render::complain("The tool failed without a reason.\n"),
            true => render::complain(&text),
        }
    }
}

fn stored(file: &Value) -> String {
    let bytes = usize::try_from(file["size_bytes"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let words = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
    format!("{}, {}, {}", words("name"), words("mime"), in_units(bytes))
}

fn block(content: &Value) -> ResultBlock {
    let text = |key: &str| content[key].as_str().unwrap_or_default();
    match text("type") {
        "text" => ResultBlock::Text(text("text").to_owned()),
        kind @ ("image" | "audio") => {
            ResultBlock::Note(format!("{kind} {}, {}", text("mimeType"), size(text("data"))))
        }
        "resource_link" => ResultBlock::Note(format!("link {} {}", text("name"), text("uri"))),
        "resource" => {
            let resource = &content["resource"];
            let of = |key: &str| resource[key].as_str().unwrap_or_default();
            match resource["text"].as_str() {
                Some(text) => ResultBlock::Text(text.to_owned()),
                None => ResultBlock::Note(format!(
                    "resource {} {}, {}",
                    of("uri"),
                    of("mimeType"),
                    size(of("blob"))
                )),
            }
        }
        other => ResultBlock::Note(format!("{other} content; --json shows it")),
    }
}

/// The decoded size of a Base64 text.
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

/// Prints the JSON of a result as text.
pub fn print_result(result: &str) {
    ToolResultText::of(result).print();
}
