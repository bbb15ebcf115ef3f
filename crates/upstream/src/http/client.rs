//! A small HTTP/1.1 client: kept-alive connections to one origin, and nothing it was not asked for.
//!
//! No redirects, no cookies, no proxies: each would send a credential somewhere it was not meant for.

use super::head::AnswerHead;
use super::heading::Outgoing;
use super::inbound::Inbound;
use super::line::{Io, Line};
use super::shelf::Shelf;
use super::tls;
use ::http::uri::{Authority, Scheme};
use ::http::{Request, Response, Uri};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Idle connections older than this are not used again: servers close them about then.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// How many idle connections are kept to one origin.
pub(super) const MAX_IDLE: usize = 256;

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host and port, as sent in `Host`.
    pub authority: Authority,
    /// Path and query.
    pub path: String,
}

/// A URL that cannot be dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It is of another kind.
    #[error("`{0}` is not an http or https URL")]
    OtherKind(String),
    /// It holds a user name or a password. The URL is not repeated, for that reason.
    #[error("the URL holds user info (`user:password@`), which is not allowed")]
    UserInfo,
}

impl Origin {
    /// Reads a URL.
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

    pub(super) fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.scheme == Scheme::HTTPS { 443 } else { 80 })
    }
}

/// Why a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing was sent.
    NotSent(String),
    /// The server may have seen it.
    Broken(String),
}

type Sender = SendRequest<Full<Bytes>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How many shards the idle connections are kept in.
const SHARDS: usize = 16;

/// The shard of this thread. A connection is driven by the runtime that dialled it, so it is kept for the
/// thread of that runtime: using it from another would wake threads across for every call.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

/// Connections to one origin.
#[derive(Debug)]
pub struct Client {
    origin: Origin,
    idle: [Mutex<Vec<(Sender, Instant)>>; SHARDS],
    lines: [Shelf; SHARDS],
    connect_timeout: Duration,
    /// The only addresses to dial, where the host's name was resolved and judged before.
    pinned: Option<Vec<SocketAddr>>,
}

/// A connection in use; give it back when its answer has been read to the end.
#[derive(Debug)]
pub struct PooledConnection {
    sender: Sender,
    client: Arc<Client>,
}

impl PooledConnection {
    /// Makes the connection free for the next request.
    pub fn give_back(self) {
        if self.sender.is_closed() {
            return;
        }
        let mut idle = self.client.idle[shard()].lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push((self.sender, Instant::now()));
        }
    }
}

impl Client {
    /// A client for one origin.
    pub fn new(origin: Origin, connect_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            origin,
            idle: Default::default(),
            lines: Default::default(),
            connect_timeout,
            pinned: None,
        })
    }

    /// A client that dials these addresses, whatever the host's name resolves to by then.
    pub(super) fn pinned(origin: Origin, addresses: Vec<SocketAddr>, connect_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            origin,
            idle: Default::default(),
            lines: Default::default(),
            connect_timeout,
            pinned: Some(addresses),
        })
    }

    /// Where it goes.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Closes what is idle.
    pub fn close_idle(&self) {
        for idle in &self.idle {
            idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.lines.iter().for_each(Shelf::clear);
    }

    /// Sends a request on a line of its own. What was not sent on a kept line goes out on another.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        request: Outgoing,
    ) -> Result<(AnswerHead, Inbound), Failure> {
        while let Some(mut line) = self.lines[shard()].take() {
            match line.exchange(request.clone()).await {
                Ok(head) => {
                    let body = Inbound::new(&head, line, self.clone());
                    return Ok((head, body));
                }
                Err(Failure::NotSent(_)) => {}
                Err(broken) => return Err(broken),
            }
        }
        // Boxed, as dialling is rare: every request would carry the room for it.
        let mut line = Line::new(Box::pin(self.connect()).await?);
        let head = line.exchange(request).await?;
        let body = Inbound::new(&head, line, self.clone());
        Ok((head, body))
    }

    /// Keeps a line for the next request.
    pub(super) fn put_back(self: &Arc<Self>, line: Line) {
        let place = shard();
        self.lines[place].put(line, self, place);
    }

    pub(super) fn shelf(&self, place: usize) -> &Shelf {
        &self.lines[place]
    }

    /// Sends a request. A kept-alive connection that turns out closed costs nothing: the request
    /// was not sent and goes out on another.
    pub async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, PooledConnection), Failure> {
        while let Some(mut sender) = self.idle_sender() {
            // Ready as soon as its last answer has been put away, which may be a moment off.
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, PooledConnection { sender, client: self.clone() })),
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::Broken(describe(refused.error()))),
                },
            }
        }
        // Boxed, as dialling is rare: every request would carry the room for it.
        Box::pin(self.send_anew(request)).await
    }

    /// Sends a request on a new connection.
    async fn send_anew(
        self: &Arc<Self>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, PooledConnection), Failure> {
        let mut sender = self.fresh().await?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, PooledConnection { sender, client: self.clone() })),
            Err(mut refused) => {
                let why = describe(refused.error());
                Err(if refused.take_message().is_some() {
                    Failure::NotSent(why)
                } else {
                    Failure::Broken(why)
                })
            }
        }
    }

    /// Sends a request whose body comes piece by piece, on a connection of its own.
    pub async fn send_streaming<B>(&self, request: Request<B>) -> Result<Response<Incoming>, Failure>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let mut sender = self.fresh::<B>().await?;
        sender.send_request(request).await.map_err(|error| Failure::Broken(describe(&error)))
    }

    async fn fresh<B>(&self) -> Result<SendRequest<B>, Failure>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        shake(TokioIo::new(self.connect().await?)).await.map_err(Failure::NotSent)
    }

    async fn connect(&self) -> Result<Box<dyn Io>, Failure> {
        match tokio::time::timeout(self.connect_timeout, self.dial()).await {
            Ok(dialled) => dialled.map_err(Failure::NotSent),
            Err(_) => {
                let waited = self.connect_timeout.as_secs();
                Err(Failure::NotSent(format!("no connection within {waited} s")))
            }
        }
    }

    fn idle_sender(&self) -> Option<Sender> {
        let mut idle = self.idle[shard()].lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > IDLE_LIMIT {
                idle.clear(); // The rest are older still.
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
                .map_err(|_| format!("`{host}` is no host name"))?;
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

async fn shake<I, B>(io: I) -> Result<SendRequest<B>, String>
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
        std::io::ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".into(),
        std::io::ErrorKind::TimedOut => "the connection timed out".into(),
        _ => error.to_string(),
    }
}

/// hyper's words, with what lies beneath them.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
