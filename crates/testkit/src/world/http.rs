//! Plain HTTP to a gateway: one connection per request, so that dropping the answer hangs up.

use super::PATIENCE;
use super::events::Events;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::error::Error;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Headers of one request; later ones of the same name stand beside earlier ones.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// Requests to one address.
#[derive(Clone, Debug)]
pub struct Http {
    address: SocketAddr,
    always: Vec<(String, String)>,
}

/// An answer whose body has not been read yet.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    connection: Connection,
}

/// Hangs up when dropped.
#[derive(Debug)]
pub struct Connection(tokio::task::AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Http {
    /// Requests to this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, always: Vec::new() }
    }

    /// The same, sending these headers with each request.
    pub fn sending(mut self, headers: &[(String, String)]) -> Self {
        self.always.extend_from_slice(headers);
        self
    }

    /// Sends a request as it is; `Host` is set unless a header says otherwise.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        let always = self.always.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in always.chain(headers.iter().copied()) {
            let name: HeaderName = name.parse().expect("a header's name");
            request.headers_mut().append(name, HeaderValue::from_str(value).expect("a header's value"));
        }
        if !request.headers().contains_key(header::HOST) {
            let host = HeaderValue::from_str(&self.address.to_string()).expect("an address is ASCII");
            request.headers_mut().insert(header::HOST, host);
        }
        let sent = tokio::time::timeout(PATIENCE, self.exchange(request)).await;
        sent.expect("an answer in time").expect("an answer")
    }

    /// Posts to a gateway that may end meanwhile; nothing, where no whole answer came.
    pub async fn try_post(&self, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut request = Request::post(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.always {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).expect("a request");
        let reply = tokio::time::timeout(PATIENCE, self.exchange(request)).await.ok()?.ok()?;
        let status = reply.status;
        Some((status, serde_json::from_slice(&reply.try_bytes().await.ok()?).ok()?))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Reply, Box<dyn Error>> {
        let stream = TcpStream::connect(self.address).await?;
        drop(stream.set_nodelay(true));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = Connection(
            tokio::spawn(async move {
                // A broken connection shows in the body.
                drop(connection.await);
            })
            .abort_handle(),
        );
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body, connection })
    }

    /// Fetches JSON.
    pub async fn get_json(&self, path: &str) -> Value {
        self.send(Method::GET, path, &[], "").await.json().await
    }

    /// Posts a text that is JSON, and reads JSON.
    pub async fn post_json(&self, path: &str, body: &str) -> (u16, Value) {
        let headers = [("content-type", "application/json")];
        let reply = self.send(Method::POST, path, &headers, body.to_owned()).await;
        (reply.status, reply.json().await)
    }
}

impl Reply {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the body is a stream of events.
    pub fn is_events(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body, or why it broke off.
    pub async fn try_bytes(self) -> Result<Bytes, String> {
        let Self { body, connection: _connection, .. } = self;
        match tokio::time::timeout(PATIENCE, body.collect()).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the body did not end in time".to_owned()),
        }
    }

    /// Reads the body to its end and says how long it was, without keeping it.
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

    /// The body as JSON; null when it is none.
    pub async fn json(self) -> Value {
        serde_json::from_slice(&self.bytes().await).unwrap_or(Value::Null)
    }

    /// The body as events.
    pub fn events(self) -> Events {
        Events::new(self.body, self.connection)
    }
}
