//! A small HTTP/1.1 client with keep-alive connections to one origin.
//!
//! It follows no redirects and uses no cookies or proxies: each would send a credential to an unintended
//! place.

use super::connection::{HttpConnection, Io};
use super::idle_pool::{IDLE_LIMIT, IdlePools, MAX_IDLE, SHARDS, shard};
use super::incoming_body::IncomingBody;
use super::request_headers::RawRequest;
use super::response_head::ResponseHead;
use super::send_error::SendError;
use super::tls;
use ::http::uri::{Authority, Scheme};
use ::http::{Request, Response, Uri};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The target of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOrigin {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host and port, as in the `Host` header.
    pub authority: Authority,
    /// Path and query.
    pub path: String,
}

/// An unusable URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The scheme is not supported.
    #[error("`{0}` is not an http or https URL")]
    OtherKind(String),
    /// The URL contains a user name or a password, and is therefore not repeated in the message.
    #[error("the URL contains user info (`user:password@`), which is not allowed")]
    UserInfo,
}

impl HttpOrigin {
    /// Parses a URL.
    pub fn parse(url: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError::OtherKind(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let authority = parts.authority.ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(OriginError::UserInfo);
        }
        let path = parts.path_and_query.map_or_else(|| "/".to_owned(), |path| path.to_string());
        Ok(Self { scheme: scheme.ok_or_else(wrong)?, authority, path })
    }

    /// The port, also if it is the default one of the scheme.
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.scheme == Scheme::HTTPS { 443 } else { 80 })
    }
}

type Sender = SendRequest<Full<Bytes>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A client with connections to one origin.
#[derive(Debug)]
pub struct OriginClient {
    origin: HttpOrigin,
    idle_senders: [Mutex<Vec<(Sender, Instant)>>; SHARDS],
    idle_pools: Arc<IdlePools>,
    connect_timeout: Duration,
    /// The only addresses to connect to, if the host name was resolved and checked before.
    pinned: Option<Vec<SocketAddr>>,
}

/// A connection in use. Return it to the pool after its response has been read to the end.
#[derive(Debug)]
pub struct PooledConnection {
    sender: Sender,
    client: Arc<OriginClient>,
}

impl PooledConnection {
    /// Returns the connection to the pool.
    pub fn give_back(self) {
        if self.sender.is_closed() {
            return;
        }
        let mut idle_senders =
            self.client.idle_senders[shard()].lock().unwrap_or_else(PoisonError::into_inner);
        if idle_senders.len() < MAX_IDLE {
            idle_senders.push((self.sender, Instant::now()));
        }
    }
}

impl OriginClient {
    /// Creates a client for one origin.
    pub fn new(origin: HttpOrigin, connect_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            origin,
            idle_senders: Default::default(),
            idle_pools: Default::default(),
            connect_timeout,
            pinned: None,
        })
    }

    /// Creates a client that connects only to these addresses, even if the host name resolves to others
    /// later.
    pub fn pinned(origin: HttpOrigin, addresses: Vec<SocketAddr>, connect_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            origin,
            idle_senders: Default::default(),
            idle_pools: Default::default(),
            connect_timeout,
            pinned: Some(addresses),
        })
    }

    /// The target origin.
    pub fn origin(&self) -> &HttpOrigin {
        &self.origin
    }

    /// Closes all idle connections.
    pub fn close_idle(&self) {
        for idle_senders in &self.idle_senders {
            idle_senders.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.idle_pools.clear();
    }

    /// Sends a request on a pooled connection. A request that could not be sent on an idle connection is sent
    /// on another.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        request: RawRequest,
    ) -> Result<(ResponseHead, IncomingBody), SendError> {
        while let Some(mut connection) = self.idle_pools.take() {
            match connection.exchange(request.clone()).await {
                Ok(head) => {
                    let body = IncomingBody::new(&head, connection, self.idle_pools.clone());
                    return Ok((head, body));
                }
                Err(SendError::NotSent(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        // Boxed: connecting is rare, and its large future would be part of every request.
        let mut connection = HttpConnection::new(Box::pin(self.connect()).await?);
        let head = connection.exchange(request).await?;
        let body = IncomingBody::new(&head, connection, self.idle_pools.clone());
        Ok((head, body))
    }

    /// Sends a request. If a keep-alive connection turns out to be closed, the request was not sent and uses
    /// another connection.
    pub async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, PooledConnection), SendError> {
        while let Some(mut sender) = self.idle_sender() {
            // Ready once its previous response has been read, which may take a moment.
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, PooledConnection { sender, client: self.clone() })),
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Broken(describe(refused.error()))),
                },
            }
        }
        // Boxed: connecting is rare, and its large future would be part of every request.
        Box::pin(self.send_on_new(request)).await
    }

    /// Sends a request on a new connection.
    async fn send_on_new(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, PooledConnection), SendError> {
        let mut sender = self.fresh().await?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, PooledConnection { sender, client: self.clone() })),
            Err(mut refused) => {
                let why = describe(refused.error());
                Err(if refused.take_message().is_some() {
                    SendError::NotSent(why)
                } else {
                    SendError::Broken(why)
                })
            }
        }
    }

    /// Sends a request with a streaming body on its own connection.
    pub async fn send_streaming<B>(&self, request: Request<B>) -> Result<Response<Incoming>, SendError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut sender = self.fresh::<B>().await?;
        sender.send_request(request).await.map_err(|error| SendError::Broken(describe(&error)))
    }

    async fn fresh<B>(&self) -> Result<SendRequest<B>, SendError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        http_handshake(TokioIo::new(self.connect().await?)).await.map_err(SendError::NotSent)
    }

    async fn connect(&self) -> Result<Box<dyn Io>, SendError> {
        match tokio::time::timeout(self.connect_timeout, self.dial()).await {
            Ok(dialled) => dialled.map_err(SendError::NotSent),
            Err(_) => {
                let waited = self.connect_timeout.as_secs();
                Err(SendError::NotSent(format!("no connection within {waited} s")))
            }
        }
    }

    fn idle_sender(&self) -> Option<Sender> {
        let mut idle_senders = self.idle_senders[shard()].lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((sender, since)) = idle_senders.pop() {
            if since.elapsed() > IDLE_LIMIT {
                idle_senders.clear(); // The rest are older.
                return None;
            }
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    async fn dial(&self) -> Result<Box<dyn Io>, String> {
        let host = self.origin.authority.host().trim_start_matches('[').trim_end_matches(']');
        let dialled = match &self.pinned {
            Some(addresses) => TcpStream::connect(addresses.as_slice()).await,
            None => TcpStream::connect((host, self.origin.port())).await,
        };
        let stream = dialled.map_err(|error| plain_reason(&error))?;
        let _ = stream.set_nodelay(true);
        if self.origin.scheme == Scheme::HTTPS {
            let name = rustls::pki_types::ServerName::try_from(host.to_owned())
                .map_err(|_| format!("`{host}` is not a host name"))?;
            let stream = tls::connector()
                .connect(name, stream)
                .await
                .map_err(|error| format!("TLS failed: {error}"))?;
            Ok(Box::new(stream))
        } else {
            Ok(Box::new(stream))
        }
    }
}

async fn http_handshake<I, B>(io: I) -> Result<SendRequest<B>, String>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await.map_err(|error| describe(&error))?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn plain_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        std::io::ErrorKind::TimedOut => "the connection timed out".into(),
        _ => error.to_string(),
    }
}

/// hyper's error message with its source.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
