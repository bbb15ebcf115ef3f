//! The common part of all hostile servers: line-based input and output, and the basic methods.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::thread::sleep;
use std::time::Duration;

/// Older protocol versions that a client can request.
const OLDER_ERAS: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

/// The behaviour of one hostile server.
pub trait HostileServer {
    /// Its name in the handshake.
    fn name(&self) -> &'static str;

    /// The entries of its tool list.
    fn tools(&self) -> Vec<Value>;

    /// Handles a call, answering it or not.
    fn call(&mut self, call: &HostileCall, wire: &mut StdioWire);

    /// The cursor of the next page of its tool list.
    fn next_page(&mut self) -> Option<String> {
        None
    }

    /// Runs after a message was answered.
    fn after(&mut self, _method: &str, _wire: &mut StdioWire) {}
}

/// A tool call.
pub struct HostileCall {
    /// The request's id.
    pub id: Value,
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

impl HostileCall {
    /// An integer argument.
    pub fn number(&self, argument: &str, default: u64) -> u64 {
        self.arguments.get(argument).and_then(Value::as_u64).unwrap_or(default)
    }
}

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    /// Correctly.
    Plain,
    /// Between lines of garbage, in pieces, with different line endings.
    Noisy,
}

/// A server's standard input and output.
pub struct StdioWire {
    style: LineStyle,
    sent: u64,
    /// Messages received while the server waited for an answer.
    waiting: VecDeque<Value>,
    line: String,
}

impl StdioWire {
    pub fn new(style: LineStyle) -> Self {
        Self { style, sent: 0, waiting: VecDeque::new(), line: String::new() }
    }

    /// The exact text of the last message, with its line ending.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The next message; `None` at the end of the input.
    pub fn receive(&mut self) -> Option<Value> {
        if let Some(message) = self.waiting.pop_front() {
            return Some(message);
        }
        self.read()
    }

    fn read(&mut self) -> Option<Value> {
        loop {
            self.line.clear();
            match io::stdin().lock().read_line(&mut self.line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            if let Ok(message) = serde_json::from_str(&self.line) {
                return Some(message);
            }
        }
    }

    /// Sends a message in the server's line style.
    pub fn send(&mut self, message: &Value) {
        self.sent += 1;
        match self.style {
            LineStyle::Plain => self.raw(format!("{message}\n").as_bytes()),
            LineStyle::Noisy => self.send_noisily(&message.to_string()),
        }
    }

    fn send_noisily(&mut self, message: &str) {
        self.raw(b"Debugger listening on ws://127.0.0.1:9229\n\n\xff\xfe caf\xe9\n{\"half\": \n[]\n42\n\"text\"\nnull\n");
        self.raw(b"{\"hello\":\"I am JSON, but no message\"}\n\x1b[32mready\x1b[0m\r\n\r\n");
        let message = message.as_bytes();
        let (first, second) = message.split_at(message.len() / 2);
        match self.sent % 3 {
            0 => self.raw(&[b"\xef\xbb\xbf", message, b"\n"].concat()),
            1 => self.raw(&[message, b"\r\n"].concat()),
            _ => {
                self.raw(first);
                sleep(Duration::from_millis(5));
                self.raw(second);
                self.raw(b"\n");
            }
        }
        self.raw(b"   \n}{\n");
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let mut output = io::stdout().lock();
        // On a broken pipe, the end of the input will end the server.
        let _ = output.write_all(bytes).and_then(|()| output.flush());
    }

    /// Writes bytes as they are; returns whether that succeeded.
    pub fn try_raw(&mut self, bytes: &[u8]) -> bool {
        let mut output = io::stdout().lock();
        output.write_all(bytes).and_then(|()| output.flush()).is_ok()
    }

    /// Answers a request.
    pub fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Answers a tool call with a text.
    pub fn answer_text(&mut self, id: &Value, text: &str) {
        self.answer(id, text_result(text));
    }

    /// Sends a request to the client.
    pub fn request(&mut self, id: &str, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Sends a request to the client and waits for its answer; other messages are queued.
    pub fn ask(&mut self, id: &str, method: &str, params: Value) -> Option<Value> {
        self.request(id, method, params);
        loop {
            let message = self.read()?;
            if message.get("method").is_none() && message.get("id").is_some_and(|given| given == id) {
                return Some(message);
            }
            self.waiting.push_back(message);
        }
    }
}

/// A tool list entry that takes any object.
pub fn tool(name: &str, description: &str, properties: Value) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": true},
    })
}

/// The tool that works on every hostile server.
pub fn ok_tool() -> Value {
    tool("ok", "Answers with the word ok, to show that the server still works.", json!({}))
}

/// A tool result with one text.
pub fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

/// Serves until the input ends.
pub fn serve(wire: &mut StdioWire, mut server: impl HostileServer) {
    while let Some(message) = wire.receive() {
        let Some(method) = message.get("method").and_then(Value::as_str) else { continue };
        if let Some(id) = message.get("id") {
            respond(wire, &mut server, method, id, &message["params"]);
        }
        server.after(method, wire);
    }
}

fn respond(wire: &mut StdioWire, server: &mut impl HostileServer, method: &str, id: &Value, params: &Value) {
    match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str();
            let era = asked.filter(|era| OLDER_ERAS.contains(era)).unwrap_or("2025-11-25");
            wire.answer(
                id,
                json!({
                    "protocolVersion": era,
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": server.name(), "version": "1.0.0"},
                }),
            );
        }
        "ping" => wire.answer(id, json!({})),
        "tools/list" => {
            let mut page = json!({"tools": server.tools()});
            if let Some(next) = server.next_page() {
                page["nextCursor"] = json!(next);
            }
            wire.answer(id, page);
        }
        "tools/call" => {
            let tool = params["name"].as_str().unwrap_or_default().to_owned();
            let call = HostileCall { id: id.clone(), tool, arguments: params["arguments"].clone() };
            match call.tool.as_str() {
                "ok" => wire.answer_text(id, "ok"),
                _ => server.call(&call, wire),
            }
        }
        _ => wire.send(&json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": {"code": -32601, "message": "Method not found"},
        })),
    }
}

/// Answers a call of a tool that the server does not have.
pub fn unknown(call: &HostileCall, wire: &mut StdioWire) {
    wire.send(&json!({
        "jsonrpc": "2.0",
        "id": call.id,
        "error": {"code": -32602, "message": format!("Unknown tool: {}", call.tool)},
    }));
}
