//! The MCP protocol of all bundled servers, in both eras, over two message queues.
//!
//! A tool that needs a model's answer returns a question and is called again with the answer. In the modern era the
//! client carries both; in the legacy era the question is asked here, during the call.

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use toolbooth_upstream::bundled::Queues;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The maximum number of concurrent calls.
const MAX_CALLS: usize = 64;
/// The maximum number of questions during one call.
const MAX_QUESTIONS: usize = 4;
/// The key of a question in the modern era.
const KEY: &str = "answer";

/// A bundled server.
#[async_trait]
pub(super) trait BundledServer: Send + Sync {
    /// Name of the server.
    fn name(&self) -> &'static str;
    /// The tools, in the format of `tools/list`.
    fn tools(&self) -> Value;
    /// Calls a tool; `None` if it does not exist.
    async fn call(&self, call: BundledCall) -> Option<BundledReply>;
}

/// Whether a model can be asked through the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SamplingSupport {
    Possible,
    Impossible,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct BundledCall {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) sampling: SamplingSupport,
    /// The model's answer, if the tool has asked before.
    pub(super) answered: Option<ModelAnswer>,
}

/// An answer of a model, and the state that the tool attached to its question.
#[derive(Debug)]
pub(super) struct ModelAnswer {
    pub(super) answer: Value,
    pub(super) state: String,
}

impl BundledCall {
    /// A string argument.
    pub(super) fn text(&self, key: &str) -> Result<&str, BundledReply> {
        self.arguments[key].as_str().ok_or_else(|| BundledReply::failed(&format!("`{key}` must be a string")))
    }
}

/// The outcome of a tool call.
#[derive(Debug)]
pub(super) enum BundledReply {
    /// A result.
    Result(Value),
    /// A question to a model: the parameters of `sampling/createMessage`, and a state for the next call.
    Ask { params: Value, state: String },
}

impl BundledReply {
    /// A text result.
    pub(super) fn text(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}], "isError": false}))
    }

    /// An error of the tool.
    pub(super) fn failed(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}], "isError": true}))
    }

    /// An object as structured content and as text.
    pub(super) fn object(object: &Value) -> Self {
        Self::Result(json!({
            "content": [{"type": "text", "text": object.to_string()}],
            "structuredContent": object, "isError": false,
        }))
    }
}

/// Serves until the incoming queue is closed.
pub(super) async fn serve_queues(server: Arc<dyn BundledServer>, queues: Queues) {
    let Queues { mut incoming, outgoing } = queues;
    let conversation = Arc::new(BundledConversation {
        server,
        outgoing,
        client_capabilities: Mutex::new(Value::Null),
        questions: Mutex::default(),
        next_question: AtomicU64::new(1),
    });
    let mut calls = JoinSet::new();
    let mut running: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(text) = incoming.recv().await {
        while calls.try_join_next().is_some() {}
        running.retain(|_, call| !call.is_finished());
        let Ok(message) = serde_json::from_slice::<Value>(&text) else { continue };
        match (message["method"].as_str(), message.get("id")) {
            (Some("notifications/cancelled"), _) => {
                if let Some(call) = running.remove(&message["params"]["requestId"].to_string()) {
                    call.abort();
                }
            }
            (Some("tools/call"), Some(id)) if calls.len() < MAX_CALLS => {
                let conversation = conversation.clone();
                let (id, params) = (id.clone(), message["params"].clone());
                let key = id.to_string();
                let call = async move { conversation.call(&id, &params).await };
                running.insert(key, calls.spawn(call));
            }
            (Some(method), Some(id)) => conversation.answer(id, method, &message["params"]).await,
            (None, Some(id)) => conversation.receive_answer(id, &message),
            (_, None) => {}
        }
    }
    // A client that closes its queue still gets its answers.
    while calls.join_next().await.is_some() {}
}

struct BundledConversation {
    server: Arc<dyn BundledServer>,
    outgoing: mpsc::Sender<Bytes>,
    /// The capabilities of a legacy client.
    client_capabilities: Mutex<Value>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next_question: AtomicU64,
}

impl BundledConversation {
    async fn send(&self, message: Value) {
        let _ = self.outgoing.send(message.to_string().into()).await;
    }

    async fn result(&self, id: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    async fn error(&self, id: &Value, code: i64, text: &str) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})).await;
    }

    async fn answer(&self, id: &Value, method: &str, params: &Value) {
        let name = format!("toolbooth-{}", self.server.name());
        let info = json!({"name": name, "version": env!("CARGO_PKG_VERSION")});
        let result = match method {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": [MODERN, LEGACY], "capabilities": {"tools": {}},
                "ttlMs": 3_600_000, "cacheScope": "public", "_meta": {"io.modelcontextprotocol/serverInfo": info},
            }),
            "initialize" => {
                *self.client_capabilities() = params["capabilities"].clone();
                json!({"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": info})
            }
            "ping" => json!({}),
            "tools/list" => json!({
                "resultType": "complete", "tools": self.server.tools(), "ttlMs": 3_600_000, "cacheScope": "public",
            }),
            "tools/call" => return self.error(id, -32603, "too many calls at once").await,
            other => return self.error(id, -32601, &format!("Method not found: {other}")).await,
        };
        self.result(id, result).await;
    }

    /// Calls a tool, again after each of its questions.
    async fn call(&self, id: &Value, params: &Value) {
        let is_modern = params["_meta"].get(REVISION).is_some();
        let can_sample = match is_modern {
            true => params["_meta"][CAPABILITIES]["sampling"].is_object(),
            false => self.client_capabilities()["sampling"].is_object(),
        };
        let tool = params["name"].as_str().unwrap_or_default();
        let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let given = params["inputResponses"].get(KEY).cloned().zip(params["requestState"].as_str());
        let mut answered = given.map(|(answer, state)| ModelAnswer { answer, state: state.to_owned() });
        for _ in 0..=MAX_QUESTIONS {
            let call = BundledCall {
                tool: tool.to_owned(),
                arguments: arguments.clone(),
                sampling: if can_sample { SamplingSupport::Possible } else { SamplingSupport::Impossible },
                answered,
            };
            match self.server.call(call).await {
                None => return self.error(id, -32602, &format!("Unknown tool: {tool}")).await,
                Some(BundledReply::Result(mut result)) => {
                    if is_modern {
                        result["resultType"] = "complete".into();
                    }
                    return self.result(id, result).await;
                }
                Some(BundledReply::Ask { params, state }) if is_modern => {
                    let question = json!({"method": "sampling/createMessage", "params": params});
                    let result = json!({
                        "resultType": "input_required", "inputRequests": {KEY: question}, "requestState": state,
                    });
                    return self.result(id, result).await;
                }
                Some(BundledReply::Ask { params, state }) => match self.ask(params).await {
                    Ok(answer) => answered = Some(ModelAnswer { answer, state }),
                    Err(why) => {
                        let BundledReply::Result(result) = BundledReply::failed(&why) else { return };
                        return self.result(id, result).await;
                    }
                },
            }
        }
        self.error(id, -32603, "the tool asked too often").await;
    }

    async fn ask(&self, params: Value) -> Result<Value, String> {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.questions().insert(number, reply);
        let id = format!("question-{number}");
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params}))
            .await;
        let answer = answer.await.map_err(|_| "the client disconnected".to_owned())?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => {
                let why = answer["error"]["message"].as_str().unwrap_or("no reason given");
                Err(format!("the model did not answer: {why}"))
            }
        }
    }

    /// Passes an answer to the call that asked.
    fn receive_answer(&self, id: &Value, message: &Value) {
        let number = id.as_str().and_then(|id| id.strip_prefix("question-")?.parse::<u64>().ok());
        if let Some(reply) = number.and_then(|number| self.questions().remove(&number)) {
            let _ = reply.send(message.clone());
        }
    }

    fn client_capabilities(&self) -> MutexGuard<'_, Value> {
        self.client_capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Value>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Calls a tool of a server that cannot ask a model.
    pub(in crate::demo) async fn call(server: impl BundledServer, tool: &str, arguments: Value) -> Value {
        let call = BundledCall {
            tool: tool.to_owned(),
            arguments,
            sampling: SamplingSupport::Impossible,
            answered: None,
        };
        match server.call(call).await {
            Some(BundledReply::Result(result)) => result,
            other => panic!("no result: {other:?}"),
        }
    }

    /// A server that asks a question in every call.
    struct Curious;

    #[async_trait]
    impl BundledServer for Curious {
        fn name(&self) -> &'static str {
            "curious"
        }

        fn tools(&self) -> Value {
            json!([])
        }

        async fn call(&self, call: BundledCall) -> Option<BundledReply> {
            if call.tool == "wait" {
                tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            }
            Some(match call.answered {
                Some(ModelAnswer { answer, state }) => BundledReply::text(&format!("{answer} after {state}")),
                None if call.sampling == SamplingSupport::Impossible => BundledReply::text("alone"),
                None => BundledReply::Ask { params: json!({"maxTokens": 1}), state: "once".into() },
            })
        }
    }

    struct BundledClient {
        to: mpsc::Sender<Bytes>,
        from: mpsc::Receiver<Bytes>,
    }

    impl BundledClient {
        fn new() -> Self {
            let (to, incoming) = mpsc::channel(8);
            let (outgoing, from) = mpsc::channel(8);
            tokio::spawn(serve_queues(Arc::new(Curious), Queues { incoming, outgoing }));
            Self { to, from }
        }

        async fn say(&self, message: Value) {
            self.to.send(message.to_string().into()).await.expect("it listens");
        }

        async fn hear(&mut self) -> Value {
            serde_json::from_slice(&self.from.recv().await.expect("a message")).expect("JSON")
        }
    }

    fn request(id: u64, method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    #[tokio::test]
    async fn a_question_is_carried_by_the_client_in_the_modern_era() {
        let mut client = BundledClient::new();
        let meta = json!({REVISION: MODERN, CAPABILITIES: {"sampling": {}}});
        client.say(request(1, "tools/call", json!({"name": "x", "_meta": meta}))).await;
        let asked = client.hear().await;
        assert_eq!(asked["result"]["resultType"], "input_required");
        assert_eq!(asked["result"]["inputRequests"][KEY]["method"], "sampling/createMessage");
        let again = json!({
            "name": "x", "_meta": meta, "requestState": asked["result"]["requestState"], "inputResponses": {KEY: 7},
        });
        client.say(request(2, "tools/call", again)).await;
        assert_eq!(client.hear().await["result"]["content"][0]["text"], "7 after once");
        let alone = json!({"name": "x", "_meta": {REVISION: MODERN}});
        client.say(request(3, "tools/call", alone)).await;
        assert_eq!(client.hear().await["result"]["content"][0]["text"], "alone");
    }

    #[tokio::test]
    async fn a_question_is_asked_during_the_call_in_the_legacy_era() {
        let mut client = BundledClient::new();
        client.say(request(1, "initialize", json!({"capabilities": {"sampling": {}}}))).await;
        assert_eq!(client.hear().await["result"]["protocolVersion"], LEGACY);
        for (answer, expected) in [
            (json!({"result": 8}), "8 after once"),
            (json!({"error": {"code": -1, "message": "no"}}), "the model did not answer: no"),
        ] {
            client.say(request(2, "tools/call", json!({"name": "x"}))).await;
            let question = client.hear().await;
            assert_eq!(question["method"], "sampling/createMessage");
            let mut reply = answer.clone();
            reply["id"] = question["id"].clone();
            client.say(reply).await;
            assert_eq!(client.hear().await["result"]["content"][0]["text"], expected);
        }
    }

    #[tokio::test]
    async fn a_slow_call_blocks_no_other_and_can_be_cancelled() {
        let mut client = BundledClient::new();
        client.say(request(1, "tools/call", json!({"name": "wait"}))).await;
        client.say(request(2, "ping", json!({}))).await;
        assert_eq!(client.hear().await["id"], 2);
        client.say(json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
        client.say(request(3, "nonsense", json!({}))).await;
        assert_eq!(client.hear().await["error"]["code"], -32601);
        drop(client.to);
        // A cancelled call does not keep the server from ending.
        assert!(client.from.recv().await.is_none());
    }
}
