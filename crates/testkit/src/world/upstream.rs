//! An MCP server inside the test, over HTTP: it answers with the very text that a test gives it.

use crate::fixture::{Era, LEGACY, MODERN};
use ::http::{Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

type Body = BoxBody<Bytes, Infallible>;

/// Stands for the id of the request in the text of an answer.
pub const ID: &str = "<the id>";

/// How a call is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// With a whole body: this text, where [`ID`] stands for the id of the request.
    Body(String),
    /// With an event: this text as its data, likewise.
    Event(String),
    /// With the request's own text, as the text of a result.
    Echo,
    /// With anything else.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The media type.
        kind: String,
        /// The body.
        body: String,
    },
    /// With a body in pieces of this size, and a pause after each.
    Trickles {
        /// The whole text.
        text: String,
        /// How many bytes come at once.
        size: usize,
        /// How long the server waits before the next of them.
        pause: Duration,
    },
    /// With the beginning of a body of this length, and nothing more.
    Stalls {
        /// What comes.
        text: String,
        /// What `Content-Length` promises.
        length: usize,
    },
}

impl Answer {
    /// The usual envelope around the text of a result.
    pub fn result(text: &str) -> Self {
        Self::Body(format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{text}}}"#))
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its very text.
    pub body: String,
    /// Its headers, one a line.
    pub headers: String,
}

/// Says what a request without the right `Authorization` is challenged with.
type Doorman = Box<dyn Fn(Option<&str>) -> Option<String> + Send>;

struct State {
    era: Era,
    doorman: Mutex<Option<Doorman>>,
    tools: Mutex<Box<dyn FnMut() -> String + Send>>,
    answer: Mutex<Answer>,
    seen: Mutex<Vec<Seen>>,
    /// How often a schema was asked for.
    fetched: AtomicUsize,
    streams: Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
    /// How long a stream takes to open.
    opens_after: Mutex<Duration>,
    /// Whether it opens sessions.
    has_sessions: AtomicBool,
}

/// A server inside the test. It ends with the test's runtime.
#[derive(Clone)]
pub struct Upstream {
    /// Its endpoint.
    pub url: String,
    state: Arc<State>,
}

/// What is read of a request; params may hold numbers that no float can.
#[derive(serde::Deserialize)]
struct Head {
    #[serde(default)]
    method: String,
    id: Option<Value>,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream {
    /// Starts a server of an era with one tool, `take`.
    pub async fn start(era: Era) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let take = r#"[{"name":"take","description":"Takes anything.","inputSchema":{"type":"object"}}]"#;
        let state = Arc::new(State {
            era,
            doorman: Mutex::default(),
            tools: Mutex::new(Box::new(move || take.to_owned())),
            answer: Mutex::new(Answer::result(r#"{"content":[]}"#)),
            seen: Mutex::default(),
            fetched: AtomicUsize::new(0),
            streams: Mutex::default(),
            opens_after: Mutex::default(),
            has_sessions: AtomicBool::new(false),
        });
        tokio::spawn(serve(listener, state.clone()));
        Self { url, state }
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({ "url": self.url })
    }

    /// Lists tools with this text from now on.
    pub fn list(&self, tools: impl Into<String>) {
        let text = tools.into();
        self.list_by(move || text.clone());
    }

    /// Lists tools with a text made anew each time.
    pub fn list_by(&self, tools: impl FnMut() -> String + Send + 'static) {
        *lock(&self.state.tools) = Box::new(tools);
    }

    /// Lets nobody in from now on whom this challenges; it is shown what `Authorization` says.
    pub fn admit_by(&self, doorman: impl Fn(Option<&str>) -> Option<String> + Send + 'static) {
        *lock(&self.state.doorman) = Some(Box::new(doorman));
    }

    /// Answers calls in this way from now on.
    pub fn answer(&self, answer: Answer) {
        *lock(&self.state.answer) = answer;
    }

    /// The requests of a method so far, in order.
    pub fn seen(&self, method: &str) -> Vec<Seen> {
        lock(&self.state.seen).iter().filter(|seen| seen.method == method).cloned().collect()
    }

    /// How many requests there were for a schema beside its endpoint (`/schema.json`).
    pub fn fetched(&self) -> usize {
        self.state.fetched.load(Ordering::Relaxed)
    }

    /// Whether somebody hears its notices.
    pub fn is_heard(&self) -> bool {
        let mut streams = lock(&self.state.streams);
        streams.retain(|stream| !stream.is_closed());
        !streams.is_empty()
    }

    /// Opens a session with every handshake from now on.
    pub fn opens_sessions(&self) {
        self.state.has_sessions.store(true, Ordering::Relaxed);
    }

    /// Takes so long to open a stream from now on.
    pub fn opens_after(&self, delay: Duration) {
        *lock(&self.state.opens_after) = delay;
    }

    /// Ends the streams of all who listen.
    pub fn hang_up(&self) {
        lock(&self.state.streams).clear();
    }

    /// Sends a notification to all who listen.
    pub fn announce(&self, method: &str) {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        let event = Bytes::from(format!("data: {message}\n\n"));
        lock(&self.state.streams).retain(|stream| stream.send(event.clone()).is_ok());
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
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

async fn respond(state: &State, request: Request<Incoming>) -> Response<Body> {
    if request.uri().path().ends_with("schema.json") {
        state.fetched.fetch_add(1, Ordering::Relaxed);
    }
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(challenge) = lock(&state.doorman).as_ref().and_then(|doorman| doorman(shown)) {
        let mut response = plain(StatusCode::UNAUTHORIZED);
        let challenge = header::HeaderValue::from_str(&challenge).expect("a challenge");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    match *request.method() {
        Method::GET if state.era == Era::Legacy => {
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
            let head: Head = serde_json::from_str(&body).expect("requests are JSON-RPC");
            lock(&state.seen).push(Seen { method: head.method.clone(), body, headers });
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

async fn opening(state: &State) {
    let delay = *lock(&state.opens_after);
    tokio::time::sleep(delay).await;
}

fn answer(state: &State, method: &str, id: &Value) -> Response<Body> {
    let info = json!({ "name": "in-test", "version": "1" });
    let capabilities = json!({ "tools": { "listChanged": true } });
    let result = match (method, state.era) {
        ("server/discover", Era::Modern) => json!({ "resultType": "complete", "supportedVersions": [MODERN],
            "capabilities": capabilities, "ttlMs": 0, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": info } }),
        ("initialize", Era::Legacy) => {
            json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info })
        }
        ("ping", _) => json!({}),
        ("tools/list", era) => {
            let dress = match era {
                Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"public""#,
                Era::Legacy => "",
            };
            let tools = lock(&state.tools)();
            return whole(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":{tools}{dress}}}}}"#));
        }
        ("tools/call", _) => {
            return match lock(&state.answer).clone() {
                Answer::Body(text) => whole(text.replacen(ID, &id.to_string(), 1)),
                Answer::Event(text) => event(&text.replacen(ID, &id.to_string(), 1)),
                Answer::Echo => {
                    let seen = lock(&state.seen).last().map(|seen| seen.body.clone()).unwrap_or_default();
                    let content = json!([{ "type": "text", "text": seen }]);
                    whole(
                        json!({ "jsonrpc": "2.0", "id": id,
                        "result": { "content": content, "resultType": "complete" } })
                        .to_string(),
                    )
                }
                Answer::Raw { status, kind, body } => raw(status, &kind, body),
                Answer::Trickles { text, size, pause } => {
                    trickling(text.replacen(ID, &id.to_string(), 1), size, pause)
                }
                Answer::Stalls { text, length } => stalled(text.replacen(ID, &id.to_string(), 1), length),
            };
        }
        ("subscriptions/listen", Era::Modern) => return events(state, Some(id)),
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            let mut response = whole(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
    };
    whole(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
}

fn events(state: &State, listen: Option<&Value>) -> Response<Body> {
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

fn unfolding(receiver: mpsc::UnboundedReceiver<Bytes>) -> Body {
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|bytes| (Ok(Frame::data(bytes)), receiver))
    });
    BoxBody::new(StreamBody::new(stream))
}

fn whole(text: String) -> Response<Body> {
    let length = text.len();
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(text)));
    with_length(unfolding(receiver), length)
}

fn raw(status: u16, kind: &str, body: String) -> Response<Body> {
    let mut response = whole(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let kind = header::HeaderValue::from_str(kind).expect("a media type");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn event(text: &str) -> Response<Body> {
    let lines: Vec<String> = text.split('\n').map(|line| format!("data: {line}\n")).collect();
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(format!("event: message\n{}\n", lines.concat()))));
    let mut response = Response::new(unfolding(receiver));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
    response
}

fn trickling(text: String, size: usize, pause: Duration) -> Response<Body> {
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

fn stalled(text: String, length: usize) -> Response<Body> {
    let (sender, receiver) = mpsc::unbounded_channel();
    drop(sender.send(Bytes::from(text)));
    // The sender lives on, so the body never ends.
    std::mem::forget(sender);
    with_length(unfolding(receiver), length)
}

fn with_length(body: Body, length: usize) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}

fn plain(status: StatusCode) -> Response<Body> {
    let (_, receiver) = mpsc::unbounded_channel();
    let mut response = Response::new(unfolding(receiver));
    *response.status_mut() = status;
    response
}
