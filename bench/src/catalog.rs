//! Test data: tools of about 1.1 KB, which is typical of real servers, and texts of any size.

use serde_json::{Value, json};

/// The number of tools that do something: `echo`, `blob`, `sleep`.
pub const WORKING_TOOLS: usize = 3;

const VERBS: [&str; 8] = ["create", "list", "update", "fetch", "archive", "search", "move", "count"];
const NOUNS: [&str; 9] =
    ["invoice", "ticket", "calendar", "contact", "branch", "dataset", "message", "shipment", "budget"];

/// The first `count` tools as a JSON array; the three working ones come first.
pub fn tools(count: usize) -> String {
    let mut text = String::with_capacity(count * 1200);
    text.push('[');
    for index in 0..count {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&tool(index).to_string());
    }
    text.push(']');
    text
}

fn tool(index: usize) -> Value {
    match index {
        0 => working("echo", "Gives the text back.", "text", "string"),
        1 => working("blob", "Gives a text of this many bytes.", "size", "integer"),
        2 => working("sleep", "Answers after this many milliseconds.", "ms", "integer"),
        _ => generated(index),
    }
}

fn working(name: &str, description: &str, argument: &str, kind: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": { "type": "object", "properties": { argument: { "type": kind } } }
    })
}

fn generated(index: usize) -> Value {
    let verb = VERBS[index % VERBS.len()];
    let noun = NOUNS[index / VERBS.len() % NOUNS.len()];
    json!({
        "name": format!("{verb}_{noun}_{index}"),
        "title": format!("{verb} {noun} {index}"),
        "description": format!(
            "Use this to {verb} one {noun} of workspace {index}. It looks the {noun} up by its identifier, checks \
             that the caller may see it, and answers with the {noun} as it is right after the change, so that no \
             second question is needed. Ask for a preview first when the {noun} is shared with other teams."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": format!("The identifier of the {noun}, such as {noun}-{index}.") },
                "fields": {
                    "type": "array",
                    "items": { "type": "string", "enum": ["owner", "state", "due", "labels", "history"] },
                    "description": "Which parts to return; everything when left out."
                },
                "limit": { "type": "integer", "minimum": 1, "maximum": 500, "default": 50,
                           "description": "How many entries to return at most." },
                "preview": { "type": "boolean", "description": "Only say what would happen." },
                "note": { "type": "string", "maxLength": 2000, "description": "A remark kept in the history." }
            },
            "required": ["id"],
            "additionalProperties": false
        },
        "annotations": { "readOnlyHint": matches!(verb, "list" | "fetch" | "search" | "count"), "openWorldHint": false }
    })
}

/// A text of exactly this many bytes, as a JSON string.
pub fn blob(size_bytes: usize) -> String {
    // Mostly letters, with line ends and quotes as in real answers.
    const LINE: &[u8] =
        b"The ferry \"Gudrun\" leaves at 07:40 from pier 3; two cars, nine bicycles, no freight.\n";
    let text: String = LINE.iter().cycle().take(size_bytes).map(|byte| char::from(*byte)).collect();
    Value::String(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_tool_has_the_size_that_the_goals_assume() {
        let text = tools(1000);
        let each = text.len() / 1000;
        assert!((1050..1250).contains(&each), "{each} bytes");
    }

    #[test]
    fn names_are_unique() {
        let tools: Vec<Value> = serde_json::from_str(&tools(500)).expect("a list");
        let names: std::collections::HashSet<_> = tools.iter().map(|tool| tool["name"].to_string()).collect();
        assert_eq!(names.len(), 500);
    }

    #[test]
    fn a_blob_has_the_requested_size() {
        for size in [0, 1, 100, 65536] {
            let text: String = serde_json::from_str(&blob(size)).expect("a string");
            assert_eq!(text.len(), size);
        }
    }
}
