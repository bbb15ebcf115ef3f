//! Opens a WebSocket: TCP, TLS if the URL requires it, and the handshake with the gateway's credential.

use crate::auth_refusals::AuthRefusals;
use crate::error::UpstreamError;
use crate::http::{HttpOrigin, connector};
use crate::remote_parts::RemoteParts;
use ::http::header::{
    CONNECTION, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use ::http::uri::{Scheme, Uri};
use ::http::{HeaderValue, Request};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::{ProtocolError, SubProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// A socket after the handshake.
pub(super) type Socket = WebSocketStream<MonitoredStream>;

/// Whether the handshake offers the subprotocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubprotocolOffer {
    Mcp,
    Nothing,
}

/// Connects, again after a challenge that could be answered.
pub(super) async fn connect(parts: &RemoteParts) -> Result<(Socket, LastActivity), UpstreamError> {
    let mut refusals = AuthRefusals::default();
    let mut offer = SubprotocolOffer::Mcp;
    loop {
        let mut request = request(parts, offer);
        parts.credential.apply(request.headers_mut()).await;
        let dialled = tokio::time::timeout(parts.connect_timeout, dial(parts, request)).await;
        let error = match dialled {
            Ok(Ok(dialled)) => return Ok(dialled),
            Ok(Err(error)) => error,
            Err(_) => {
                let waited = parts.connect_timeout.as_secs();
                return Err(unreachable(parts, format!("no connection within {waited} s")));
            }
        };
        match error {
            Error::Http(response) if AuthRefusals::is_one(response.status()) => {
                refusals
                    .answer(&parts.server, &parts.credential, response.status(), response.headers())
                    .await?;
            }
            Error::Http(response) if response.status().is_server_error() => {
                return Err(unreachable(parts, format!("it answered HTTP {}", response.status())));
            }
            Error::Http(response) => {
                return Err(bad(parts, format!("HTTP {} to a WebSocket handshake", response.status())));
            }
            // A server may choose none of the offered subprotocols, but the library requires one.
            Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol))
                if offer == SubprotocolOffer::Mcp =>
            {
                offer = SubprotocolOffer::Nothing;
            }
            Error::Protocol(error) => {
                return Err(bad(parts, format!("the WebSocket handshake failed: {error}")));
            }
            error => return Err(unreachable(parts, reason_of(&error))),
        }
    }
}

fn unreachable(parts: &RemoteParts, reason: String) -> UpstreamError {
    UpstreamError::Unreachable { server: parts.server.clone(), reason }
}

fn bad(parts: &RemoteParts, what: String) -> UpstreamError {
    UpstreamError::BadAnswer { server: parts.server.clone(), what }
}

fn request(parts: &RemoteParts, offer: SubprotocolOffer) -> Request<()> {
    let HttpOrigin { scheme, authority, path } = &parts.origin;
    let scheme = if *scheme == Scheme::HTTPS { "wss" } else { "ws" };
    let mut request = Request::new(());
    // The origin was parsed from a URI, so its parts form one.
    *request.uri_mut() = format!("{scheme}://{authority}{path}").parse::<Uri>().unwrap_or_default();
    let headers = request.headers_mut();
    for (name, value) in &parts.headers {
        headers.insert(name, value.clone());
    }
    // Set last: a configured header must not break the handshake.
    let header = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    headers.insert(HOST, header(authority.as_str()));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, header(&generate_key()));
    match offer {
        SubprotocolOffer::Mcp => {
            drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp")))
        }
        SubprotocolOffer::Nothing => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
    request
}

async fn dial(parts: &RemoteParts, request: Request<()>) -> Result<(Socket, LastActivity), Error> {
    let is_tls = parts.origin.scheme == Scheme::HTTPS;
    let authority = &parts.origin.authority;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    let _ = stream.set_nodelay(true);
    let io: Box<dyn Duplex> = if is_tls {
        let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Box::new(connector().connect(name, stream).await?)
    } else {
        Box::new(stream)
    };
    let activity = LastActivity::now();
    let config = WebSocketConfig::default()
        .max_message_size(Some(parts.message_limit))
        .max_frame_size(Some(parts.message_limit));
    let monitored = MonitoredStream { io, activity: activity.clone() };
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, monitored, Some(config)).await?;
    Ok((socket, activity))
}

/// Describes a WebSocket error.
pub(super) fn reason_of(error: &Error) -> String {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => "it closed the connection".into(),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            "it closed the connection without a close frame".into()
        }
        Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => {
            "it broke the WebSocket protocol".into()
        }
        Error::Capacity(_) => "it sent more than the limit allows".into(),
        Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused".into(),
            io::ErrorKind::TimedOut => "the connection timed out".into(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                "the connection broke".into()
            }
            _ => error.to_string(),
        },
        error => error.to_string(),
    }
}

/// The time of the last received data. A long message counts while it arrives.
#[derive(Debug, Clone)]
pub(super) struct LastActivity {
    opened: Instant,
    last_ms: Arc<AtomicU64>,
}

impl LastActivity {
    fn now() -> Self {
        Self { opened: Instant::now(), last_ms: Arc::default() }
    }

    fn note(&self) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Waits until nothing has been received for `time_limit`.
    pub(super) async fn wait_for_silence(&self, time_limit: Duration) {
        loop {
            let until =
                self.opened + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + time_limit;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A byte stream that records when data arrives.
pub(super) struct MonitoredStream {
    io: Box<dyn Duplex>,
    activity: LastActivity,
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.note();
        }
        read
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
