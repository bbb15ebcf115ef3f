//! Servers that do not do their part: silence, calls without an answer, input left unread.

use super::LIFETIME;
use super::wire::{Call, Manner, Temper, Wire, ok_tool, tool, unknown};
use serde_json::{Value, json};
use std::thread::sleep;

/// Reads and never answers anything.
pub fn stay_silent() {
    let mut wire = Wire::new(Manner::Plain);
    while wire.receive().is_some() {}
}

/// Answers everything except one tool.
pub struct NeverAnswers;

impl Temper for NeverAnswers {
    fn name(&self) -> &'static str {
        "hostile-never-answers"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool(), tool("hang", "Never answers.", json!({}))]
    }

    fn call(&mut self, call: &Call, wire: &mut Wire) {
        if call.tool != "hang" {
            unknown(call, wire);
        }
    }
}

/// Stops reading once its tools were listed.
pub struct StopsReading;

impl Temper for StopsReading {
    fn name(&self) -> &'static str {
        "hostile-stops-reading"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool()]
    }

    fn call(&mut self, call: &Call, wire: &mut Wire) {
        unknown(call, wire);
    }

    fn after(&mut self, method: &str, _wire: &mut Wire) {
        if method == "tools/list" {
            sleep(LIFETIME);
        }
    }
}
