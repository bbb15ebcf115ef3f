//! A server on a WebSocket: every text frame is one message.

mod dial;

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, Taken};
use crate::error::UpstreamError;
use crate::http::{Credential, Origin, OriginError};
use crate::peer::Notice;
use ::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use dial::{Heard, Socket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use toolbooth_core::json::RawJson;

/// How often a server is asked for a sign of life.
pub const PING_EVERY: Duration = Duration::from_secs(30);
/// How long the last words may take: ours to be sent, the server's to arrive.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a WebSocket is opened with.
#[derive(Debug)]
pub struct WebSocketParts {
    /// The server's name, for messages.
    pub server: String,
    /// Where it listens, see [`origin`].
    pub origin: Origin,
    /// Headers of the configuration, sent with the handshake.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential.
    pub credential: Credential,
    /// Where its notices go.
    pub notices: mpsc::Sender<Notice>,
    /// What unasked `roots/list` is answered with.
    pub roots: Option<RawJson>,
    /// The longest message taken.
    pub message_limit: usize,
    /// How long dialling and the WebSocket handshake may take.
    pub connect_timeout: Duration,
    /// How often the server is pinged; one that stays silent for two pings is gone.
    pub ping_every: Duration,
}

/// Reads a `ws` or `wss` URL.
pub fn origin(url: &str) -> Result<Origin, OriginError> {
    let wrong = || OriginError::OtherKind(url.to_owned());
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    match scheme.to_ascii_lowercase().as_str() {
        "ws" => Origin::parse(&format!("http://{rest}")),
        "wss" => Origin::parse(&format!("https://{rest}")),
        _ => Err(wrong()),
    }
}

/// Dials the server and speaks to it.
pub async fn open(parts: WebSocketParts) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let (socket, heard) = dial::connect(&parts).await?;
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&parts.server, outgoing, parts.notices, parts.roots, on_close);
    let (sink, stream) = socket.split();
    let channel = Channel {
        // A peer that everybody dropped unclosed, as after a failed handshake, must not keep its socket.
        peer: Arc::downgrade(&peer),
        stream,
        heard,
        limit: parts.message_limit,
        patience: parts.ping_every * 2,
    };
    tokio::spawn(run(channel, sink, queue, parts.ping_every, closing));
    Ok(peer)
}

/// Why a channel ended.
enum Ended {
    /// The gateway wants it so.
    Asked(Option<oneshot::Sender<()>>),
    /// The server sent a message over the limit.
    TooLong,
    /// The server left, or is not to be heard any more.
    Lost(String),
}

/// The incoming half of a socket.
struct Channel {
    peer: Weak<DuplexPeer>,
    stream: SplitStream<Socket>,
    heard: Heard,
    limit: usize,
    patience: Duration,
}

/// Owns the socket: reads and writes until one of both ends or the gateway asks.
async fn run(
    mut channel: Channel,
    mut sink: SplitSink<Socket, Message>,
    mut queue: mpsc::Receiver<Bytes>,
    ping_every: Duration,
    closing: oneshot::Receiver<oneshot::Sender<()>>,
) {
    let ended = tokio::select! {
        ended = channel.read() => ended,
        ended = write(&mut sink, &mut queue, ping_every) => ended,
        asked = closing => Ended::Asked(asked.ok()),
    };
    let (code, reason, confirm) = match ended {
        Ended::Asked(confirm) => (CloseCode::Normal, None, confirm),
        Ended::TooLong => (CloseCode::Size, Some("it sent a message over the limit".to_owned()), None),
        Ended::Lost(reason) => (CloseCode::Normal, Some(reason), None),
    };
    // Those who wait hear of a loss before the server gets its goodbye.
    if let (Some(reason), Some(peer)) = (reason, channel.peer.upgrade()) {
        peer.lost(&reason);
    }
    let goodbye = async {
        let frame = CloseFrame { code, reason: Utf8Bytes::default() };
        if sink.send(Message::Close(Some(frame))).await.is_ok() && code == CloseCode::Normal {
            while let Some(Ok(_)) = channel.stream.next().await {}
        }
    };
    let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    if let Some(confirm) = confirm {
        let _ = confirm.send(());
    }
}

impl Channel {
    async fn read(&mut self) -> Ended {
        loop {
            let next = tokio::select! {
                next = self.stream.next() => next,
                () = self.heard.silence(self.patience) => {
                    return Ended::Lost("it gave no sign of life".into());
                }
            };
            let message = match next {
                Some(Ok(message)) => message,
                Some(Err(error)) => return self.failed(&error),
                None => return Ended::Lost("it closed the connection".into()),
            };
            let Some(peer) = self.peer.upgrade() else { return Ended::Asked(None) };
            match message {
                // Binary frames are not foreseen, but what they hold is either a message or not.
                Message::Text(_) | Message::Binary(_) => {
                    if peer.receive(&message.into_data()) == Taken::Last {
                        return Ended::Lost("the gateway ended the connection".into());
                    }
                }
                Message::Close(frame) => {
                    let code = frame.map_or(CloseCode::Status, |frame| frame.code);
                    return Ended::Lost(format!("it closed the connection (code {})", u16::from(code)));
                }
                // Pings are answered by the library, with the next read.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    fn failed(&self, error: &Error) -> Ended {
        if let Error::Capacity(_) = error {
            // Its header is all that was read, so nobody knows whose answer it would have been.
            if let Some(peer) = self.peer.upgrade() {
                peer.oversized(None, self.limit);
            }
            return Ended::TooLong;
        }
        Ended::Lost(dial::reason_of(error))
    }
}

/// Writes messages, several waiting ones at once, and pings.
async fn write(
    sink: &mut SplitSink<Socket, Message>,
    queue: &mut mpsc::Receiver<Bytes>,
    ping_every: Duration,
) -> Ended {
    let mut pings = tokio::time::interval(ping_every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.tick().await; // The first comes at once, and the handshake was one.
    loop {
        let written = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => write_waiting(sink, message, queue).await,
                None => return Ended::Asked(None),
            },
            _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await,
        };
        if let Err(error) = written {
            // The server's last words, if it had any, say more than our failed ones.
            tokio::time::sleep(GOODBYE).await;
            return Ended::Lost(dial::reason_of(&error));
        }
    }
}

async fn write_waiting(
    sink: &mut SplitSink<Socket, Message>,
    first: Bytes,
    queue: &mut mpsc::Receiver<Bytes>,
) -> Result<(), Error> {
    let mut next = Some(first);
    while let Some(message) = next {
        // The library writes by itself once its buffer is full, so a long queue is no long buffer.
        sink.feed(Message::Text(Utf8Bytes::try_from(message)?)).await?;
        next = queue.try_recv().ok();
    }
    sink.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_websocket_urls_are_read() {
        let cases = [
            ("ws://localhost:8000/mcp?x=1", Some(("http", "localhost:8000", "/mcp?x=1"))),
            ("WSS://tools.test", Some(("https", "tools.test", "/"))),
            ("http://localhost/ws", None),
            ("ws://user:word@localhost/ws", None),
            ("localhost:8000", None),
        ];
        for (url, expected) in cases {
            let read = origin(url).ok();
            let read = read
                .as_ref()
                .map(|origin| (origin.scheme.as_str(), origin.authority.as_str(), &*origin.path));
            assert_eq!(read, expected, "{url}");
        }
    }
}
