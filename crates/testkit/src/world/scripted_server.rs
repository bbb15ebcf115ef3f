//! An MCP server over HTTP inside the test, which answers with exactly the text that a test sets.

use crate::fixture::{LEGACY, MODERN, TestEra};
use ::http::{Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

type ScriptedBody = BoxBody<Bytes, Infallible>;

/// Placeholder for the request id in the text of an answer.
pub const ID: &str = "<the id>";

/// The answer to a call.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// A JSON body with this text; [`ID`] is replaced by the request id.
    Body(String),
    /// An event with this text as its data; [`ID`] is replaced by the request id.
    Event(String),
    /// A result whose text is the request body.
    Echo,
    /// Any HTTP response.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The media type.
        kind: String,
        /// The body.
        body: String,
    },
    /// The status 429 with these headers.
    Later {
        /// The value of `Retry-After`.
        retry_after: &'static str,
        /// The value of `Date`.
        date: &'static str,
    },
    /// A body in pieces of this size, with a pause after each.
    Trickles {
        /// The whole text.
        text: String,
        /// The size of a piece in bytes.
        size: usize,
        /// The pause between two pieces.
        pause: Duration,
    },
    /// The beginning of a body that never ends.
    Stalls {
        /// The text that is sent.
        text: String,
        /// The value of `Content-Length`.
        length: usize,
    },
}

impl ScriptedAnswer {
    /// A JSON-RPC response with the text of a result.
    pub fn result(text: &str) -> Self {
        Self::Body(format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{text}}}"#))
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Its method.
    pub method: String,
    /// Its exact text.
    pub body: String,
    /// Its headers, one per line.
    pub headers: String,
}

/// Returns the challenge for an `Authorization` header, or `None` if it is accepted.
type ChallengeRule = Box<dyn Fn(Option<&str>) -> Option<String> + Send>;

struct ScriptedState {
    era: TestEra,
    challenge_rule: Mutex<Option<ChallengeRule>>,
    tools: Mutex<Box<dyn FnMut() -> String + Send>>,
    answer: Mutex<ScriptedAnswer>,
    /// The results of further methods.
    results: Mutex<HashMap<&'static str, Value>>,
    /// Capabilities that it declares besides `tools`.
    capabilities: Mutex<Value>,
    seen: Mutex<Vec<ReceivedRequest>>,
    /// The number of requests for a schema.
    fetched: AtomicUsize,
    streams: Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
    /// The delay before a stream opens.
    opens_after: Mutex<Duration>,
    /// Whether `initialize` opens a session.
    has_sessions: AtomicBool,
    /// Whether it declares that it announces changes of its list.
    announces_changes: AtomicBool,
}

/// An MCP server with scripted answers. It ends with the test's runtime.
#[derive(Clone)]
pub struct ScriptedServer {
    /// Its endpoint.
    pub url: String,
    state: Arc<ScriptedState>,
}

/// The parsed part of a request; params are not parsed because they may contain numbers beyond f64.
#[derive(serde::Deserialize)]
struct RequestHead {
    #[serde(default)]
    method: String,
    id: Option<Value>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedServer {
    /// Starts a server of this era with one tool, `take`.
    pub async fn start(era: TestEra) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let take = r#"[{"name":"take","description":"Takes anything.","inputSchema":{"type":"object"}}]"#;
        let state = Arc::new(ScriptedState {
            era,
            challenge_rule: Mutex::default(),
            tools: Mutex::new(Box::new(move || take.to_owned())),
            answer: Mutex::new(ScriptedAnswer::result(r#"{"content":[]}"#)),
            results: Mutex::default(),
            capabilities: Mutex::new(json!({})),
            seen: Mutex::default(),
            fetched: AtomicUsize::new(0),
            streams: Mutex::default(),
            opens_after: Mutex::default(),
            has_sessions: AtomicBool::new(false),
            announces_changes: AtomicBool::new(true),
        });
        tokio::spawn(serve(listener, state.clone()));
        Self { url, state }
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({ "url": self.url })
    }

    /// Sets the text of the tool list.
    pub fn list(&self, tools: impl Into<String>) {
        let text = tools.into();
        self.list_by(move || text.clone());
    }

    /// Sets the function that generates the text of the tool list for each request.
    pub fn list_by(&self, tools: impl FnMut() -> String + Send + 'static) {
        *lock(&self.state.tools) = Box::new(tools);
    }

    /// Sets the rule that accepts or challenges the `Authorization` header of each request.
    pub fn admit_by(&self, challenge_rule: impl Fn(Option<&str>) -> Option<String> + Send + 'static) {
        *lock(&self.state.challenge_rule) = Some(Box::new(challenge_rule));
    }

    /// Sets the answer to calls.
    pub fn answer(&self, answer: ScriptedAnswer) {
        *lock(&self.state.answer) = answer;
    }

    /// Sets the result of a method that it does not have otherwise; null means that it never answers.
    pub fn answer_method(&self, method: &'static str, result: Value) {
        lock(&self.state.results).insert(method, result);
    }

    /// Declares these capabilities, too.
    pub fn declare(&self, capabilities: Value) {
        *lock(&self.state.capabilities) = capabilities;
    }

    /// The requests of a method so far, in order.
    pub fn seen(&self, method: &str) -> Vec<ReceivedRequest> {
        lock(&self.state.seen).iter().filter(|seen| seen.method == method).cloned().collect()
    }

    /// The number of requests for a schema beside its endpoint (`/schema.json`).
    pub fn fetched(&self) -> usize {
        self.state.fetched.load(Ordering::Relaxed)
    }

    /// Whether a client is subscribed to its notifications.
    pub fn has_subscribers(&self) -> bool {
        let mut streams = lock(&self.state.streams);
        streams.retain(|stream| !stream.is_closed());
        !streams.is_empty()
    }

    /// Opens a session with every `initialize` from now on.
    pub fn opens_sessions(&self) {
        self.state.has_sessions.store(true, Ordering::Relaxed);
    }

    /// Does not declare that it announces changes of its list, from now on.
    pub fn announces_nothing(&self) {
        self.state.announces_changes.store(false, Ordering::Relaxed);
    }

    /// Sets the delay before a stream opens.
    pub fn opens_after(&self, delay: Duration) {
        *lock(&self.state.opens_after) = delay;
    }

    /// Closes the streams of all subscribers.
    pub fn hang_up(&self) {
        lock(&self.state.streams).clear();
    }

    /// Sends a notification to all subscribers.
    pub fn announce(&self, method: &str) {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        let event = Bytes::from(format!("data: {message}\n\n"));
        lock(&self.state.streams).retain(|stream| stream.send(event.clone()).is_ok());
    }
}

async fn serve(listener: TcpListener, state: Arc<ScriptedState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let state = state.clone();
                async move { Ok::<_, Infallible>(respond(&state, request).await) }
            });
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn respond(state: &ScriptedState, request: Request<Incoming>) -> Response<ScriptedBody> {
    if request.uri().path().ends_with("schema.json") {
        state.fetched.fetch_add(1, Ordering::Relaxed);
    }
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(challenge) =
        lock(&state.challenge_rule).as_ref().and_then(|challenge_rule| challenge_rule(shown))
    {
        let mut response = plain(StatusCode::UNAUTHORIZED);
        let challenge = header::HeaderValue::from_str(&challenge).expect("a challenge");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    match *request.method() {
        Method::GET if state.era == TestEra::Legacy => {
            opening(state).await;
            events(state, None)
        }
        Method::POST => {
            let headers = request.headers().iter();
            let headers: String = headers
                .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())))
                .collect();
            let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body = String::from_utf8(body.to_vec()).expect("requests are UTF-8");
            let head: RequestHead = serde_json::from_str(&body).expect("requests are JSON-RPC");
            lock(&state.seen).push(ReceivedRequest { method: head.method.clone(), body, headers });
            if head.method == "subscriptions/listen" {
                opening(state).await;
            }
            match &head.id {
                Some(id) => {
                    let mut response = answer(state, &head.method, id);
                    if head.method == "initialize" && state.has_sessions.load(Ordering::Relaxed) {
                        let session = header::HeaderValue::from_static("a-session");
                        response.headers_mut().insert("mcp-session-id", session);
                    }
                    response
                }
                None => plain(StatusCode::ACCEPTED),
            }
        }
        Method::DELETE => plain(StatusCode::OK),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn opening(state: &ScriptedState) {
    let delay = *lock(&state.opens_after);
    tokio::time::sleep(delay).await;
}

fn answer(state: &ScriptedState, method: &str, id: &Value) -> Response<ScriptedBody> {
    let info = json!({ "name": "in-test", "version": "1" });
    let announces_changes = state.announces_changes.load(Ordering::Relaxed);
    let mut capabilities = lock(&state.capabilities).clone();
    capabilities["tools"] = json!({ "listChanged": announces_changes });
    let further = lock(&state.results).get(method).cloned();
    let result = match (method, state.era) {
        ("server/discover", TestEra::Modern) => {
            json!({ "resultType": "complete", "supportedVersions": [MODERN],
            "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": info } })
        }
        ("initialize", TestEra::Legacy) => {
            json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info })
        }
        ("ping", _) => json!({}),
        ("tools/list", era) => {
            let modern_fields = match era {
                TestEra::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"public""#,
                TestEra::Legacy => "",
            };
            let tools = lock(&state.tools)();
            return whole(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":{tools}{modern_fields}}}}}"#
            ));
        }
        ("tools/call", _) => {
            return match lock(&state.answer).clone() {
                ScriptedAnswer::Body(text) => whole(text.replacen(ID, &id.to_string(), 1)),
                ScriptedAnswer::Event(text) => event(&text.replacen(ID, &id.to_string(), 1)),
                ScriptedAnswer::Echo => {
                    let seen = lock(&state.seen).last().map(|seen| seen.body.clone()).unwrap_or_default();
                    let content = json!([{ "type": "text", "text": seen }]);
                    whole(
                        json!({ "jsonrpc": "2.0", "id": id,
                        "result": { "content": content, "resultType": "complete" } })
                        .to_string(),
                    )
                }
                ScriptedAnswer::Raw { status, kind, body } => raw(status, &kind, body),
                ScriptedAnswer::Later { retry_after, date } => {
                    let mut response = plain(StatusCode::TOO_MANY_REQUESTS);
                    let headers = response.headers_mut();
                    headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static(retry_after));
                    headers.insert(header::DATE, header::HeaderValue::from_static(date));
                    response
                }
                ScriptedAnswer::Trickles { text, size, pause } => {
                    trickling(text.replacen(ID, &id.to_string(), 1), size, pause)
                }
                ScriptedAnswer::Stalls { text, length } => {
                    stalled(text.replacen(ID, &id.to_string(), 1), length)
                }
            };
        }
        ("subscriptions/listen", TestEra::Modern) => return events(state, Some(id)),
        _ if further.as_ref().is_some_and(Value::is_null) => return stalled(String::new(), 1),
        _ if further.is_some() => further.unwrap_or_default(),
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            let mut response = whole(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
    };
    whole(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
}

fn events(state: &ScriptedState, listen: Option<&Value>) -> Response<ScriptedBody> {
    let (sender, receiver) = mpsc::unbounded_channel();
    if let Some(id) = listen {
        let params = json!({ "notifications": { "toolsListChanged": true },
            "_meta": { "io.modelcontextprotocol/subscriptionId": id } });
        let first = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params });
        drop(sender.send(Bytes::from(format!("data: {first}\n\n"))));
    }
    lock(&state.streams).push(sender);
    let mut response = Response::new(unfolding(receiver));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    response
}

fn unfolding(receiver: mpsc::UnboundedReceiver<Bytes>) -> ScriptedBody {
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|bytes| (Ok(Frame::data(bytes)), receiver))
    });
    BoxBody::new(StreamBody::new(stream))
}

fn whole(text: String) -> Response<ScriptedBody> {
    let length = text.len();
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(text)));
    with_length(unfolding(receiver), length)
}

fn raw(status: u16, kind: &str, body: String) -> Response<ScriptedBody> {
    let mut response = whole(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let kind = header::HeaderValue::from_str(kind).expect("a media type");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn event(text: &str) -> Response<ScriptedBody> {
    let lines: Vec<String> = text.split('\n').map(|line| format!("data: {line}\n")).collect();
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(format!("event: message\n{}\n", lines.concat()))));
    let mut response = Response::new(unfolding(receiver));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    response
}

fn trickling(text: String, size: usize, pause: Duration) -> Response<ScriptedBody> {
    let length = text.len();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for piece in text.into_bytes().chunks(size) {
            if sender.send(Bytes::copy_from_slice(piece)).is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    });
    with_length(unfolding(receiver), length)
}

fn stalled(text: String, length: usize) -> Response<ScriptedBody> {
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(text)));
    // The leaked sender keeps the body open.
    std::mem::forget(sender);
    with_length(unfolding(receiver), length)
}

fn with_length(body: ScriptedBody, length: usize) -> Response<ScriptedBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}

fn plain(status: StatusCode) -> Response<ScriptedBody> {
    let (_, receiver) = mpsc::unbounded_channel();
    let mut response = Response::new(unfolding(receiver));
    *response.status_mut() = status;
    response
}
