//! A server whose behaviour is read from a file, and that records its actions in another file.

use super::wire::{HostileCall, HostileServer, StdioWire, text_result, tool};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::exit;

/// Behaves as its mood file says: `ok`, `rpc` (a protocol error), `tool` (a tool error), `hang` (acts and never
/// answers), `die` (exits before it acts), `acts` (acts and exits without an answer), `once` (as `die`, then `ok`).
pub struct Moody {
    /// Its name in the record and in results.
    pub name: String,
    /// The path of the mood file.
    pub mood: PathBuf,
    /// The path of the record of its actions.
    pub ledger: PathBuf,
}

impl Moody {
    fn act(&self, call: &HostileCall, wire: &StdioWire) {
        let message: Value = serde_json::from_str(wire.line()).unwrap_or_default();
        let key = message["params"]["_meta"]["toolbooth/idempotency-key"].as_str().unwrap_or("-").to_owned();
        let text = call.arguments["text"].as_str().unwrap_or("-");
        let mut file =
            File::options().create(true).append(true).open(&self.ledger).expect("the ledger can be opened");
        let line = format!("{} {} {text} {key}\n", self.name, call.tool);
        file.write_all(line.as_bytes()).expect("the ledger can be written");
    }
}

impl HostileServer for Moody {
    fn name(&self) -> &'static str {
        "hostile-moody"
    }

    fn tools(&self) -> Vec<Value> {
        let text = json!({ "text": { "type": "string" } });
        vec![tool("look", "Looks something up.", text.clone()), tool("put", "Puts something down.", text)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        let mood = fs::read_to_string(&self.mood).unwrap_or_default();
        match mood.trim() {
            "rpc" => wire.send(&json!({
                "jsonrpc": "2.0", "id": call.id, "error": {"code": -32603, "message": "in a bad mood"},
            })),
            "tool" => {
                let mut result = text_result("not today");
                result["isError"] = true.into();
                wire.answer(&call.id, result);
            }
            "hang" => self.act(call, wire),
            "die" => exit(3),
            "once" => {
                fs::write(&self.mood, "ok").expect("the mood file can be written");
                exit(3)
            }
            "acts" => {
                self.act(call, wire);
                exit(3)
            }
            _ => {
                self.act(call, wire);
                let mut result = text_result(&self.name);
                result["structuredContent"] = json!({ "by": self.name, "arguments": call.arguments });
                wire.answer(&call.id, result);
            }
        }
    }
}
