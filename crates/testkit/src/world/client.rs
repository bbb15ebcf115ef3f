//! MCP clients of both eras, in the least code that can be trusted.

use super::changes::Changes;
use super::exchange::{Exchange, Told};
use super::http::{Http, Reply};
use crate::fixture::{Era, LEGACY, MODERN};
use ::http::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Answers a server's question, given its method and params.
pub type Answers = Arc<dyn Fn(&str, &Value) -> Value + Send + Sync>;

/// The most rounds of questions that a request may take.
const MOST_ROUNDS: usize = 10;

/// The tool of the gateway's own, which stands in every list of tools.
pub const OWN_TOOL: &str = "artifact_read";

/// A client of one gateway.
#[derive(Clone)]
pub struct Client {
    http: Http,
    /// The era it speaks.
    pub era: Era,
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

/// The body of a modern request that a test sends as it is, without a [`Client`].
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

/// Everything a client can be asked.
pub fn everything() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

impl Client {
    /// A client of either era that can be asked everything.
    pub async fn of(era: Era, address: SocketAddr) -> Self {
        Self::with_capabilities(era, address, everything()).await
    }

    /// A client of either era that gives itself this name, and can be asked nothing.
    pub async fn called(name: &str, era: Era, address: SocketAddr) -> Self {
        let revision = if era == Era::Modern { MODERN } else { LEGACY };
        let mut client = Self::new(era, address, revision, json!({}));
        client.name = name.to_owned();
        if era == Era::Legacy { client.opened().await } else { client }
    }

    /// A client of either era that can be asked this much.
    pub async fn with_capabilities(era: Era, address: SocketAddr, capabilities: Value) -> Self {
        match era {
            Era::Modern => Self::new(era, address, MODERN, capabilities),
            Era::Legacy => Self::legacy(address, LEGACY, capabilities).await,
        }
    }

    /// A client of either era at this path, sending these headers from the first request on.
    pub async fn known(era: Era, address: SocketAddr, path: &str, headers: &[(String, String)]) -> Self {
        let revision = if era == Era::Modern { MODERN } else { LEGACY };
        Self::showing(revision, address, path, headers, json!({})).await
    }

    /// A client of any revision that can be asked this much, at this path, sending these headers always.
    pub async fn showing(
        revision: &str,
        address: SocketAddr,
        path: &str,
        headers: &[(String, String)],
        capabilities: Value,
    ) -> Self {
        let era = if revision == MODERN { Era::Modern } else { Era::Legacy };
        let mut client = Self::new(era, address, revision, capabilities);
        client.path = path.to_owned();
        client.headers = headers.to_vec();
        if era == Era::Legacy { client.opened().await } else { client }
    }

    /// A client of this legacy revision, its session open.
    pub async fn legacy(address: SocketAddr, revision: &str, capabilities: Value) -> Self {
        Self::new(Era::Legacy, address, revision, capabilities).opened().await
    }

    async fn opened(self) -> Self {
        let mut client = self;
        let (revision, capabilities) = (client.revision.clone(), client.capabilities.clone());
        let params = json!({ "protocolVersion": revision, "capabilities": capabilities,
            "clientInfo": { "name": client.name, "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": "opening", "method": "initialize", "params": params });
        let reply = client.post(&body.to_string(), &[]).await;
        client.session = reply.header("mcp-session-id").map(str::to_owned);
        let answer = reply.json().await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    fn new(era: Era, address: SocketAddr, revision: &str, capabilities: Value) -> Self {
        Self {
            http: Http::new(address),
            era,
            revision: revision.to_owned(),
            session: None,
            path: "/mcp".to_owned(),
            capabilities,
            log_level: None,
            answers: Arc::new(|method, _| usual_answer(method)),
            headers: Vec::new(),
            next_id: Arc::new(AtomicU64::new(1)),
            name: "world".to_owned(),
        }
    }

    /// The same client, answering questions in its own way.
    pub fn answering(mut self, answers: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        self.answers = Arc::new(answers);
        self
    }

    /// The same client, wanting log lines of this level with each request; modern only.
    pub fn hearing(mut self, level: &str) -> Self {
        self.log_level = Some(level.to_owned());
        self
    }

    /// The same client, sending a header with each request.
    pub fn sending(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The session's id; modern clients have none.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// What it answers to a question.
    pub fn answer(&self, method: &str, params: &Value) -> Value {
        (self.answers)(method, params)
    }

    /// Asks, answers what is asked back, and comes back with the end of it.
    pub async fn ask(&self, method: &str, params: Value) -> Told {
        let mut params = params;
        let mut told = self.start(method, params.clone()).await.finish().await;
        for _ in 0..MOST_ROUNDS {
            let result = &told.answer["result"];
            if result["resultType"] != "input_required" {
                return told;
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
            told.questions.extend(requests.into_iter().map(|(_, asked)| asked));
            let next = self.start(method, params.clone()).await.finish().await;
            told = told.then(next);
        }
        panic!("`{method}` asked more than {MOST_ROUNDS} times");
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> Told {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Sends a request; what comes back is read as it comes.
    pub async fn start(&self, method: &str, params: Value) -> Exchange {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let mut params = params;
        if self.era == Era::Modern {
            for (key, value) in self.stamp() {
                params["_meta"][key] = value;
            }
        }
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let reply = self.post(&body.to_string(), &self.mirrored(method, name.as_deref())).await;
        Exchange::new(self.clone(), id, reply)
    }

    /// Calls a tool with arguments as this very text; gives the status and the answer's very text.
    pub async fn call_text(&self, tool: &str, arguments: &str) -> (u16, String) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let meta = match self.era {
            Era::Modern => format!(",\"_meta\":{}", Value::Object(self.stamp().into_iter().collect())),
            Era::Legacy => String::new(),
        };
        let name = Value::from(tool);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name},"arguments":{arguments}{meta}}}}}"#
        );
        let reply = self.post(&body, &self.mirrored("tools/call", Some(tool))).await;
        let status = reply.status;
        (status, last_text(reply).await)
    }

    /// The very text of a list method's result.
    pub async fn list_text(&self, method: &str) -> String {
        let meta = match self.era {
            Era::Modern => json!({ "_meta": Value::Object(self.stamp().into_iter().collect()) }),
            Era::Legacy => json!({}),
        };
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": meta });
        let reply = self.post(&body.to_string(), &self.mirrored(method, None)).await;
        let text = last_text(reply).await;
        result_text(&text).unwrap_or_else(|| panic!("no result in {text}"))
    }

    /// The names of a list's entries, the gateway's own aside.
    pub async fn names(&self, method: &str, member: &str) -> Vec<String> {
        let told = self.ask(method, json!({})).await;
        let entries = told.result()[member].as_array().cloned().unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry["name"].as_str());
        names.filter(|name| *name != OWN_TOOL).map(str::to_owned).collect()
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) -> u16 {
        let body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.post(&body.to_string(), &self.mirrored(method, None)).await.status
    }

    /// Answers a question of the gateway's.
    pub async fn reply(&self, id: &Value, result: Value) -> u16 {
        let body = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        self.post(&body.to_string(), &[]).await.status
    }

    /// Opens the stream on which this era hears of changes: of all lists, and of these resources.
    pub async fn listen(&self, uris: &[&str]) -> Changes {
        match self.era {
            Era::Legacy => {
                let headers = self.all_headers(&[("accept".to_owned(), "text/event-stream".to_owned())]);
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                let reply = self.http.send(Method::GET, &self.path, &headers, "").await;
                assert_eq!(reply.status, 200, "the stream opens");
                for uri in uris {
                    let told = self.ask("resources/subscribe", json!({ "uri": uri })).await;
                    assert_eq!(*told.result(), json!({}), "the subscription is taken");
                }
                Changes::new(reply.events(), None)
            }
            Era::Modern => {
                let wanted = json!({ "toolsListChanged": true, "promptsListChanged": true,
                    "resourcesListChanged": true, "resourceSubscriptions": uris });
                let exchange = self.start("subscriptions/listen", json!({ "notifications": wanted })).await;
                let (id, mut events) = exchange.into_events();
                let first = events.next_within(super::PATIENCE).await.expect("an acknowledgement");
                assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
                assert_eq!(first["params"]["notifications"]["toolsListChanged"], true, "{first}");
                Changes::new(events, Some(json!(id)))
            }
        }
    }

    /// Posts a body with the headers of the era, and these.
    pub async fn post(&self, body: &str, more: &[(String, String)]) -> Reply {
        let mut headers = self.all_headers(more);
        headers.push(("content-type".into(), "application/json".into()));
        headers.push(("accept".into(), "application/json, text/event-stream".into()));
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
        if self.era == Era::Legacy {
            return Vec::new();
        }
        let mut headers: Vec<(String, String)> = vec![
            ("mcp-protocol-version".into(), self.revision.clone()),
            ("mcp-method".into(), method.into()),
        ];
        if matches!(method, "tools/call" | "prompts/get" | "resources/read") {
            headers.extend(name.map(|name| ("mcp-name".to_owned(), name.to_owned())));
        }
        headers
    }

    /// The members of `_meta` that every modern request carries.
    pub fn stamp(&self) -> Vec<(String, Value)> {
        let key = |name: &str| format!("io.modelcontextprotocol/{name}");
        let mut stamp = vec![
            (key("protocolVersion"), json!(self.revision)),
            (key("clientCapabilities"), self.capabilities.clone()),
            (key("clientInfo"), json!({ "name": self.name, "version": "1" })),
        ];
        stamp.extend(self.log_level.as_ref().map(|level| (key("logLevel"), json!(level))));
        stamp
    }
}

async fn last_text(reply: Reply) -> String {
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

/// The very text of the `result` in a response.
pub fn result_text(response: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    let response: Response<'_> = serde_json::from_str(response).ok()?;
    response.result.map(|result| result.get().to_owned())
}

/// What a person, a model and a file system say when nothing else was agreed.
pub fn usual_answer(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({ "action": "accept",
            "content": { "name": "Ann", "color": "blue", "context": "a test" } }),
        "sampling/createMessage" => json!({ "role": "assistant", "model": "world",
            "content": { "type": "text", "text": "Roses are red." } }),
        _ => json!({ "roots": [{ "uri": "file:///home/ann", "name": "home" }] }),
    }
}
