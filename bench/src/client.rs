//! A connection of the load generator: Streamable HTTP on one keep-alive socket, in either era.

use crate::era::BenchEra;
use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// The endpoint of requests, and their era.
#[derive(Debug, Clone)]
pub struct Target {
    /// `HOST:PORT`.
    pub authority: String,
    /// The path of the endpoint.
    pub path: String,
    /// The era of requests.
    pub era: BenchEra,
}

impl Target {
    /// Parses `http://HOST:PORT/PATH`.
    pub fn parse(url: &str, era: BenchEra) -> Result<Self> {
        let rest =
            url.strip_prefix("http://").with_context(|| format!("`{url}` does not begin with http://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}"), era })
    }
}

/// An open connection, and in the legacy era an open session.
pub struct BenchConnection {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

impl BenchConnection {
    /// Connects, and opens a session if the era has sessions.
    pub async fn open(target: &Target) -> Result<Self> {
        let stream = timeout(REQUEST_TIMEOUT, TcpStream::connect(&target.authority)).await??;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut opened = Self { target: target.clone(), sender, session: None };
        if target.era == BenchEra::Legacy {
            opened.initialize().await?;
        }
        Ok(opened)
    }

    async fn initialize(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": self.target.era.version(),
            "capabilities": {},
            "clientInfo": { "name": "bench-load", "version": "1.0.0" }
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = self.post("initialize", None, Bytes::from(body.to_string())).await?;
        let answer: Value =
            serde_json::from_slice(&answer).context("the answer to `initialize` is not JSON")?;
        ensure!(answer["result"]["protocolVersion"].is_string(), "`initialize` was refused: {answer}");
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.post("notifications/initialized", None, Bytes::from(note.to_string())).await?;
        Ok(())
    }

    /// Sends one message and returns the answer, which is empty for a notification.
    pub async fn post(&mut self, method: &str, name: Option<&str>, body: Bytes) -> Result<Bytes> {
        timeout(REQUEST_TIMEOUT, self.exchange(method, name, body)).await.context("the request timed out")?
    }

    async fn exchange(&mut self, method: &str, name: Option<&str>, body: Bytes) -> Result<Bytes> {
        let mut request = Request::post(&self.target.path)
            .header(header::HOST, &self.target.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        if method != "initialize" {
            request = request.header("mcp-protocol-version", self.target.era.version());
        }
        if self.target.era == BenchEra::Modern {
            request = request.header("mcp-method", method);
            if let Some(name) = name {
                request = request.header("mcp-name", name);
            }
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(body))?).await?;
        let (status, headers) = (response.status(), response.headers());
        if let Some(session) = headers.get("mcp-session-id") {
            self.session = Some(session.to_str()?.to_owned());
        }
        let stream =
            headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event"));
        let text = read(response.into_body()).await?;
        ensure!(
            status.is_success(),
            "HTTP {status}: {}",
            String::from_utf8_lossy(&text[..text.len().min(200)])
        );
        if stream { last_event(&text) } else { Ok(text) }
    }

    /// Ends the session, if there is one.
    pub async fn close(mut self) {
        let Some(session) = self.session.take() else { return };
        let request = Request::builder()
            .method(Method::DELETE)
            .uri(&self.target.path)
            .header(header::HOST, &self.target.authority)
            .header("mcp-protocol-version", self.target.era.version())
            .header("mcp-session-id", session);
        if let Ok(request) = request.body(Full::default()) {
            // A server that does not accept the request lets the session expire.
            drop(timeout(Duration::from_secs(2), self.sender.send_request(request)).await);
        }
    }
}

async fn read(mut body: hyper::body::Incoming) -> Result<Bytes> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
        ensure!(rest.len() <= ANSWER_LIMIT_BYTES, "the answer is too long");
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// The message of the last event in an event stream, which is the answer. The load generator shares no code with the
/// gateway, and must not take the time to decode events that it does not read.
fn last_event(text: &Bytes) -> Result<Bytes> {
    let Some(start) = memmem::rfind(text, b"data:") else { bail!("an event stream without events") };
    let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |length| start + length);
    Ok(text.slice(start + b"data:".len()..end))
}

/// The number of messages that the server has received.
pub async fn messages_seen(authority: &str) -> Result<u64> {
    let stream = timeout(REQUEST_TIMEOUT, TcpStream::connect(authority)).await??;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/stats").header(header::HOST, authority).body(Full::<Bytes>::default())?;
    let response = timeout(REQUEST_TIMEOUT, sender.send_request(request)).await??;
    let stats: Value = serde_json::from_slice(&read(response.into_body()).await?)?;
    stats["messages"].as_u64().context("the server does not count messages")
}
