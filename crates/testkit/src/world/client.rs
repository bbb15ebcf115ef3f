//! Minimal MCP clients of both eras.

mod exchange;

pub use exchange::{Exchange, Transcript};

use super::changes::ChangeFeed;
use super::http::{Http, HttpReply};
use crate::fixture::{LEGACY, MODERN, TestEra};
use ::http::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers a server's question, given its method and params.
pub type Answers = Arc<dyn Fn(&str, &Value) -> Value + Send + Sync>;

/// The largest number of question rounds of a request.
const MOST_ROUNDS: usize = 10;

/// The gateway's own tool, which is in every tool list.
pub const OWN_TOOL: &str = "artifact_read";

/// A client of one gateway.
#[derive(Clone)]
pub struct TestClient {
    http: Http,
    /// The era it speaks.
    pub era: TestEra,
    revision: String,
    session: Option<String>,
    path: String,
    capabilities: Value,
    log_level: Option<String>,
    answers: Answers,
    headers: Vec<(String, String)>,
    next_id: Arc<AtomicU64>,
    name: String,
}

/// The body of a modern request that a test sends without a [`TestClient`].
pub fn modern_body(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// The headers of a modern request whose body names this method.
pub fn modern_headers(method: &str) -> [(&str, &str); 4] {
    [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", method),
    ]
}

/// All client capabilities.
pub fn all_capabilities() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

impl TestClient {
    /// A client with all capabilities.
    pub async fn of(era: TestEra, address: SocketAddr) -> Self {
        Self::with_capabilities(era, address, all_capabilities()).await
    }

    /// A client with this name and no capabilities.
    pub async fn named(name: &str, era: TestEra, address: SocketAddr) -> Self {
        let revision = if era == TestEra::Modern { MODERN } else { LEGACY };
        let mut client = Self::new(era, address, revision, json!({}));
        client.name = name.to_owned();
        if era == TestEra::Legacy { client.opened().await } else { client }
    }

    /// A client with these capabilities.
    pub async fn with_capabilities(era: TestEra, address: SocketAddr, capabilities: Value) -> Self {
        match era {
            TestEra::Modern => Self::new(era, address, MODERN, capabilities),
            TestEra::Legacy => Self::legacy(address, LEGACY, capabilities).await,
        }
    }

    /// A client without capabilities at this path, which sends these headers with every request.
    pub async fn with_headers(
        era: TestEra,
        address: SocketAddr,
        path: &str,
        headers: &[(String, String)],
    ) -> Self {
        let revision = if era == TestEra::Modern { MODERN } else { LEGACY };
        Self::with_revision(revision, address, path, headers, json!({})).await
    }

    /// A client of any revision with these capabilities at this path, which sends these headers with every request.
    pub async fn with_revision(
        revision: &str,
        address: SocketAddr,
        path: &str,
        headers: &[(String, String)],
        capabilities: Value,
    ) -> Self {
        let era = if revision == MODERN { TestEra::Modern } else { TestEra::Legacy };
        let mut client = Self::new(era, address, revision, capabilities);
        client.path = path.to_owned();
        client.headers = headers.to_vec();
        if era == TestEra::Legacy { client.opened().await } else { client }
    }

    /// A client of this legacy revision with an open session.
    pub async fn legacy(address: SocketAddr, revision: &str, capabilities: Value) -> Self {
        Self::new(TestEra::Legacy, address, revision, capabilities).opened().await
    }

    async fn opened(self) -> Self {
        let mut client = self;
        let (revision, capabilities) = (client.revision.clone(), client.capabilities.clone());
        let params = json!({ "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": { "name": client.name, "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": "initialize", "method": "initialize", "params": params });
        let reply = client.post(&body.to_string(), &[]).await;
        client.session = reply.header("mcp-session-id").map(str::to_owned);
        let answer = reply.json().await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    fn new(era: TestEra, address: SocketAddr, revision: &str, capabilities: Value) -> Self {
        Self {
            http: Http::new(address),
            era,
            revision: revision.to_owned(),
            session: None,
            path: "/mcp".to_owned(),
            capabilities,
            log_level: None,
            answers: Arc::new(|method, _| default_answer(method)),
            headers: Vec::new(),
            next_id: Arc::new(AtomicU64::new(1)),
            name: "world".to_owned(),
        }
    }

    /// Sets the function that answers questions.
    pub fn answering(mut self, answers: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        self.answers = Arc::new(answers);
        self
    }

    /// Requests log lines of this level with each request; modern only.
    pub fn with_log_level(mut self, level: &str) -> Self {
        self.log_level = Some(level.to_owned());
        self
    }

    /// Adds a header to each request.
    pub fn sending(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same client at another gateway, in the same session.
    pub fn moved_to(&self, address: SocketAddr) -> Self {
        Self { http: Http::new(address), ..self.clone() }
    }

    /// The same client with another session id.
    pub fn with_session(&self, session: &str) -> Self {
        Self { session: Some(session.to_owned()), ..self.clone() }
    }

    /// Ends the session.
    pub async fn end(&self) -> u16 {
        let headers = self.all_headers(&[]);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.http.send(Method::DELETE, &self.path, &headers, "").await.status
    }

    /// The session's id; modern clients have none.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The client's answer to a question.
    pub fn answer(&self, method: &str, params: &Value) -> Value {
        (self.answers)(method, params)
    }

    /// Sends a request and answers all questions until the request ends.
    pub async fn ask(&self, method: &str, params: Value) -> Transcript {
        let mut params = params;
        let mut transcript = self.start(method, params.clone()).await.finish().await;
        for _ in 0..MOST_ROUNDS {
            let result = &transcript.answer["result"];
            if result["resultType"] != "input_required" {
                return transcript;
            }
            let requests = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers: serde_json::Map<String, Value> = requests
                .iter()
                .map(|(key, asked)| {
                    let method = asked["method"].as_str().unwrap_or_default();
                    (key.clone(), self.answer(method, &asked["params"]))
                })
                .collect();
            params["inputResponses"] = answers.into();
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
            transcript.questions.extend(requests.into_iter().map(|(_, asked)| asked));
            let next = self.start(method, params.clone()).await.finish().await;
            transcript = transcript.then(next);
        }
        panic!("`{method}` took more than {MOST_ROUNDS} rounds of questions");
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Transcript {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Sends a request; the caller reads the reply.
    pub async fn start(&self, method: &str, params: Value) -> Exchange {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let name = ["name", "uri", "taskId"].iter().find_map(|member| params[*member].as_str());
        let name = name.map(str::to_owned);
        let mut params = params;
        if self.era == TestEra::Modern {
            for (key, value) in self.modern_meta() {
                params["_meta"][key] = value;
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let reply = self.post(&body.to_string(), &self.mirrored(method, name.as_deref())).await;
        Exchange::new(self.clone(), id, reply)
    }

    /// Calls a tool with exactly this text as arguments; returns the status and the exact text of the answer.
    pub async fn call_text(&self, tool: &str, arguments: &str) -> (u16, String) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let meta = match self.era {
            TestEra::Modern => {
                format!(",\"_meta\":{}", Value::Object(self.modern_meta().into_iter().collect()))
            }
            TestEra::Legacy => String::new(),
        };
        let name = Value::from(tool);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name},"arguments":{arguments}{meta}}}}}"#
        );
        let reply = self.post(&body, &self.mirrored("tools/call", Some(tool))).await;
        let status = reply.status;
        (status, last_text(reply).await)
    }

    /// The exact text of a list method's result.
    pub async fn list_text(&self, method: &str) -> String {
        let meta = match self.era {
            TestEra::Modern => json!({ "_meta": Value::Object(self.modern_meta().into_iter().collect()) }),
            TestEra::Legacy => json!({}),
        };
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": meta });
        // Without event streams the gateway does not ask for the roots before the list.
        let reply =
            self.post_accepting(&body.to_string(), &self.mirrored(method, None), "application/json").await;
        let text = last_text(reply).await;
        result_text(&text).unwrap_or_else(|| panic!("no result in {text}"))
    }

    /// The names of a list's entries, without the gateway's own tool.
    pub async fn names(&self, method: &str, member: &str) -> Vec<String> {
        let transcript = self.ask(method, json!({})).await;
        let entries = transcript.result()[member].as_array().cloned().unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry["name"].as_str());
        names.filter(|name| *name != OWN_TOOL).map(str::to_owned).collect()
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) -> u16 {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.post(&body.to_string(), &self.mirrored(method, None)).await.status
    }

    /// Answers a question of the gateway.
    pub async fn reply(&self, id: &Value, result: Value) -> u16 {
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        self.post(&body.to_string(), &[]).await.status
    }

    /// Opens the era's stream of change notifications, for all lists and these resources.
    pub async fn listen(&self, uris: &[&str]) -> ChangeFeed {
        match self.era {
            TestEra::Legacy => {
                let headers = self.all_headers(&[("accept".to_owned(), "text/event-stream".to_owned())]);
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let reply = self.http.send(Method::GET, &self.path, &headers, "").await;
                assert_eq!(reply.status, 200, "the stream opens");
                for uri in uris {
                    let transcript = self.ask("resources/subscribe", json!({ "uri": uri })).await;
                    assert_eq!(*transcript.result(), json!({}), "the subscription is accepted");
                }
                ChangeFeed::new(reply.events(), None)
            }
            TestEra::Modern => {
                let wanted = json!({ "toolsListChanged": true, "promptsListChanged": true,
                    "resourcesListChanged": true, "resourceSubscriptions": uris });
                let exchange = self.start("subscriptions/listen", json!({ "notifications": wanted })).await;
                let (id, mut events) = exchange.into_events();
                let first = events.next_within(super::TEST_TIMEOUT).await.expect("an acknowledgement");
                assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
                assert_eq!(first["params"]["notifications"]["toolsListChanged"], true, "{first}");
                ChangeFeed::new(events, Some(json!(id)))
            }
        }
    }

    /// Posts a body with the headers of the era and these headers.
    pub async fn post(&self, body: &str, more: &[(String, String)]) -> HttpReply {
        self.post_accepting(body, more, "application/json, text/event-stream").await
    }

    async fn post_accepting(&self, body: &str, more: &[(String, String)], accept: &str) -> HttpReply {
        let mut headers = self.all_headers(more);
        headers.push(("content-type".into(), "application/json".into()));
        headers.push(("accept".into(), accept.into()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.http.send(Method::POST, &self.path, &headers, body.to_owned()).await
    }

    fn all_headers(&self, more: &[(String, String)]) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        headers.extend_from_slice(more);
        if let Some(session) = &self.session {
            headers.push(("mcp-session-id".into(), session.clone()));
            headers.push(("mcp-protocol-version".into(), self.revision.clone()));
        }
        headers
    }

    /// The headers that mirror a modern body.
    pub fn mirrored(&self, method: &str, name: Option<&str>) -> Vec<(String, String)> {
        if self.era == TestEra::Legacy {
            return Vec::new();
        }
        let mut headers: Vec<(String, String)> = vec![
            ("mcp-protocol-version".into(), self.revision.clone()),
            ("mcp-method".into(), method.into()),
        ];
        if matches!(method, "tools/call" | "prompts/get" | "resources/read") || method.starts_with("tasks/") {
            headers.extend(name.map(|name| ("mcp-name".to_owned(), name.to_owned())));
        }
        headers
    }

    /// The members of `_meta` in every modern request.
    pub fn modern_meta(&self) -> Vec<(String, Value)> {
        let key = |name: &str| format!("io.modelcontextprotocol/{name}");
        let mut meta = vec![
            (key("protocolVersion"), json!(self.revision)),
            (key("clientCapabilities"), self.capabilities.clone()),
            (key("clientInfo"), json!({ "name": self.name, "version": "1" })),
        ];
        meta.extend(self.log_level.as_ref().map(|level| (key("logLevel"), json!(level))));
        meta
    }
}

async fn last_text(reply: HttpReply) -> String {
    if !reply.is_events() {
        return String::from_utf8(reply.bytes().await.to_vec()).expect("answers are UTF-8");
    }
    let mut events = reply.events();
    let mut last = String::new();
    while let Some(text) = events.next_text().await {
        last = text;
    }
    last
}

/// The exact text of the `result` in a response.
pub fn result_text(response: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct ResponseResult<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    let response: ResponseResult<'_> = serde_json::from_str(response).ok()?;
    response.result.map(|result| result.get().to_owned())
}

/// The default answers to elicitation, sampling and roots.
pub fn default_answer(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({ "action": "accept",
            "content": { "name": "Ann", "color": "blue", "context": "a test" } }),
        "sampling/createMessage" => json!({ "role": "assistant", "model": "world",
            "content": { "type": "text", "text": "Roses are red." } }),
        _ => json!({ "roots": [{ "uri": "file:///home/ann", "name": "home" }] }),
    }
}
