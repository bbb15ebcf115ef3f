//! `canvas_canvas`: shows a text on the canvas of the console. The text becomes a file of the caller's session.

use super::{OwnTools, text_block};
use crate::answer::{Answer, ResultFacts};
use crate::files::ArtifactOrigin;
use serde::Deserialize;
use serde_json::json;
use toolbooth_core::call::Sealed;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::own_names::CANVAS;
use toolbooth_core::result::inspect::annotated;
use toolbooth_core::result::{Artifact, ArtifactContent};
use toolbooth_wire::Era;
use uuid::Uuid;

/// The longest content, in characters.
const MAX_CONTENT: usize = 1 << 20;
/// The longest title, in characters.
const MAX_TITLE: usize = 200;
/// How much of the content the answer repeats, in characters.
const SHOWN: usize = 100;

/// The tool's definition. Like the meta tools it is not listed: only clients with a canvas have a use for it.
pub(super) fn definition() -> RawJson {
    RawJson::from_value(&json!({
        "name": CANVAS,
        "title": "Show on the canvas",
        "description": "Shows content to the user on the canvas: Markdown, or a whole HTML page.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "content": { "type": "string", "maxLength": MAX_CONTENT, "description": "The content to show." },
                "title": { "type": "string", "maxLength": MAX_TITLE, "description": "A title for it." }
            },
            "required": ["content"],
            "additionalProperties": false
        },
        "annotations": { "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false }
    }))
}

#[derive(Debug, Deserialize)]
struct CanvasArguments {
    content: String,
    #[serde(default)]
    title: Option<String>,
}

impl OwnTools {
    /// Stores the content as a file, and answers with hints that open the canvas with it.
    pub(super) async fn show_on_canvas(&self, call: &Sealed, id: Uuid) -> Answer {
        let (result, is_error) = match self.canvas_result(call, id).await {
            Ok(result) => (result, false),
            Err(reason) => (result_of(&reason, Some(true)), true),
        };
        let facts = ResultFacts { is_error, has_extras: true, ..ResultFacts::default() };
        Answer::Result { result, era: Era::Legacy, facts, warnings: Vec::new() }
    }

    async fn canvas_result(&self, call: &Sealed, id: Uuid) -> Result<RawJson, String> {
        let arguments: CanvasArguments = call.arguments().read().map_err(|error| error.to_string())?;
        let kind = ContentKind::of(&arguments.content);
        let artifact = Artifact {
            name: kind.file_name().to_owned(),
            mime: Some(kind.mime().to_owned()),
            description: arguments.title.clone(),
            viewer: None,
            content: ArtifactContent::Plain(arguments.content.clone().into()),
        };
        let tool = call.tool();
        let made_by =
            ArtifactOrigin { caller: call.caller(), call: id, server: tool.server_name(), tool: &tool.name };
        let stored = self.files.store_artifact(&made_by, &artifact).await?;
        let mut display = ObjectWriter::default();
        display.raw("open_canvas", &RawJson::trusted("true")).text("primary_file", &stored.name);
        if let Some(title) = &arguments.title {
            display.text("title", title);
        }
        let shown: String = arguments.content.chars().take(SHOWN).collect();
        let dots = if shown.len() < arguments.content.len() { "..." } else { "" };
        let result = result_of(&format!("Canvas content displayed: {shown}{dots}"), None);
        Ok(annotated(result, &[stored], Some(&display.finish())))
    }
}

fn result_of(text: &str, is_error: Option<bool>) -> RawJson {
    let mut result = ObjectWriter::default();
    result.raw("content", &RawJson::trusted(format!("[{}]", text_block(text).as_str())));
    if let Some(is_error) = is_error {
        result.raw("isError", &RawJson::from_value(&is_error));
    }
    result.finish()
}

/// The kinds of content that the canvas shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Html,
    Markdown,
}

impl ContentKind {
    fn of(content: &str) -> Self {
        let start: String = content.trim_start().chars().take(14).collect::<String>().to_ascii_lowercase();
        match start.starts_with("<!doctype html") || start.starts_with("<html") {
            true => Self::Html,
            false => Self::Markdown,
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Html => "canvas.html",
            Self::Markdown => "canvas.md",
        }
    }

    fn mime(self) -> &'static str {
        match self {
            Self::Html => "text/html",
            Self::Markdown => "text/markdown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_html_and_other_texts_are_markdown() {
        let cases = [
            ("<!DOCTYPE html><p>", ContentKind::Html),
            ("\n <html lang=\"en\">", ContentKind::Html),
            ("# Hello", ContentKind::Markdown),
            ("<p>one paragraph", ContentKind::Markdown),
            ("é", ContentKind::Markdown),
            ("", ContentKind::Markdown),
        ];
        for (content, expected) in cases {
            assert_eq!(ContentKind::of(content), expected, "{content}");
        }
    }
}
