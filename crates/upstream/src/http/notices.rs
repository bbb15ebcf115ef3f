//! The stream of a legacy server's own messages: notices, and questions that name no call.

use super::answer::Reader;
use super::peer::{HttpPeer, OwnStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use toolbooth_wire::Message;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the stream, coming back when it breaks, until the peer is gone or has no such stream.
pub(super) async fn follow(peer: Weak<HttpPeer>) {
    let mut pause = FIRST_PAUSE;
    let mut last_id: Option<String> = None;
    loop {
        let Some(peer) = peer.upgrade().filter(|peer| !peer.closed.load(Ordering::Relaxed)) else { return };
        let opened = peer.open_stream(last_id.as_deref()).await;
        peer.own_stream.send_replace(OwnStream::Settled);
        if let Ok((response, _connection)) = opened {
            if !response.status().is_success() {
                return; // 405: the server has nothing to say of its own.
            }
            pause = FIRST_PAUSE;
            let mut reader = Reader::new(response, peer.parts.body_limit, peer.parts.server.clone());
            let weak = Arc::downgrade(&peer);
            drop(peer);
            while let Ok(Some(message)) = reader.next_message().await {
                let Some(peer) = weak.upgrade() else { return };
                match message {
                    Message::Notification(notification) => peer.noticed(notification, None),
                    Message::Request(request) => peer.asked(request, peer.only_askable()),
                    Message::Response(_) => {}
                }
            }
            last_id = reader.last_id().map(str::to_owned).or(last_id);
        } else {
            drop(peer);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
