//! A server that writes each executed call to a file, so that a test can see calls that ran twice.

use super::wire::{HostileCall, HostileServer, StdioWire, ok_tool, text_result, unknown};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

/// Writes entries to a file, one per line.
pub struct LedgerServer {
    /// The path of the file.
    pub file: PathBuf,
}

fn tool(name: &str, properties: Value, required: &[&str]) -> Value {
    json!({
        "name": name,
        "description": "Keeps entries.",
        "inputSchema": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        },
    })
}

impl LedgerServer {
    fn entries(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn add(&self, entry: &str) {
        let mut file =
            File::options().create(true).append(true).open(&self.file).expect("the ledger can be opened");
        file.write_all(format!("{entry}\n").as_bytes()).expect("the ledger can be written");
    }
}

impl HostileServer for LedgerServer {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn tools(&self) -> Vec<Value> {
        let entry = json!({ "text": { "type": "string" }, "username": { "type": "string" } });
        vec![
            ok_tool(),
            tool("write_entry", entry.clone(), &["text"]),
            tool("delete_entry", entry, &["text"]),
            tool("read_entries", json!({}), &[]),
        ]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        let text = call.arguments["text"].as_str().unwrap_or_default();
        match call.tool.as_str() {
            "write_entry" => {
                let by = call.arguments["username"].as_str().unwrap_or("no user");
                self.add(&format!("{text} by {by}"));
                wire.answer_text(&call.id, &format!("wrote {text}"));
            }
            "delete_entry" => {
                let mut result = text_result(&format!("there is no entry {text}"));
                result["isError"] = true.into();
                wire.answer(&call.id, result);
            }
            "read_entries" => wire.answer_text(&call.id, &self.entries().join("\n")),
            _ => unknown(call, wire),
        }
    }
}
