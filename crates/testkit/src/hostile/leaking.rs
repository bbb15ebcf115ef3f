//! A server that repeats its secret wherever it can.

use super::wire::{HostileCall, HostileServer, StdioWire, ok_tool, text_result, tool, unknown};
use serde_json::{Value, json};
use std::env;

/// Writes its environment variable `LEAK` to standard error, standard output and every kind of answer.
pub struct Leaks;

impl HostileServer for Leaks {
    fn name(&self) -> &'static str {
        "hostile-leaks"
    }

    fn tools(&self) -> Vec<Value> {
        let how = json!({"type": "string", "description": "result, tool-error, error or number."});
        vec![ok_tool(), tool("leak", "Repeats its secret.", json!({ "how": how }))]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "leak" {
            return unknown(call, wire);
        }
        let secret = env::var("LEAK").unwrap_or_default();
        eprintln!("connecting with {secret}");
        wire.raw(format!("using {secret}\n").as_bytes());
        let text = format!("the key is {secret}.");
        match call.arguments["how"].as_str().unwrap_or_default() {
            "error" => wire.send(&json!({"jsonrpc": "2.0", "id": call.id,
                "error": {"code": -32000, "message": text, "data": {"key": secret}}})),
            "tool-error" => {
                let mut result = text_result(&text);
                result["isError"] = json!(true);
                wire.answer(&call.id, result);
            }
            _ => wire.answer(&call.id, text_result(&text)),
        }
    }
}
