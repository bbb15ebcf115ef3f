//! What all bundled servers share: MCP in both eras, over whole messages on two queues.
//!
//! A tool that needs a model's answer returns a question and is called again with the answer. In the newest
//! era the client carries both; in the older ones the question is asked here, in the middle of the call.

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

/// The most calls that run at once.
const MAX_CALLS: usize = 64;
/// The most questions that one call may ask.
const MAX_QUESTIONS: usize = 4;
/// The key that a question goes by in the newest era.
const KEY: &str = "answer";

/// A bundled server.
#[async_trait]
pub(super) trait Server: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Its tools, as MCP lists them.
    fn tools(&self) -> Value;
    /// Calls a tool; nothing where it has no such tool.
    async fn call(&self, call: Call) -> Option<Reply>;
}

/// Whether a model can be asked through the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampling {
    Possible,
    Impossible,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) sampling: Sampling,
    /// The model's answer, when the tool has asked before.
    pub(super) answered: Option<Answered>,
}

/// An answer of a model, and what the tool wanted to remember of its question.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) answer: Value,
    pub(super) state: String,
}

impl Call {
    /// An argument that is a text.
    pub(super) fn text(&self, key: &str) -> Result<&str, Reply> {
        self.arguments[key].as_str().ok_or_else(|| Reply::failed(&format!("`{key}` must be a string")))
    }
}

/// What came of a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// A result.
    Result(Value),
    /// A question to a model: the parameters of `sampling/createMessage`, and what to remember.
    Ask { params: Value, state: String },
}

impl Reply {
    /// A text.
    pub(super) fn text(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}], "isError": false}))
    }

    /// A failure of the tool.
    pub(super) fn failed(text: &str) -> Self {
        Self::Result(json!({"content": [{"type": "text", "text": text}], "isError": true}))
    }

    /// An object, as structured content and as text.
    pub(super) fn object(object: &Value) -> Self {
        Self::Result(json!({
            "content": [{"type": "text", "text": object.to_string()}],
            "structuredContent": object, "isError": false,
        }))
    }
}

/// Serves until the queue ends.
pub(super) async fn attend(server: Arc<dyn Server>, queues: Queues) {
    let Queues { mut incoming, outgoing } = queues;
    let conversation = Arc::new(Conversation {
        server,
        outgoing,
        told: Mutex::new(Value::Null),
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
            (None, Some(id)) => conversation.heard(id, &message),
            (_, None) => {}
        }
    }
    // Who closes its end still hears what it asked for.
    while calls.join_next().await.is_some() {}
}

struct Conversation {
    server: Arc<dyn Server>,
    outgoing: mpsc::Sender<Bytes>,
    /// What a client of the older eras said it can do.
    told: Mutex<Value>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next_question: AtomicU64,
}

impl Conversation {
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
                *self.told() = params["capabilities"].clone();
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

    /// Calls a tool, as often as it asks.
    async fn call(&self, id: &Value, params: &Value) {
        let is_modern = params["_meta"].get(REVISION).is_some();
        let can_sample = match is_modern {
            true => params["_meta"][CAPABILITIES]["sampling"].is_object(),
            false => self.told()["sampling"].is_object(),
        };
        let tool = params["name"].as_str().unwrap_or_default();
        let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let given = params["inputResponses"].get(KEY).cloned().zip(params["requestState"].as_str());
        let mut answered = given.map(|(answer, state)| Answered { answer, state: state.to_owned() });
        for _ in 0..=MAX_QUESTIONS {
            let call = Call {
                tool: tool.to_owned(),
                arguments: arguments.clone(),
                sampling: if can_sample { Sampling::Possible } else { Sampling::Impossible },
                answered,
            };
            match self.server.call(call).await {
                None => return self.error(id, -32602, &format!("Unknown tool: {tool}")).await,
                Some(Reply::Result(mut result)) => {
                    if is_modern {
                        result["resultType"] = "complete".into();
                    }
                    return self.result(id, result).await;
                }
                Some(Reply::Ask { params, state }) if is_modern => {
                    let question = json!({"method": "sampling/createMessage", "params": params});
                    let result = json!({
                        "resultType": "input_required", "inputRequests": {KEY: question}, "requestState": state,
                    });
                    return self.result(id, result).await;
                }
                Some(Reply::Ask { params, state }) => match self.ask(params).await {
                    Ok(answer) => answered = Some(Answered { answer, state }),
                    Err(why) => {
                        let Reply::Result(result) = Reply::failed(&why) else { return };
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
        let answer = answer.await.map_err(|_| "the client went away".to_owned())?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => {
                let why = answer["error"]["message"].as_str().unwrap_or("no reason given");
                Err(format!("the model was not asked: {why}"))
            }
        }
    }

    /// Takes an answer to a question.
    fn heard(&self, id: &Value, message: &Value) {
        let number = id.as_str().and_then(|id| id.strip_prefix("question-")?.parse::<u64>().ok());
        if let Some(reply) = number.and_then(|number| self.questions().remove(&number)) {
            let _ = reply.send(message.clone());
        }
    }

    fn told(&self) -> MutexGuard<'_, Value> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Value>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a server answers, in the newest era.
    pub(in crate::demo) async fn call(server: impl Server, tool: &str, arguments: Value) -> Value {
        let call = Call { tool: tool.to_owned(), arguments, sampling: Sampling::Impossible, answered: None };
        match server.call(call).await {
            Some(Reply::Result(result)) => result,
            other => panic!("no result: {other:?}"),
        }
    }

    /// A server that asks as often as it is told to.
    struct Curious;

    #[async_trait]
    impl Server for Curious {
        fn name(&self) -> &'static str {
            "curious"
        }

        fn tools(&self) -> Value {
            json!([])
        }

        async fn call(&self, call: Call) -> Option<Reply> {
            if call.tool == "wait" {
                tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
            }
            Some(match call.answered {
                Some(Answered { answer, state }) => Reply::text(&format!("{answer} after {state}")),
                None if call.sampling == Sampling::Impossible => Reply::text("alone"),
                None => Reply::Ask { params: json!({"maxTokens": 1}), state: "once".into() },
            })
        }
    }

    struct Client {
        to: mpsc::Sender<Bytes>,
        from: mpsc::Receiver<Bytes>,
    }

    impl Client {
        fn new() -> Self {
            let (to, incoming) = mpsc::channel(8);
            let (outgoing, from) = mpsc::channel(8);
            tokio::spawn(attend(Arc::new(Curious), Queues { incoming, outgoing }));
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
    async fn a_question_is_carried_by_the_client_in_the_newest_era() {
        let mut client = Client::new();
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
    async fn a_question_is_asked_during_the_call_in_the_older_eras() {
        let mut client = Client::new();
        client.say(request(1, "initialize", json!({"capabilities": {"sampling": {}}}))).await;
        assert_eq!(client.hear().await["result"]["protocolVersion"], LEGACY);
        for (answer, expected) in [
            (json!({"result": 8}), "8 after once"),
            (json!({"error": {"code": -1, "message": "no"}}), "the model was not asked: no"),
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
    async fn a_slow_call_holds_nobody_up_and_can_be_taken_back() {
        let mut client = Client::new();
        client.say(request(1, "tools/call", json!({"name": "wait"}))).await;
        client.say(request(2, "ping", json!({}))).await;
        assert_eq!(client.hear().await["id"], 2);
        client.say(json!({"method": "notifications/cancelled", "params": {"requestId": 1}})).await;
        client.say(request(3, "nonsense", json!({}))).await;
        assert_eq!(client.hear().await["error"]["code"], -32601);
        drop(client.to);
        // The call that was taken back does not keep the server from ending.
        assert!(client.from.recv().await.is_none());
    }
}
