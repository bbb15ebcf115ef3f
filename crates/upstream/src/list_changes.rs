//! Subscriptions to list changes: opened before the lists are read, as the server's era requires.
//!
//! If the stream opens too late, or again after a break, changes may have been missed, and the lists are read
//! again.

use crate::backoff::{Backoff, RetryReason};
use crate::connection::{Connection, UpstreamRequest};
use crate::link::{CallLink, LinkEvent};
use crate::peer::{PeerAnswer, ServerNotice};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::RawJson;
use toolbooth_wire::Era;

/// How long the first listing waits for the change stream to open.
const OPEN_WAIT: Duration = Duration::from_millis(100);
/// A stream that lasted this long resets the reconnect backoff.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// The state of the stream that carries a server's own messages.
#[derive(Debug)]
pub(crate) struct StreamState(watch::Sender<StreamStage>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamStage {
    /// Not requested.
    NotRequested,
    /// Requested; the server has not answered yet.
    Opening,
    /// Requested and not answered, but the lists have been read already.
    Late,
    /// Open or refused.
    Settled,
}

impl Default for StreamState {
    fn default() -> Self {
        Self(watch::Sender::new(StreamStage::NotRequested))
    }
}

impl StreamState {
    /// Records that the stream was requested.
    pub(crate) fn begin(&self) {
        self.0.send_replace(StreamStage::Opening);
    }

    /// Records the server's answer. Returns whether the lists may have changed unnoticed before.
    pub(crate) fn settle(&self) -> bool {
        self.0.send_replace(StreamStage::Settled) == StreamStage::Late
    }

    /// Waits until the server has answered a request for the stream.
    pub(crate) async fn settled(&self, time_limit: Duration) {
        let is_open = |stage: &StreamStage| !matches!(stage, StreamStage::Opening | StreamStage::Late);
        if !is_open(&self.0.borrow()) {
            let _ = tokio::time::timeout(time_limit, self.0.subscribe().wait_for(is_open)).await;
        }
    }

    /// Waits for the stream before the lists are read, and records if it is late.
    pub(crate) async fn wait_before_listing(&self) {
        self.settled(OPEN_WAIT).await;
        self.0.send_if_modified(|stage| {
            let late = *stage == StreamStage::Opening;
            if late {
                *stage = StreamStage::Late;
            }
            late
        });
    }
}

/// The backoff before a stream is reopened: longer if it never lasts.
#[derive(Debug, Default)]
pub(crate) struct ReconnectBackoff(Backoff);

impl ReconnectBackoff {
    /// The pause after a stream that was opened at `opened`, or that could not be opened.
    pub(crate) fn pause(&mut self, opened: Option<Instant>) -> Duration {
        if opened.is_some_and(|opened| opened.elapsed() >= STABLE_AFTER) {
            self.0 = Backoff::default();
        }
        self.0.next_pause(RetryReason::Failure)
    }
}

/// Subscribes to a server's list changes and waits briefly for its confirmation.
pub(crate) async fn watch_changes(connection: &Arc<Connection>, notices: &mpsc::Sender<ServerNotice>) {
    match connection.era {
        Era::Legacy => {
            connection.peer.listen();
            connection.peer.wait_for_stream().await;
        }
        Era::Modern if connection.announces_changes() => {
            let stream = Arc::new(StreamState::default());
            stream.begin();
            tokio::spawn(subscribe(Arc::downgrade(connection), stream.clone(), notices.clone()));
            stream.wait_before_listing().await;
        }
        Era::Modern => {}
    }
}

/// Keeps a subscription to the lists of a modern server until the server refuses it or the connection is
/// gone.
async fn subscribe(
    connection: Weak<Connection>,
    stream: Arc<StreamState>,
    notices: mpsc::Sender<ServerNotice>,
) {
    let wanted = RawJson::trusted(
        &br#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#[..],
    );
    let client = ClientFacts::default();
    let (mut backoff, mut is_reopened) = (ReconnectBackoff::default(), false);
    while let Some(connection) = connection.upgrade() {
        let (link, mut events) = CallLink::new();
        let request =
            UpstreamRequest::plain("subscriptions/listen", vec![("notifications", wanted.clone())], &client);
        let mut opened = None;
        let ended = {
            let asked = connection.send(request, &link);
            tokio::pin!(asked);
            loop {
                tokio::select! {
                    ended = &mut asked => break ended,
                    event = events.recv() => if let Some(LinkEvent::Acknowledged) = event {
                        opened = Some(Instant::now());
                        if stream.settle() || is_reopened {
                            ServerNotice::Missed.pass_on(&notices);
                        }
                    },
                }
            }
        };
        drop(connection);
        stream.settle();
        if let Ok(PeerAnswer::Whole(Err(_))) = ended {
            return; // Refused: a retry would not help.
        }
        tokio::time::sleep(backoff.pause(opened)).await;
        is_reopened = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_opens_after_the_listing_reports_missed_changes() {
        let stream = StreamState::default();
        stream.begin();
        let (start, opening) = (Instant::now(), tokio::time::sleep(OPEN_WAIT / 2));
        tokio::join!(stream.wait_before_listing(), async {
            opening.await;
            assert!(!stream.settle(), "the lists were not read yet");
        });
        assert_eq!(start.elapsed(), OPEN_WAIT / 2);

        stream.begin();
        stream.wait_before_listing().await;
        assert_eq!(start.elapsed(), OPEN_WAIT / 2 + OPEN_WAIT);
        assert!(stream.settle(), "the lists were read before it opened");
        assert!(!stream.settle(), "missed changes are reported once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_lasts_is_reopened_less_often() {
        let mut backoff = ReconnectBackoff::default();
        for _ in 0..20 {
            backoff.pause(Some(Instant::now()));
        }
        let opened = Instant::now();
        assert!(backoff.pause(Some(opened)) >= Duration::from_secs(3), "at least a twentieth of a minute");
        tokio::time::advance(STABLE_AFTER).await;
        assert!(backoff.pause(Some(opened)) <= Duration::from_secs(1));
        assert!(backoff.pause(None) <= Duration::from_secs(2));
    }
}
