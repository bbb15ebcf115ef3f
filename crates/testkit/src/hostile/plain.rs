//! Well-behaved servers: echo, environment, very many tools.

use super::wire::{HostileCall, HostileServer, StdioWire, ok_tool, text_result, tool, unknown};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};

/// Returns its arguments unchanged.
pub struct Echo;

impl HostileServer for Echo {
    fn name(&self) -> &'static str {
        "hostile-echo"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool(), tool("echo", "Returns its arguments unchanged.", json!({}))]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        match call.tool.as_str() {
            "echo" => {
                let mut result = text_result(&call.arguments.to_string());
                result["structuredContent"] = call.arguments.clone();
                wire.answer(&call.id, result);
            }
            _ => unknown(call, wire),
        }
    }
}

/// Shows its environment.
pub struct Environment;

impl HostileServer for Environment {
    fn name(&self) -> &'static str {
        "hostile-env"
    }

    fn tools(&self) -> Vec<Value> {
        vec![
            ok_tool(),
            tool("env", "Returns the server's environment as a JSON object.", json!({})),
            tool("process", "Returns the server process's signals, descriptors and group.", json!({})),
        ]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        match call.tool.as_str() {
            "env" => {
                let shown = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
                let all: serde_json::Map<String, Value> =
                    env::vars_os().map(|(name, value)| (shown(name), Value::String(shown(value)))).collect();
                wire.answer_text(&call.id, &Value::Object(all).to_string());
            }
            "process" => wire.answer_text(&call.id, &process().to_string()),
            _ => unknown(call, wire),
        }
    }
}

/// The signal masks, descriptors and process group of this process.
fn process() -> Value {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |key: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(key));
        found.map(|rest| rest.trim().to_owned())
    };
    let mut descriptors: Vec<i32> = fs::read_dir("/proc/self/fd")
        .map(|found| found.flatten().filter_map(|one| one.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    descriptors.sort_unstable();
    // The last one belongs to this listing.
    descriptors.pop();
    let leads = nix::unistd::getpgrp() == nix::unistd::getpid();
    json!({"ignored": line("SigIgn:"), "blocked": line("SigBlk:"), "descriptors": descriptors, "leads_group": leads})
}

/// Has a tool list with endless pages.
pub struct PagesEndlessly;

impl HostileServer for PagesEndlessly {
    fn name(&self) -> &'static str {
        "hostile-pages-endlessly"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool()]
    }

    fn next_page(&mut self) -> Option<String> {
        static PAGE: AtomicU64 = AtomicU64::new(0);
        Some(format!("page {}", PAGE.fetch_add(1, Ordering::Relaxed)))
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        unknown(call, wire);
    }
}

/// Has many tools, some of them invalid.
pub struct ManyTools {
    /// The number of valid tools.
    pub count: u64,
}

impl HostileServer for ManyTools {
    fn name(&self) -> &'static str {
        "hostile-many-tools"
    }

    fn tools(&self) -> Vec<Value> {
        let readable = (0..self.count).map(|number| {
            let properties = json!({"value": {"type": "string", "description": "Anything."}});
            tool(&format!("tool_{number}"), &format!("Does the thing with number {number}."), properties)
        });
        let unreadable = [
            json!({"description": "No name.", "inputSchema": {"type": "object"}}),
            json!({"name": 42, "description": "A name that is a number.", "inputSchema": {"type": "object"}}),
            json!({"name": "no_schema", "description": "No input schema."}),
            json!({"name": "boolean_schema", "description": "A boolean as schema.", "inputSchema": true}),
            json!({"name": "", "description": "An empty name.", "inputSchema": {"type": "object"}}),
            json!({"name": null, "inputSchema": null}),
            json!("not an object"),
        ];
        // In the middle, so that a reader that stops at the first invalid tool loses valid ones.
        let mut tools: Vec<Value> = readable.collect();
        let middle = tools.len() / 2;
        tools.splice(middle..middle, unreadable);
        tools
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        wire.answer_text(&call.id, &call.tool);
    }
}
