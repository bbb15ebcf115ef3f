//! Plain HTTP to a gateway: one connection per request, so that dropping the reply closes it.

use super::TEST_TIMEOUT;
use super::connection_task::ConnectionTask;
use super::events::EventReader;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::error::Error;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Headers of one request; a name may occur more than once.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// An HTTP client for one address.
#[derive(Clone, Debug)]
pub struct Http {
    address: SocketAddr,
    headers: Vec<(String, String)>,
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    connection: ConnectionTask,
}

impl Http {
    /// Creates a client for this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, headers: Vec::new() }
    }

    /// Adds these headers to each request.
    pub fn sending(mut self, headers: &[(String, String)]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    /// Sends a request; `Host` is set unless it is among the headers.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> HttpReply {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        let common = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in common.chain(headers.iter().copied()) {
            let name: HeaderName = name.parse().expect("a header's name");
            request.headers_mut().append(name, HeaderValue::from_str(value).expect("a header's value"));
        }
        if !request.headers().contains_key(header::HOST) {
            let host = HeaderValue::from_str(&self.address.to_string()).expect("an address is ASCII");
            request.headers_mut().insert(header::HOST, host);
        }
        let sent = tokio::time::timeout(TEST_TIMEOUT, self.exchange(request)).await;
        sent.expect("an answer in time").expect("an answer")
    }

    /// Posts to a gateway that may exit meanwhile; `None` without a complete answer.
    pub async fn try_post(&self, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut request = Request::post(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request");
        let reply = tokio::time::timeout(TEST_TIMEOUT, self.exchange(request)).await.ok()?.ok()?;
        let status = reply.status;
        Some((status, serde_json::from_slice(&reply.try_bytes().await.ok()?).ok()?))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<HttpReply, Box<dyn Error>> {
        let stream = TcpStream::connect(self.address).await?;
        drop(stream.set_nodelay(true));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = ConnectionTask(
            tokio::spawn(async move {
                // A broken connection is reported by the body.
                drop(connection.await);
            })
            .abort_handle(),
        );
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(HttpReply { status: head.status.as_u16(), headers: head.headers, body, connection })
    }

    /// Fetches JSON.
    pub async fn get_json(&self, path: &str) -> Value {
        self.send(Method::GET, path, &[], "").await.json().await
    }

    /// Posts JSON text and reads JSON.
    pub async fn post_json(&self, path: &str, body: &str) -> (u16, Value) {
        let headers = [("content-type", "application/json")];
        let reply = self.send(Method::POST, path, &headers, body.to_owned()).await;
        (reply.status, reply.json().await)
    }
}

impl HttpReply {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the body is a stream of events.
    pub fn is_events(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body, or the error that ended it.
    pub async fn try_bytes(self) -> Result<Bytes, String> {
        let Self { body, connection: _connection, .. } = self;
        match tokio::time::timeout(TEST_TIMEOUT, body.collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the body did not end in time".to_owned()),
        }
    }

    /// Reads the body to its end without storing it; returns its length.
    pub async fn length(mut self) -> u64 {
        let mut length = 0;
        while let Some(frame) = self.body.frame().await {
            length += frame.expect("a whole body").data_ref().map_or(0, Bytes::len) as u64;
        }
        length
    }

    /// The whole body.
    pub async fn bytes(self) -> Bytes {
        self.try_bytes().await.expect("a whole body")
    }

    /// The body as JSON; null if it is not JSON.
    pub async fn json(self) -> Value {
        serde_json::from_slice(&self.bytes().await).unwrap_or(Value::Null)
    }

    /// The body as events.
    pub fn events(self) -> EventReader {
        EventReader::new(self.body, self.connection)
    }
}
