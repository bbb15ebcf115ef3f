//! A server with the tools of a file, which records the exact text of every call.

use super::wire::{HostileCall, HostileServer, StdioWire, text_result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Offers the tools of a file and records calls.
pub struct FileTools {
    tools: Vec<Value>,
    record: File,
}

impl FileTools {
    /// Reads the tools from a file: a list, or an object with a list in `tools`.
    pub fn new(tools: &Path, record: &Path) -> Self {
        let text = fs::read_to_string(tools).expect("a file with tools");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        let listed = read.get("tools").unwrap_or(&read);
        let tools = listed.as_array().expect("a list of tools").clone();
        let record = File::options().create(true).append(true).open(record).expect("a record");
        Self { tools, record }
    }
}

impl HostileServer for FileTools {
    fn name(&self) -> &'static str {
        "catalogue"
    }

    fn tools(&self) -> Vec<Value> {
        self.tools.clone()
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        // The raw text, so that duplicate keys are visible.
        self.record.write_all(wire.line().as_bytes()).expect("the record can be written");
        let mut result = text_result(&call.arguments.to_string());
        result["structuredContent"] = call.arguments.clone();
        wire.answer(&call.id, result);
    }
}
