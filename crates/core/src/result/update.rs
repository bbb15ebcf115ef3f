//! Updates: progress messages of the form `MCP_UPDATE:` and a JSON object.
//!
//! Tools written for a canvas send `{type, content | message | artifacts, progress_message?}` in this form. The client
//! gets a readable message, with the update in `_meta`; files in it are removed.

use super::artifact::Artifact;
use crate::json::{ObjectWriter, RawJson, with_members};

/// The prefix of an update.
pub const PREFIX: &str = "MCP_UPDATE:";
/// The `_meta` key of a progress notification for the update.
pub const UPDATE: &str = "toolbooth/update";
/// Maximum size of an update that is passed on in `_meta`.
const MAX_META_BYTES: usize = 256 << 10;
/// Maximum number of files of one update.
const MAX_FILES: usize = 64;

/// A progress notification that is an update.
#[derive(Debug)]
pub struct Update {
    /// The parameters of the notification, cleaned.
    pub params: RawJson,
    /// Its files.
    pub artifacts: Vec<Artifact>,
}

/// Reads the parameters of a progress notification; `None` if it is not an update.
pub fn read(params: &RawJson) -> Option<Update> {
    memchr::memmem::find(params.as_bytes(), PREFIX.as_bytes())?;
    let message = params.member("message")?;
    let message = message.string()?;
    let update = RawJson::parse(message.strip_prefix(PREFIX)?.trim().to_owned()).ok()?;
    let word = |key: &str| update.member(key).and_then(|value| value.string().map(|text| text.into_owned()));
    let kind = word("type")?;
    let mut details = ObjectWriter::default();
    details.text("type", &kind);
    let mut artifacts = Vec::new();
    let words = match kind.as_str() {
        "canvas_update" => {
            copy(&update, &mut details, &["content"]);
            None
        }
        "system_message" => {
            copy(&update, &mut details, &["message", "subtype"]);
            word("message")
        }
        "artifacts" => {
            copy(&update, &mut details, &["display"]);
            let list = update.member("artifacts").and_then(|list| list.elements().ok()).unwrap_or_default();
            let read = list.iter().take(MAX_FILES).enumerate().map(|(at, one)| Artifact::read(one, at + 1));
            artifacts = read.filter_map(Result::ok).collect();
            let names: Vec<&str> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
            details.raw("artifacts", &RawJson::from_value(&names));
            None
        }
        // An unknown type is an ordinary message.
        _ => return None,
    };
    let words = word("progress_message").or(words).unwrap_or_else(|| "Processing...".to_owned());
    let details = details.finish();
    let mut meta = ObjectWriter::default();
    for member in params.member("_meta").and_then(|meta| meta.members().ok()).unwrap_or_default() {
        meta.raw(&member.key, &member.value);
    }
    if details.as_bytes().len() <= MAX_META_BYTES {
        meta.raw(UPDATE, &details);
    }
    let params = with_members(params, &[("message", RawJson::from_value(&words)), ("_meta", meta.finish())]);
    Some(Update { params: params.ok()?, artifacts })
}

fn copy(from: &RawJson, to: &mut ObjectWriter, keys: &[&str]) {
    for key in keys {
        if let Some(value) = from.member(key) {
            to.raw(key, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(update: &serde_json::Value) -> RawJson {
        let message = format!("{PREFIX}{update}");
        RawJson::from_value(&json!({ "progressToken": 1, "progress": 2.0, "message": message }))
    }

    #[test]
    fn updates_become_readable_messages() {
        let canvas =
            json!({ "type": "canvas_update", "content": "<p>hi</p>", "progress_message": "Drawing" });
        let spoken = json!({ "type": "system_message", "message": "Half way", "subtype": "info" });
        let files = json!({ "type": "artifacts", "artifacts": [{ "name": "a.txt", "b64": "aGk=" }, {}],
            "display": { "open_canvas": true } });
        let cases = [(canvas, "Drawing", 0), (spoken, "Half way", 0), (files, "Processing...", 1)];
        for (update, message, count) in cases {
            let read = read(&params(&update)).expect("an update");
            let clean: serde_json::Value = read.params.read().expect("JSON");
            assert_eq!(clean["message"], message);
            assert_eq!(clean["progress"], 2.0);
            assert_eq!(clean["_meta"][UPDATE]["type"], update["type"]);
            assert_eq!(read.artifacts.len(), count);
            assert!(!read.params.as_str().contains("aGk="), "{}", read.params);
        }
    }

    #[test]
    fn anything_else_is_an_ordinary_message() {
        let plain = |message: &str| RawJson::from_value(&json!({ "progress": 1, "message": message }));
        for message in
            ["Step 1", "MCP_UPDATE:{broken", "MCP_UPDATE:{}", "see MCP_UPDATE:{\"type\":\"artifacts\"}"]
        {
            assert!(read(&plain(message)).is_none(), "{message}");
        }
        assert!(read(&params(&json!({ "type": "unheard_of" }))).is_none());
    }
}
