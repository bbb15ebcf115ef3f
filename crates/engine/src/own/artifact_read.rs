//! `artifact_read`: reads a file of the caller's session, in parts that fit the token budget.

use super::jq::{self, FilterOutput, JqFault};
use super::{OwnToolResult, OwnTools, text_block};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use toolbooth_core::call::Sealed;
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::result::budget::READER;
use toolbooth_core::result::reading::{DEFAULT_LIMIT, MAX_PATTERN_CHARS, matches, text_slice};
use toolbooth_core::result::{Budget, StoredArtifact};

/// The largest file that is read into memory.
const MAX_FILE: u64 = 64 << 20;
/// The largest image that is returned as an image.
const MAX_IMAGE: u64 = 4 << 20;
/// Larger texts are read on a blocking thread, so that calls do not wait.
const LARGE_TEXT: usize = 256 << 10;

/// The tool's definition.
pub(super) fn definition() -> RawJson {
    RawJson::from_value(&json!({
        "name": READER,
        "title": "Read an artifact",
        "description": "Reads a file of this session: one that a tool returned, or a result that was too long to be shown whole. Without options it gives the start of the text. `offset` and `limit` (in characters) give a part; `pattern` gives the lines that match a regular expression; `jq` gives what a jq filter takes out of JSON.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The file's name, as it was given." },
                "offset": { "type": "integer", "minimum": 0, "description": "The character to start at; 0 when absent." },
                "limit": { "type": "integer", "minimum": 1, "description": "The most characters to give." },
                "pattern": { "type": "string", "maxLength": MAX_PATTERN_CHARS, "description": "A regular expression; lines that match come with their number and offset." },
                "jq": { "type": "string", "maxLength": jq::MAX_FILTER, "description": "A jq filter, for JSON. `offset` and `limit` then go by its output." }
            },
            "required": ["name"],
            "additionalProperties": false
        },
        "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false }
    }))
}

#[derive(Debug, Clone, Deserialize)]
struct ReadArguments {
    name: String,
    // `5.0` is an integer in JSON Schema.
    #[serde(default)]
    offset: Option<f64>,
    #[serde(default)]
    limit: Option<f64>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    jq: Option<String>,
}

impl ReadArguments {
    fn is_whole_file(&self) -> bool {
        self.offset.is_none() && self.limit.is_none() && self.pattern.is_none() && self.jq.is_none()
    }
}

impl OwnTools {
    /// Reads a part of a file.
    pub(super) async fn artifact_read(&self, call: &Sealed) -> OwnToolResult {
        let arguments: ReadArguments = call.arguments().read().map_err(|error| error.to_string())?;
        if arguments.pattern.is_some() && arguments.jq.is_some() {
            return Err("give `pattern` or `jq`, not both".into());
        }
        let _slot = self.limits.reading.acquire().await.map_err(|_| "the gateway is stopping".to_owned())?;
        let file = self.files.read_artifact(call.caller(), &arguments.name, MAX_FILE).await?;
        let Some((file, bytes)) = file else {
            return Err(format!("there is no file `{}` in this session", arguments.name));
        };
        // The answer fits the budget, whatever was requested: a character has four bytes at most.
        let most = self.terms.load().results.budget.map_or(usize::MAX, |Budget { bytes }| (bytes / 4).max(1));
        let limit = arguments.limit.map_or(DEFAULT_LIMIT, whole).clamp(1, most);
        let offset = arguments.offset.map_or(0, whole);
        if arguments.is_whole_file() && file.mime.starts_with("image/") && file.size_bytes <= MAX_IMAGE {
            return Ok(image(&file, &bytes));
        }
        let text = match &arguments.jq {
            Some(filter) => self.run_filter(filter, &bytes, offset.saturating_add(limit)).await?,
            None => FilterOutput { bytes, is_cut: false },
        };
        let is_large = text.bytes.len() > LARGE_TEXT || arguments.pattern.is_some();
        let read = move || read_text(&arguments, &file, &text, offset, limit);
        match is_large {
            true => tokio::task::spawn_blocking(read).await.map_err(|_| "reading failed".to_owned())?,
            false => read(),
        }
    }

    /// The output of a jq filter on a file, as much of it as is needed.
    async fn run_filter(
        &self,
        filter: &str,
        bytes: &Bytes,
        characters: usize,
    ) -> Result<FilterOutput, String> {
        let most = characters.saturating_mul(4).saturating_add(4096);
        let slot = self.limits.filtering.acquire().await;
        let _slot = slot.map_err(|_| "the gateway is stopping".to_owned())?;
        let filtered = jq::run(&self.executable, filter, bytes.clone(), most).await;
        filtered.map_err(|fault: JqFault| fault.to_string())
    }
}

/// A number that the schema requires to be a non-negative integer.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn whole(number: f64) -> usize {
    number as usize
}

fn read_text(
    arguments: &ReadArguments,
    file: &StoredArtifact,
    text: &FilterOutput,
    offset: usize,
    limit: usize,
) -> OwnToolResult {
    let FilterOutput { bytes, is_cut } = text;
    let StoredArtifact { name, mime, size_bytes, .. } = file;
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(format!("`{name}` is not text: {mime}, {size_bytes} bytes"));
    };
    if let Some(pattern) = &arguments.pattern {
        let found = matches(text, pattern, offset, limit).map_err(|fault| fault.to_string())?;
        let more = match (found.shown, found.next) {
            (0, _) => "[no line matches]".to_owned(),
            (shown, None) => format!("[{shown} lines match; each line: number@offset: text]"),
            (shown, Some(next)) => {
                format!("[{shown} lines, each number@offset: text; more match: continue with offset {next}]")
            }
        };
        let about = json!({ "name": name, "matches": found.shown, "next_offset": found.next });
        return Ok((vec![text_block(&found.text), text_block(&more)], RawJson::from_value(&about)));
    }
    let part = text_slice(text, offset, limit);
    let end = part.next.unwrap_or(part.total);
    let more = match part.next {
        // The total is unknown if the output was cut.
        Some(next) if *is_cut => format!("[characters {offset} to {end}; continue with offset {next}]"),
        Some(next) => {
            format!("[characters {offset} to {end} of {}; continue with offset {next}]", part.total)
        }
        None => format!("[characters {offset} to {end} of {}; this is the end]", part.total),
    };
    let about = json!({ "name": name, "offset": offset, "next_offset": part.next, "characters": (!is_cut).then_some(part.total) });
    Ok((vec![text_block(&part.text), text_block(&more)], RawJson::from_value(&about)))
}

/// An image block.
fn image(file: &StoredArtifact, bytes: &[u8]) -> (Vec<RawJson>, RawJson) {
    let mut block = ObjectWriter::with_capacity(bytes.len() * 4 / 3 + 64);
    block.text("type", "image").text("data", &STANDARD.encode(bytes)).text("mimeType", &file.mime);
    let about = json!({ "name": file.name, "bytes": file.size_bytes });
    (vec![block.finish()], RawJson::from_value(&about))
}
