//! Dialling a WebSocket: TCP, TLS where the URL says so, and the handshake with the gateway's credential.

use super::WebSocketParts;
use crate::error::UpstreamError;
use crate::http::{Origin, connector};
use crate::refusal::Refusals;
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

/// A socket that has shaken hands.
pub(super) type Socket = WebSocketStream<Listening>;

/// Whether the handshake names the subprotocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Mcp,
    Nothing,
}

/// Connects, again after a challenge that could be met.
pub(super) async fn connect(parts: &WebSocketParts) -> Result<(Socket, Heard), UpstreamError> {
    let mut refusals = Refusals::default();
    let mut offer = Offer::Mcp;
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
            Error::Http(response) if Refusals::is_one(response.status()) => {
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
            // A server may choose none of the subprotocols it is offered; the library wants one chosen.
            Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(SubProtocolError::NoSubProtocol))
                if offer == Offer::Mcp =>
            {
                offer = Offer::Nothing;
            }
            Error::Protocol(error) => return Err(bad(parts, format!("no WebSocket handshake: {error}"))),
            error => return Err(unreachable(parts, reason_of(&error))),
        }
    }
}

fn unreachable(parts: &WebSocketParts, reason: String) -> UpstreamError {
    UpstreamError::Unreachable { server: parts.server.clone(), reason }
}

fn bad(parts: &WebSocketParts, what: String) -> UpstreamError {
    UpstreamError::BadAnswer { server: parts.server.clone(), what }
}

fn request(parts: &WebSocketParts, offer: Offer) -> Request<()> {
    let Origin { scheme, authority, path } = &parts.origin;
    let scheme = if *scheme == Scheme::HTTPS { "wss" } else { "ws" };
    let mut request = Request::new(());
    // The origin was a URI once, so its parts make one again.
    *request.uri_mut() = format!("{scheme}://{authority}{path}").parse::<Uri>().unwrap_or_default();
    let headers = request.headers_mut();
    for (name, value) in &parts.headers {
        headers.insert(name, value.clone());
    }
    // These come last: a configured header must not break the handshake.
    let header = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    headers.insert(HOST, header(authority.as_str()));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, header(&generate_key()));
    match offer {
        Offer::Mcp => drop(headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mcp"))),
        Offer::Nothing => drop(headers.remove(SEC_WEBSOCKET_PROTOCOL)),
    }
    request
}

async fn dial(parts: &WebSocketParts, request: Request<()>) -> Result<(Socket, Heard), Error> {
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
    let heard = Heard::now();
    let config = WebSocketConfig::default()
        .max_message_size(Some(parts.message_limit))
        .max_frame_size(Some(parts.message_limit));
    let listening = Listening { io, heard: heard.clone() };
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, listening, Some(config)).await?;
    Ok((socket, heard))
}

/// What went wrong, in our words.
pub(super) fn reason_of(error: &Error) -> String {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => "it closed the connection".into(),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => "it hung up without a goodbye".into(),
        Error::Protocol(_) | Error::Utf8(_) | Error::AttackAttempt => {
            "it broke the WebSocket protocol".into()
        }
        Error::Capacity(_) => "it sent more than the limit allows".into(),
        Error::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".into(),
            io::ErrorKind::TimedOut => "the connection timed out".into(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
                "the connection broke".into()
            }
            _ => error.to_string(),
        },
        error => error.to_string(),
    }
}

/// When the server was last heard. A long message counts while it still arrives.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    opened: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Heard {
    fn now() -> Self {
        Self { opened: Instant::now(), last_ms: Arc::default() }
    }

    fn note(&self) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Waits until nothing has been heard for that long.
    pub(super) async fn silence(&self, patience: Duration) {
        loop {
            let until = self.opened + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + patience;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A byte stream that notes when something came.
pub(super) struct Listening {
    io: Box<dyn Duplex>,
    heard: Heard,
}

impl AsyncRead for Listening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.note();
        }
        read
    }
}

impl AsyncWrite for Listening {
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
