//! Servers with invalid output: too much, incomplete, with wrong ids, or on standard error.

use super::wire::{HostileCall, HostileServer, StdioWire, ok_tool, text_result, tool, unknown};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::exit;

const MIB: usize = 1024 * 1024;

fn number(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

/// Answers with one huge line.
pub struct HugeLine;

impl HostileServer for HugeLine {
    fn name(&self) -> &'static str {
        "hostile-huge-line"
    }

    fn tools(&self) -> Vec<Value> {
        let order = json!({"type": "boolean", "description": "Whether the id is at the end of the line."});
        let properties = json!({"mib": number("The size in MiB, by default 20."), "id_last": order});
        vec![ok_tool(), tool("huge", "Answers with one huge line.", properties)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "huge" {
            return unknown(call, wire);
        }
        let id = &call.id;
        let (start, end) = match call.arguments["id_last"].as_bool() {
            Some(true) => (String::new(), format!(r#","jsonrpc":"2.0","id":{id}"#)),
            _ => (format!(r#""jsonrpc":"2.0","id":{id},"#), String::new()),
        };
        wire.raw(format!(r#"{{{start}"result":{{"content":[{{"type":"text","text":""#).as_bytes());
        let part = vec![b'x'; MIB];
        for _ in 0..call.number("mib", 20) {
            wire.raw(&part);
        }
        wire.raw(format!("\"}}]}}{end}}}\n").as_bytes());
    }
}

/// Exits in the middle of an answer.
pub struct Dies;

impl HostileServer for Dies {
    fn name(&self) -> &'static str {
        "hostile-dies"
    }

    fn tools(&self) -> Vec<Value> {
        let properties = json!({"code": number("Its exit code, by default 3.")});
        vec![ok_tool(), tool("die", "Writes half an answer and exits.", properties)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "die" {
            return unknown(call, wire);
        }
        wire.raw(
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"te"#, call.id).as_bytes(),
        );
        exit(i32::try_from(call.number("code", 3)).unwrap_or(3));
    }
}

/// Answers with many wrong ids before the right one, and again after it.
#[derive(Default)]
pub struct IdConfusion {
    previous: Option<Value>,
}

impl HostileServer for IdConfusion {
    fn name(&self) -> &'static str {
        "hostile-id-confusion"
    }

    fn tools(&self) -> Vec<Value> {
        let properties = json!({"nonce": {"type": "string", "description": "Returned in the right answer."}});
        vec![ok_tool(), tool("confuse", "Answers `right` and the nonce, after wrong answers.", properties)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "confuse" {
            return unknown(call, wire);
        }
        let wrong = || text_result("wrong");
        // The right id in another notation is not among them: that fails the call (see `Unreadable`).
        let mut ids = vec![json!(987_654_321), json!("987654321"), json!("unknown"), json!(-1)];
        ids.extend([Value::Null, json!({})]);
        if let Value::Number(id) = &call.id {
            ids.push(json!(id.as_f64().unwrap_or_default() + 0.5));
        }
        ids.extend(self.previous.replace(call.id.clone()));
        for id in &ids {
            wire.answer(id, wrong());
        }
        wire.send(&json!({"jsonrpc": "2.0", "result": wrong()}));
        wire.send(&json!({"id": 987_654_321, "result": wrong()}));
        wire.send(&json!([{"jsonrpc": "2.0", "id": 987_654_321, "result": wrong()}]));
        wire.send(&json!({"jsonrpc": "2.0", "id": call.id, "method": "ping"}));
        let nonce = call.arguments["nonce"].as_str().unwrap_or_default();
        wire.answer_text(&call.id, &format!("right {nonce}"));
        wire.answer(&call.id, wrong());
    }
}

/// Sends invalid answers.
pub struct Unreadable;

impl HostileServer for Unreadable {
    fn name(&self) -> &'static str {
        "hostile-unreadable"
    }

    fn tools(&self) -> Vec<Value> {
        let ways = "both, neither, utf8, nul, version, no-id, text-id, fraction-id, batch or no-version.";
        let how = json!({"type": "string", "description": ways});
        let description = "Sends an invalid answer.";
        vec![
            ok_tool(),
            tool("garble", description, json!({"how": how})),
            tool("wait", "Never answers.", json!({})),
        ]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        let id = &call.id;
        let text = match (call.tool.as_str(), call.arguments["how"].as_str().unwrap_or_default()) {
            ("wait", _) => return,
            ("garble", "both") => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":{{"code":1,"message":"m"}}}}"#)
            }
            ("garble", "neither") => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
            ("garble", "version") => format!(r#"{{"jsonrpc":"1.0","id":{id},"result":{{}}}}"#),
            ("garble", "no-version") => format!(r#"{{"id":{id},"result":{{}}}}"#),
            ("garble", "text-id") => format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#),
            ("garble", "fraction-id") => format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{{}}}}"#),
            ("garble", "batch") => format!(r#"[{{"jsonrpc":"2.0","id":{id},"result":{{}}}}]"#),
            ("garble", "nul") => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"\0\"}}}}"),
            ("garble", "no-id") => "{\"jsonrpc\":\"2.0\",\"result\":{\"x\":\"\0\"}}".to_owned(),
            ("garble", _) => {
                wire.raw(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":""#).as_bytes());
                wire.raw(b"\xff\xfe\"}}\n");
                return;
            }
            _ => return unknown(call, wire),
        };
        wire.raw(format!("{text}\n").as_bytes());
    }
}

/// Announces changes of its tool list that did not happen.
pub struct Storm;

impl HostileServer for Storm {
    fn name(&self) -> &'static str {
        "hostile-storm"
    }

    fn tools(&self) -> Vec<Value> {
        let properties = json!({"count": number("How many, by default 1000.")});
        vec![ok_tool(), tool("storm", "Announces many times that its tools changed.", properties)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "storm" {
            return unknown(call, wire);
        }
        for _ in 0..call.number("count", 1000) {
            wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
        wire.answer_text(&call.id, "the storm is over");
    }
}

/// Floods its standard error before the handshake and on demand.
pub struct StderrFlood;

impl HostileServer for StderrFlood {
    fn name(&self) -> &'static str {
        "hostile-stderr-flood"
    }

    fn tools(&self) -> Vec<Value> {
        let properties = json!({"mib": number("How much, by default 8.")});
        vec![ok_tool(), tool("flood", "Writes much to standard error, then answers.", properties)]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "flood" {
            return unknown(call, wire);
        }
        flood(call.number("mib", 8));
        wire.answer_text(&call.id, "flooded");
    }
}

/// Writes this much to standard error, in coloured lines of 128 bytes.
pub fn flood(mib: u64) {
    let line = format!("\x1b[31m{}\x1b[0m\n", "e".repeat(128 - 10));
    let part = line.repeat(MIB / line.len());
    let mut output = io::stderr().lock();
    for _ in 0..mib {
        if output.write_all(part.as_bytes()).is_err() {
            return;
        }
    }
}
