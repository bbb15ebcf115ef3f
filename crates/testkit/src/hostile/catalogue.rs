//! A server with the tools of a file, that writes down every call as it came, word for word.

use super::wire::{Call, Temper, Wire, text_result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Offers what a file lists, does nothing, and keeps a record of what it was asked.
pub struct Catalogue {
    tools: Vec<Value>,
    record: File,
}

impl Catalogue {
    /// The tools of a file: a list, or an object with a list in `tools`.
    pub fn new(tools: &Path, record: &Path) -> Self {
        let text = fs::read_to_string(tools).expect("a file with tools");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        let listed = read.get("tools").unwrap_or(&read);
        let tools = listed.as_array().expect("a list of tools").clone();
        let record = File::options().create(true).append(true).open(record).expect("a record");
        Self { tools, record }
    }
}

impl Temper for Catalogue {
    fn name(&self) -> &'static str {
        "catalogue"
    }

    fn tools(&self) -> Vec<Value> {
        self.tools.clone()
    }

    fn call(&mut self, call: &Call, wire: &mut Wire) {
        // The text, not what was read of it: a key that stands twice must show.
        self.record.write_all(wire.line().as_bytes()).expect("room in the record");
        let mut result = text_result(&call.arguments.to_string());
        result["structuredContent"] = call.arguments.clone();
        wire.answer(&call.id, result);
    }
}
