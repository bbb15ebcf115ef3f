//! A server that sends requests to its client: for input, for sampling and for roots, also outside of calls.

use super::wire::{HostileCall, HostileServer, StdioWire, ok_tool, tool, unknown};
use serde_json::{Value, json};

/// Asks the client during calls, and optionally for roots after the handshake.
pub struct Asks {
    opening: Opening,
    asked: u64,
}

#[derive(PartialEq, Eq)]
enum Opening {
    Quiet,
    AsksForRoots,
}

impl Asks {
    /// With the argument `roots` it asks for roots right after the handshake.
    pub fn new(argument: &str) -> Self {
        let opening = if argument == "roots" { Opening::AsksForRoots } else { Opening::Quiet };
        Self { opening, asked: 0 }
    }

    /// Asks until a question is refused, and does not answer the call.
    fn interrogate(&mut self, wire: &mut StdioWire) {
        loop {
            self.asked += 1;
            let answer = wire.ask(&format!("question-{}", self.asked), "elicitation/create", name_form());
            if answer.is_none_or(|answer| answer.get("result").is_none()) {
                return;
            }
        }
    }
}

impl HostileServer for Asks {
    fn name(&self) -> &'static str {
        "hostile-asks"
    }

    fn tools(&self) -> Vec<Value> {
        vec![
            ok_tool(),
            tool("ask_name", "Asks the user for a name and returns the answer.", json!({})),
            tool("sample", "Asks the client's model and returns the answer.", json!({})),
            tool("roots", "Asks for the client's roots and returns the answer.", json!({})),
            tool("interrogate", "Asks the user one question after another.", json!({})),
        ]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool == "interrogate" {
            return self.interrogate(wire);
        }
        let (method, params) = match call.tool.as_str() {
            "ask_name" => ("elicitation/create", name_form()),
            "sample" => ("sampling/createMessage", sample()),
            "roots" => ("roots/list", json!({})),
            _ => return unknown(call, wire),
        };
        self.asked += 1;
        let Some(answer) = wire.ask(&format!("question-{}", self.asked), method, params) else { return };
        let shown = answer.get("result").or_else(|| answer.get("error")).cloned().unwrap_or_default();
        wire.answer_text(&call.id, &shown.to_string());
    }

    fn after(&mut self, method: &str, wire: &mut StdioWire) {
        if method == "initialize" && self.opening == Opening::AsksForRoots {
            wire.request("unsolicited-roots", "roots/list", json!({}));
        }
    }
}

/// Sends requests without end and does not read.
pub struct AsksEndlessly;

impl HostileServer for AsksEndlessly {
    fn name(&self) -> &'static str {
        "hostile-asks-endlessly"
    }

    fn tools(&self) -> Vec<Value> {
        vec![ok_tool(), tool("flood", "Pings without end, and reads no answer.", json!({}))]
    }

    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire) {
        if call.tool != "flood" {
            return unknown(call, wire);
        }
        let pings: String = (0..1000)
            .map(|number| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"p{number}\",\"method\":\"ping\"}}\n"))
            .collect();
        // Ends when the pipe breaks.
        while wire.try_raw(pings.as_bytes()) {}
    }
}

fn name_form() -> Value {
    json!({
        "mode": "form",
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Your name."}},
            "required": ["name"],
        },
    })
}

fn sample() -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say a word."}}],
        "maxTokens": 16,
    })
}
