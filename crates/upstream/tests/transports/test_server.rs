//! A small legacy server, independent of its transport.

use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

/// The server's next action on its channel.
pub enum Act {
    /// Sends a message.
    Say(Value),
    /// Breaks the channel without closing it.
    HangUp,
}

/// What the server received: messages, headers and the end of a channel.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A message from the gateway.
    Message(Value),
    /// The headers of a request from the gateway.
    Headers(&'static str, Vec<(String, String)>),
    /// The gateway closed the channel, with a code if the transport has codes.
    Ended(Option<u16>),
}

/// A test's view of what the server received.
pub struct Journal(pub mpsc::UnboundedReceiver<Seen>);

impl Journal {
    /// Waits until `wanted` returns a value for something the server received.
    pub async fn find<T>(&mut self, wanted: impl Fn(&Seen) -> Option<T>) -> T {
        let found = async {
            loop {
                let seen = self.0.recv().await.expect("the server is running");
                if let Some(found) = wanted(&seen) {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), found).await.expect("the server receives it in time")
    }

    /// Waits for a message with this method.
    pub async fn message(&mut self, method: &str) -> Value {
        self.find(|seen| match seen {
            Seen::Message(message) if message["method"] == method => Some(message.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for one header of one kind of request.
    pub async fn header(&mut self, of: &str, name: &str) -> Option<String> {
        self.find(|seen| match seen {
            Seen::Headers(kind, headers) if *kind == of => {
                Some(headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
            }
            _ => None,
        })
        .await
    }

    /// Waits for the end of the channel.
    pub async fn end(&mut self) -> Option<u16> {
        self.find(|seen| if let Seen::Ended(code) = seen { Some(*code) } else { None }).await
    }

    /// Everything received so far.
    pub fn drain(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// The headers of a request as text.
pub fn written(headers: &http::HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or("?").to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// Answers messages until the channel ends.
pub async fn answer_messages(
    mut inbox: mpsc::Receiver<Value>,
    acts: mpsc::Sender<Act>,
    seen: mpsc::UnboundedSender<Seen>,
) {
    let mut asking = None;
    while let Some(message) = inbox.recv().await {
        let _ = seen.send(Seen::Message(message.clone()));
        let id = message["id"].clone();
        let params = &message["params"];
        let say = |result: Value| Act::Say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let acts_now = match (message["method"].as_str(), params["name"].as_str()) {
            (Some("initialize"), _) => vec![say(json!({
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "brain", "version": "1"},
            }))],
            (Some("tools/list"), _) => {
                vec![say(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}))]
            }
            (Some("ping"), _) => vec![say(json!({}))],
            (Some("tools/call"), Some("echo")) => {
                let progress =
                    json!({"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 2});
                let progress =
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress});
                let text = params["arguments"]["text"].clone();
                vec![Act::Say(progress), say(json!({"content": [{"type": "text", "text": text}]}))]
            }
            (Some("tools/call"), Some("long")) => {
                vec![say(json!({"content": [{"type": "text", "text": "x".repeat(100_000)}]}))]
            }
            (Some("tools/call"), Some("flood")) => {
                // In a separate task, so that answers are still read and the channel does not fill up before
                // the flood is detected.
                let acts = acts.clone();
                tokio::spawn(async move {
                    for number in 0..5000 {
                        let ping = json!({"jsonrpc": "2.0", "id": format!("p{number}"), "method": "ping"});
                        if acts.send(Act::Say(ping)).await.is_err() {
                            return;
                        }
                    }
                });
                vec![]
            }
            (Some("tools/call"), Some("ask")) => {
                asking = Some(id);
                let question =
                    json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
                let ask =
                    json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": question});
                vec![Act::Say(ask)]
            }
            (Some("tools/call"), Some("hang up")) => vec![Act::HangUp],
            (Some("tools/call"), _) | (Some("notifications/initialized" | "notifications/cancelled"), _) => {
                vec![]
            }
            (None, _) if id == "q1" => {
                let asked = asking.take().expect("a question was asked");
                let result = json!({"content": [], "structuredContent": message["result"]});
                vec![Act::Say(json!({"jsonrpc": "2.0", "id": asked, "result": result}))]
            }
            (Some(_), _) if !id.is_null() => {
                let error = json!({"code": -32601, "message": "Method not found"});
                vec![Act::Say(json!({"jsonrpc": "2.0", "id": id, "error": error}))]
            }
            _ => vec![],
        };
        for act in acts_now {
            if acts.send(act).await.is_err() {
                return;
            }
        }
    }
}
