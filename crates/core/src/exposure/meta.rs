//! The meta tools: let a model find, read and call tools that its client does not list.

use crate::json::{RawJson, parse_strictly};
use serde_json::json;

pub use crate::own_names::{CALL, DESCRIBE, LIST, SEARCH, STATS};

/// The maximum nesting depth of arguments sent as text: the same as of a client's message.
const MAX_DEPTH: usize = 64;

/// The definitions of the meta tools. They are short, because every client in `search` mode has them in its context.
pub fn definitions() -> [RawJson; 4] {
    let text = json!({ "type": "string" });
    let reads = json!({ "readOnlyHint": true });
    [
        json!({
            "name": SEARCH,
            "description": "Find tools for a task; most are not listed. Call a hit by name or with mcp_tool_call.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "What to do, or a name" },
                    "queries": { "type": "array", "items": text },
                    "regex": { "type": ["string", "boolean"] },
                    "limit": { "type": "integer" }
                }
            },
            "annotations": reads
        }),
        json!({
            "name": LIST,
            "description": "List all tools by pages.",
            "inputSchema": { "type": "object", "properties": { "server": text, "cursor": text } },
            "annotations": reads
        }),
        json!({
            "name": DESCRIBE,
            "description": "Get a full definition.",
            "inputSchema": { "type": "object", "properties": { "name": text }, "required": ["name"] },
            "annotations": reads
        }),
        json!({
            "name": CALL,
            "description": "Call any tool.",
            "inputSchema": {
                "type": "object",
                "properties": { "name": text, "arguments": { "type": "object" } },
                "required": ["name"]
            }
        }),
    ]
    .map(|definition| RawJson::from_value(&definition))
}

/// The definition of the tool for context statistics. It can be called, but no client lists it.
pub fn stats_definition() -> RawJson {
    RawJson::from_value(&json!({
        "name": STATS,
        "description": "Show how many tokens your tools use in this client's context.",
        "inputSchema": { "type": "object", "properties": {} },
        "annotations": { "readOnlyHint": true }
    }))
}

/// The tool and arguments of the call inside a call of [`CALL`]. `None` if it has no inner call, or if that is another
/// such call; the outer call then reports the error.
pub fn inner_call(arguments: Option<&RawJson>) -> Option<(String, Option<RawJson>)> {
    let arguments = arguments?;
    let [name, inner] = arguments.pick(["name", "arguments"]);
    let name = arguments.share(name?).string()?.into_owned();
    let inner = inner.map(|inner| arguments.share(inner));
    (name != CALL).then_some((name, inner.map(unwrapped)))
}

/// Some models send the arguments as text that contains JSON. It is parsed as strictly as any request: text with a
/// duplicate key stays text, which no tool accepts as arguments.
fn unwrapped(arguments: RawJson) -> RawJson {
    let inside = arguments.string().and_then(|text| parse_strictly(text.into_owned(), MAX_DEPTH).ok());
    inside.filter(RawJson::is_object).unwrap_or(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_call_is_extracted() {
        let cases = [
            (r#"{"name":"a","arguments":{"x":1.0}}"#, Some(("a", Some(r#"{"x":1.0}"#)))),
            (r#"{"name":"a"}"#, Some(("a", None))),
            (r#"{"name":"a","arguments":"{\"x\":1}"}"#, Some(("a", Some(r#"{"x":1}"#)))),
            (r#"{"name":"a","arguments":"x"}"#, Some(("a", Some(r#""x""#)))),
            // M1: text that parsers read differently is not parsed.
            (r#"{"name":"a","arguments":"{\"x\":1,\"x\":2}"}"#, Some(("a", Some(r#""{\"x\":1,\"x\":2}""#)))),
            (
                r#"{"name":"a","arguments":"{\"o\":{\"x\":1,\"\\u0078\":2}}"}"#,
                Some(("a", Some(r#""{\"o\":{\"x\":1,\"\\u0078\":2}}""#))),
            ),
            (r#"{"name":"mcp_tool_call","arguments":{"name":"a"}}"#, None),
            (r#"{"arguments":{}}"#, None),
            (r#"{"name":7}"#, None),
        ];
        for (given, expected) in cases {
            let given = RawJson::parse(given.to_owned()).expect("JSON");
            let found = inner_call(Some(&given));
            let found = found.as_ref().map(|(name, inner)| (&**name, inner.as_ref().map(RawJson::as_str)));
            assert_eq!(found, expected, "{given}");
        }
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100), "]".repeat(100));
        let given = RawJson::from_value(&json!({ "name": "a", "arguments": deep }));
        let (_, inner) = inner_call(Some(&given)).expect("a call");
        assert!(!inner.expect("arguments").is_object(), "nor what nests too deep");
    }
}
