//! A server whose mood is written in a file, and that writes down what it did in another.

use super::wire::{Call, Temper, Wire, text_result, tool};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::exit;

/// Does as its mood says: `ok`, `rpc` (an error of the protocol), `tool` (an error of the tool), `hang` (acts and never
/// answers), `die` (ends before it acts), `acts` (acts and ends without an answer), `once` (as `die`, and is well then).
pub struct Moody {
    /// What it calls itself.
    pub name: String,
    /// Where its mood is written.
    pub mood: PathBuf,
    /// Where it writes what it did.
    pub ledger: PathBuf,
}

impl Moody {
    fn act(&self, call: &Call, wire: &Wire) {
        let message: Value = serde_json::from_str(wire.line()).unwrap_or_default();
        let key = message["params"]["_meta"]["toolbooth/idempotency-key"].as_str().unwrap_or("-").to_owned();
        let text = call.arguments["text"].as_str().unwrap_or("-");
        let mut file = File::options().create(true).append(true).open(&self.ledger).expect("a ledger");
        let line = format!("{} {} {text} {key}\n", self.name, call.tool);
        file.write_all(line.as_bytes()).expect("room in the ledger");
    }
}

impl Temper for Moody {
    fn name(&self) -> &'static str {
        "hostile-moody"
    }

    fn tools(&self) -> Vec<Value> {
        let text = json!({ "text": { "type": "string" } });
        vec![tool("look", "Looks something up.", text.clone()), tool("put", "Puts something down.", text)]
    }

    fn call(&mut self, call: &Call, wire: &mut Wire) {
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
                fs::write(&self.mood, "ok").expect("a mood");
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
