//! Servers that do not respond: silence, calls without an answer, unread input.

use super::LIFETIME;
use super::wire::{HostileCall, HostileServer, LineStyle, StdioWire, ok_tool, tool, unknown};
use serde_json::{Value, json};
use std::thread::sleep;

/// Reads and never answers.
pub fn stay_silent() {
    let mut wire = StdioWire::new(LineStyle::Plain);
    while wire.receive().is_some() {}
}

/// Answers all requests except calls of one tool.
pub struct NeverAnswers;

impl HostileServer for NeverAnswers {
    fn name(&self) -> &'static str {
        "hostile-never-answers"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool(), tool("hang", "Never answers.", json!({}))]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "hang" {
            unknown(call, wire);
        }
    }
}

/// Stops reading after `tools/list`.
pub struct StopsReading;

impl HostileServer for StopsReading {
    fn name(&self) -> &'static str {
        "hostile-stops-reading"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool()]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        unknown(call, wire);
    }

    fn after(&mut self, method: &str, _wire: &mut StdioWire) {
        if method == "tools/list" {
            sleep(LIFETIME);
        }
    }
}
