//! The answers of the test server on any transport: both eras, with prepared bytes for long answers.

use crate::catalog;
use crate::era::{BenchEra, VERSION_KEY};
use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest blob.
const BLOB_LIMIT_BYTES: usize = 64 * 1024 * 1024;
/// The longest sleep.
const SLEEP_LIMIT: Duration = Duration::from_secs(60);
/// The number of blob sizes that are cached.
const BLOBS_KEPT: usize = 16;

/// The text of one answer in parts, so that long texts are not copied.
pub type AnswerParts = Vec<Bytes>;

/// The reply to a message.
pub enum ServerReply {
    /// No reply: the message was a notification or a response.
    Accepted,
    /// An answer.
    Message(AnswerParts),
    /// An answer that opens a session.
    Session(AnswerParts),
}

/// The test server.
pub struct BenchServer {
    lists: [Bytes; 2],
    blobs: Mutex<HashMap<usize, Bytes>>,
    /// The number of received messages of any kind.
    pub messages: AtomicU64,
}

#[derive(Deserialize)]
struct IncomingMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: ToolArguments<'a>,
}

#[derive(Deserialize, Default)]
struct ToolArguments<'a> {
    /// Returned unchanged.
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    size: Option<usize>,
    ms: Option<u64>,
}

#[derive(Deserialize)]
struct InitializeParams<'a> {
    #[serde(borrow, rename = "protocolVersion")]
    version: Cow<'a, str>,
}

impl BenchServer {
    /// Creates a server with this many tools.
    pub fn new(tools: usize) -> Self {
        let tools = catalog::tools(tools);
        let list = |era: BenchEra| Bytes::from(format!("{{\"tools\":{tools}{}}}", era.cache_tail()));
        Self {
            lists: [list(BenchEra::Legacy), list(BenchEra::Modern)],
            blobs: Mutex::default(),
            messages: AtomicU64::new(0),
        }
    }

    /// Answers one message; `None` if it is not a JSON-RPC message.
    pub async fn answer(&self, text: &[u8]) -> Option<ServerReply> {
        let message: IncomingMessage<'_> = serde_json::from_slice(text).ok()?;
        let method = message.method.as_deref();
        self.messages.fetch_add(1, Ordering::Relaxed);
        let (Some(id), Some(method)) = (message.id, method) else { return Some(ServerReply::Accepted) };
        let params = message.params.map_or("{}", RawValue::get);
        let modern = memmem::find(params.as_bytes(), VERSION_KEY.as_bytes()).is_some();
        let era = if modern { BenchEra::Modern } else { BenchEra::Legacy };
        Some(match self.result(method, params, era).await {
            Ok(result) => {
                let parts = envelope(id, result);
                if method == "initialize" { ServerReply::Session(parts) } else { ServerReply::Message(parts) }
            }
            Err((code, reason)) => ServerReply::Message(vec![Bytes::from(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{{\"code\":{code},\"message\":\"{reason}\"}}}}",
                id.get()
            ))]),
        })
    }

    async fn result(
        &self,
        method: &str,
        params: &str,
        era: BenchEra,
    ) -> Result<AnswerParts, (i32, &'static str)> {
        let whole = |text: String| Ok(vec![Bytes::from(text)]);
        match method {
            "tools/call" => self.call(params, era).await,
            "tools/list" => Ok(vec![self.lists[usize::from(era == BenchEra::Modern)].clone()]),
            "initialize" => whole(initialize(params)),
            "server/discover" => whole(format!(
                "{{\"supportedVersions\":[\"{}\",\"{}\"],\"capabilities\":{{\"tools\":{{}}}},\
                 \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":\
                 {{\"name\":\"bench-server\",\"version\":\"1.0.0\"}}}}{}}}",
                BenchEra::Modern.version(),
                BenchEra::Legacy.version(),
                BenchEra::Modern.cache_tail()
            )),
            "ping" => whole("{}".into()),
            _ => Err((-32601, "Method not found")),
        }
    }

    async fn call(&self, params: &str, era: BenchEra) -> Result<AnswerParts, (i32, &'static str)> {
        let Ok(call) = serde_json::from_str::<CallParams<'_>>(params) else {
            return Err((-32602, "Invalid params"));
        };
        let arguments = &call.arguments;
        let text = match &*call.name {
            "echo" => Bytes::copy_from_slice(arguments.text.map_or("\"\"", RawValue::get).as_bytes()),
            "blob" => self.blob(arguments.size.unwrap_or(1024).min(BLOB_LIMIT_BYTES)),
            "sleep" => {
                tokio::time::sleep(Duration::from_millis(arguments.ms.unwrap_or(0)).min(SLEEP_LIMIT)).await;
                Bytes::from_static(b"\"slept\"")
            }
            _ => Bytes::from_static(b"\"done\""),
        };
        Ok(vec![
            Bytes::from_static(b"{\"content\":[{\"type\":\"text\",\"text\":"),
            text,
            Bytes::from(format!("}}],\"isError\":false{}}}", era.result_tail())),
        ])
    }

    fn blob(&self, size: usize) -> Bytes {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(blob) = blobs.get(&size) {
            return blob.clone();
        }
        let blob = Bytes::from(catalog::blob(size));
        if blobs.len() < BLOBS_KEPT {
            blobs.insert(size, blob.clone());
        }
        blob
    }
}

fn initialize(params: &str) -> String {
    let requested = serde_json::from_str::<InitializeParams<'_>>(params).map(|params| params.version);
    let version = match requested.as_deref() {
        Ok(known @ ("2024-11-05" | "2025-03-26" | "2025-06-18")) => known,
        _ => BenchEra::Legacy.version(),
    };
    format!(
        "{{\"protocolVersion\":\"{version}\",\"capabilities\":{{\"tools\":{{}}}},\
         \"serverInfo\":{{\"name\":\"bench-server\",\"version\":\"1.0.0\"}}}}"
    )
}

/// Wraps a result in a message. Short parts are joined, because each part is a separate write.
fn envelope(id: &RawValue, result: AnswerParts) -> AnswerParts {
    const JOINED_BYTES: usize = 4096;
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.get());
    let length: usize = result.iter().map(Bytes::len).sum();
    if length > JOINED_BYTES {
        let mut parts = vec![Bytes::from(head)];
        parts.extend(result);
        parts.push(Bytes::from_static(b"}"));
        return parts;
    }
    let mut text = Vec::with_capacity(head.len() + length + 1);
    text.extend_from_slice(head.as_bytes());
    for part in result {
        text.extend_from_slice(&part);
    }
    text.push(b'}');
    vec![Bytes::from(text)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn ask(message: Value) -> Value {
        match BenchServer::new(5).answer(message.to_string().as_bytes()).await {
            Some(ServerReply::Message(parts) | ServerReply::Session(parts)) => {
                serde_json::from_slice(&parts.concat()).expect("JSON")
            }
            _ => Value::Null,
        }
    }

    #[tokio::test]
    async fn echo_returns_its_text() {
        let params = json!({ "name": "echo", "arguments": { "text": "a \"b\"\n" } });
        let answer =
            ask(json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params })).await;
        assert_eq!(answer["id"], "x");
        assert_eq!(answer["result"]["content"][0]["text"], "a \"b\"\n");
        assert_eq!(answer["result"].get("resultType"), None);
    }

    #[tokio::test]
    async fn a_modern_request_gets_a_modern_result() {
        let params = BenchEra::Modern.complete(json!({ "name": "blob", "arguments": { "size": 9000 } }));
        let answer =
            ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(9000));
    }

    #[tokio::test]
    async fn all_tools_are_listed() {
        let answer = ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
        assert_eq!(answer["result"]["tools"].as_array().map(Vec::len), Some(5));
    }

    #[tokio::test]
    async fn a_notification_has_no_reply() {
        assert_eq!(
            ask(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await,
            Value::Null
        );
    }
}
