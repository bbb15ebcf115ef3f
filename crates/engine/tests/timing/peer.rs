//! A server that the test scripts: it speaks MCP over the queues of a bundled server.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolbooth_upstream::bundled::Queues;

thread_local! {
    /// The servers of the test on this thread: each test has its own single-threaded runtime.
    static PEERS: RefCell<HashMap<String, Arc<ScriptedPeer>>> = RefCell::default();
}

/// Finds a server of this test.
pub fn open(name: &str, queues: Queues) -> Option<BoxFuture<'static, ()>> {
    let peer = PEERS.with(|peers| peers.borrow().get(name).cloned())?;
    Some(Box::pin(peer.serve(queues)))
}

/// How the server ends a call.
pub enum Reply {
    /// A text result.
    Text(String),
    /// A result.
    Result(Value),
    /// An error of the protocol.
    Error(i64),
    /// The connection is lost.
    HangUp,
    /// Never.
    Silence,
}

/// A text result.
pub fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

/// A result that is not an object, which no server may send.
pub fn malformed() -> Reply {
    Reply::Result(json!(5))
}

/// A call that the server received.
pub struct ReceivedCall {
    /// How many calls the server received before.
    pub earlier: usize,
    pub params: Value,
    outgoing: mpsc::Sender<Bytes>,
}

impl ReceivedCall {
    /// Sends a progress notification of the call.
    pub async fn progress(&self, step: u32) {
        let params = json!({ "progressToken": self.params["_meta"]["progressToken"], "progress": step });
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        let _ = self.outgoing.send(notice.to_string().into()).await;
    }
}

type Script = Box<dyn Fn(ReceivedCall) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A server that the test scripts.
pub struct ScriptedPeer {
    pub name: &'static str,
    created: Instant,
    /// How long a new connection reads nothing.
    pub start_delay: Mutex<Duration>,
    tools: Mutex<Vec<Value>>,
    script: Script,
    /// When calls arrived, since the server was created.
    calls: Mutex<Vec<Duration>>,
    /// The latest connection. Weak, because a connection ends when its last sender is dropped.
    connection: Mutex<Option<mpsc::WeakSender<Bytes>>>,
    hang_up: Notify,
    /// Whether new connections end at once.
    is_down: AtomicBool,
    /// When connections were opened, since the server was created.
    opened: Mutex<Vec<Duration>>,
}

impl ScriptedPeer {
    /// A server with the tool `work`, whose calls the script answers.
    pub fn new<F, A>(name: &'static str, script: F) -> Arc<Self>
    where
        F: Fn(ReceivedCall) -> A + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        let peer = Arc::new(Self {
            name,
            created: Instant::now(),
            start_delay: Mutex::default(),
            tools: Mutex::new(vec![tool("work")]),
            script: Box::new(move |call| Box::pin(script(call))),
            calls: Mutex::default(),
            connection: Mutex::default(),
            hang_up: Notify::new(),
            is_down: AtomicBool::new(false),
            opened: Mutex::default(),
        });
        PEERS.with(|peers| peers.borrow_mut().insert(name.to_owned(), peer.clone()));
        peer
    }

    /// When calls arrived, in milliseconds since the server was created.
    pub fn calls_ms(&self) -> Vec<u128> {
        self.calls.lock().unwrap().iter().map(Duration::as_millis).collect()
    }

    /// When connections were opened, in milliseconds since the server was created, each time once.
    pub fn opened_ms(&self) -> Vec<u128> {
        let mut opened: Vec<u128> = self.opened.lock().unwrap().iter().map(Duration::as_millis).collect();
        opened.dedup();
        opened
    }

    /// Ends the connection. New ones end at once.
    pub fn go_down(&self) {
        self.is_down.store(true, Ordering::Relaxed);
        self.hang_up.notify_one();
    }

    /// Accepts connections again.
    pub fn come_up(&self) {
        self.is_down.store(false, Ordering::Relaxed);
    }

    /// Replaces the tools, and tells the gateway.
    pub async fn set_tools(&self, names: &[&str]) {
        *self.tools.lock().unwrap() = names.iter().map(|name| tool(name)).collect();
        self.announce_tools().await;
    }

    /// Replaces the description of a tool, and tells the gateway.
    pub async fn describe(&self, index: usize, description: &str) {
        self.tools.lock().unwrap()[index]["description"] = description.into();
        self.announce_tools().await;
    }

    async fn announce_tools(&self) {
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        let connection = self.connection.lock().unwrap().clone();
        let outgoing = connection.and_then(|weak| weak.upgrade()).expect("a connection");
        let _ = outgoing.send(notice.to_string().into()).await;
    }

    async fn serve(self: Arc<Self>, queues: Queues) {
        let Queues { mut incoming, outgoing } = queues;
        self.opened.lock().unwrap().push(self.created.elapsed());
        if self.is_down.load(Ordering::Relaxed) {
            return;
        }
        *self.connection.lock().unwrap() = Some(outgoing.downgrade());
        let delay = *self.start_delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        let mut calls = JoinSet::new();
        loop {
            let message = tokio::select! {
                message = incoming.recv() => message,
                () = self.hang_up.notified() => return,
            };
            let Some(message) = message else { return };
            let message: Value = serde_json::from_slice(&message).expect("JSON");
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
            match method {
                "tools/call" => {
                    let (peer, id, outgoing) = (self.clone(), id.clone(), outgoing.clone());
                    calls.spawn(async move { peer.call(id, message["params"].clone(), outgoing).await });
                }
                _ => {
                    let answer = json!({ "jsonrpc": "2.0", "id": id });
                    let _ = outgoing.send(with(answer, self.answer(method)).to_string().into()).await;
                }
            }
        }
    }

    /// The answer to a request other than a call: a member of the response.
    fn answer(&self, method: &str) -> (&'static str, Value) {
        let info = json!({ "name": self.name, "version": "1" });
        let result = match method {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28", "2025-11-25"],
                "capabilities": { "tools": {} }, "ttlMs": 3_600_000, "cacheScope": "public",
                "_meta": { "io.modelcontextprotocol/serverInfo": info },
            }),
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": info,
            }),
            "ping" => json!({}),
            "tools/list" => json!({
                "resultType": "complete", "tools": *self.tools.lock().unwrap(), "ttlMs": 3_600_000,
                "cacheScope": "public",
            }),
            _ => return ("error", json!({ "code": -32601, "message": "Method not found" })),
        };
        ("result", result)
    }

    async fn call(&self, id: Value, params: Value, outgoing: mpsc::Sender<Bytes>) {
        let earlier = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(self.created.elapsed());
            calls.len() - 1
        };
        let call = ReceivedCall { earlier, params, outgoing: outgoing.clone() };
        let ending = match (self.script)(call).await {
            Reply::Text(text) => {
                let content = json!([{ "type": "text", "text": text }]);
                ("result", json!({ "resultType": "complete", "content": content, "isError": false }))
            }
            Reply::Result(result) => ("result", result),
            Reply::Error(code) => ("error", json!({ "code": code, "message": "no" })),
            Reply::HangUp => return self.hang_up.notify_one(),
            Reply::Silence => return std::future::pending().await,
        };
        let answer = with(json!({ "jsonrpc": "2.0", "id": id }), ending);
        let _ = outgoing.send(answer.to_string().into()).await;
    }
}

fn with(mut object: Value, (key, value): (&str, Value)) -> Value {
    object[key] = value;
    object
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "Does some work", "inputSchema": { "type": "object" } })
}
