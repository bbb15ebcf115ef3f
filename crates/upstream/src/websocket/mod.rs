//! Servers on WebSockets: each text frame is one message.

mod dial;

use crate::duplex::{DuplexPeer, OUTGOING_BACKLOG, ReceiveOutcome};
use crate::error::UpstreamError;
use crate::http::{HttpOrigin, OriginError};
use crate::remote_parts::RemoteParts;
use bytes::Bytes;
use dial::{LastActivity, Socket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// Ping interval.
pub const PING_EVERY: Duration = Duration::from_secs(30);
/// Timeout of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Parses a `ws` or `wss` URL.
pub fn origin(url: &str) -> Result<HttpOrigin, OriginError> {
    let wrong = || OriginError::OtherKind(url.to_owned());
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    match scheme.to_ascii_lowercase().as_str() {
        "ws" => HttpOrigin::parse(&format!("http://{rest}")),
        "wss" => HttpOrigin::parse(&format!("https://{rest}")),
        _ => Err(wrong()),
    }
}

/// Opens the socket and connects a peer to it. A server that stays silent for two ping intervals is lost.
pub async fn open(parts: RemoteParts, ping_every: Duration) -> Result<Arc<DuplexPeer>, UpstreamError> {
    let (socket, activity) = dial::connect(&parts).await?;
    let (outgoing, queue) = mpsc::channel(OUTGOING_BACKLOG);
    let (on_close, closing) = oneshot::channel();
    let peer = DuplexPeer::new(&parts.server, outgoing, parts.notices, parts.roots, on_close);
    let (sink, stream) = socket.split();
    let channel = Channel {
        // A peer that was dropped without being closed, as after a failed handshake, must not keep its socket
        // open.
        peer: Arc::downgrade(&peer),
        stream,
        activity,
        limit: parts.message_limit,
        time_limit: ping_every * 2,
    };
    tokio::spawn(run(channel, sink, queue, ping_every, closing));
    Ok(peer)
}

/// Why a channel ended.
enum ChannelEnd {
    /// The gateway closed it.
    Asked(Option<oneshot::Sender<()>>),
    /// The server sent a message over the limit.
    TooLong,
    /// The server closed it or no longer responds.
    Lost(String),
}

/// The incoming half of a socket.
struct Channel {
    peer: Weak<DuplexPeer>,
    stream: SplitStream<Socket>,
    activity: LastActivity,
    limit: usize,
    time_limit: Duration,
}

/// Owns the socket: reads and writes until either ends or the gateway closes it.
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
        asked = closing => ChannelEnd::Asked(asked.ok()),
    };
    let (code, reason, confirm) = match ended {
        ChannelEnd::Asked(confirm) => (CloseCode::Normal, None, confirm),
        ChannelEnd::TooLong => (CloseCode::Size, Some("it sent a message over the limit".to_owned()), None),
        ChannelEnd::Lost(reason) => (CloseCode::Normal, Some(reason), None),
    };
    // Waiting calls fail before the close frame is sent.
    if let (Some(reason), Some(peer)) = (reason, channel.peer.upgrade()) {
        peer.lost(&reason);
    }
    let goodbye = async {
        let frame = CloseFrame { code, reason: Utf8Bytes::default() };
        if sink.send(Message::Close(Some(frame))).await.is_ok() && code == CloseCode::Normal {
            while let Some(Ok(_)) = channel.stream.next().await {}
        }
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
    if let Some(confirm) = confirm {
        let _ = confirm.send(());
    }
}

impl Channel {
    async fn read(&mut self) -> ChannelEnd {
        loop {
            let next = tokio::select! {
                next = self.stream.next() => next,
                () = self.activity.wait_for_silence(self.time_limit) => {
                    return ChannelEnd::Lost("it did not respond to pings".into());
                }
            };
            let message = match next {
                Some(Ok(message)) => message,
                Some(Err(error)) => return self.failed(&error),
                None => return ChannelEnd::Lost("it closed the connection".into()),
            };
            let Some(peer) = self.peer.upgrade() else { return ChannelEnd::Asked(None) };
            match message {
                // Binary frames are not specified, but their content is checked like any other.
                Message::Text(_) | Message::Binary(_) => {
                    if peer.receive(&message.into_data()) == ReceiveOutcome::Last {
                        return ChannelEnd::Lost("the gateway ended the connection".into());
                    }
                }
                Message::Close(frame) => {
                    let code = frame.map_or(CloseCode::Status, |frame| frame.code);
                    return ChannelEnd::Lost(format!("it closed the connection (code {})", u16::from(code)));
                }
                // The library answers pings on the next read.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    fn failed(&self, error: &Error) -> ChannelEnd {
        if let Error::Capacity(_) = error {
            // Only its header was read, so its call is unknown.
            if let Some(peer) = self.peer.upgrade() {
                peer.oversized(None, self.limit);
            }
            return ChannelEnd::TooLong;
        }
        ChannelEnd::Lost(dial::reason_of(error))
    }
}

/// Writes messages, batching queued ones, and pings.
async fn write(
    sink: &mut SplitSink<Socket, Message>,
    queue: &mut mpsc::Receiver<Bytes>,
    ping_every: Duration,
) -> ChannelEnd {
    let mut pings = tokio::time::interval(ping_every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.tick().await; // The first tick fires immediately, and the handshake counts as activity.
    loop {
        let written = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => write_waiting(sink, message, queue).await,
                None => return ChannelEnd::Asked(None),
            },
            _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await,
        };
        if let Err(error) = written {
            // The server's close frame, if there is one, gives a better reason than the failed write.
            tokio::time::sleep(CLOSE_TIMEOUT).await;
            return ChannelEnd::Lost(dial::reason_of(&error));
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
        // The library writes when its buffer is full, so a long queue does not become a long buffer.
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
