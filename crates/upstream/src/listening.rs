//! Hearing of changes: a server is asked to tell of them before its lists are read, in the way of its era.
//!
//! Whatever changes after that is told. Where it takes the server too long to say that it will, or where it says so
//! again after a break, nobody knows what was missed, and the lists are read once more.

use crate::backoff::Backoff;
use crate::connection::{Ask, Connection};
use crate::link::{CallLink, LinkEvent};
use crate::peer::{Notice, PeerAnswer};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::RawJson;
use toolbooth_wire::Era;

/// How long the first reading of the lists waits for the server to say that it tells of changes.
const HEAD_START: Duration = Duration::from_millis(100);
/// A stream that lasted as long was worth coming back to soon.
const WORTHWHILE: Duration = Duration::from_secs(5);

/// How far the stream is that carries a server's own messages.
#[derive(Debug)]
pub(crate) struct Listening(watch::Sender<Stage>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody wanted it.
    Unwanted,
    /// Asked for; the server has not said anything to that.
    Opening,
    /// Likewise, and what it offers was read meanwhile.
    Late,
    /// Open, or refused.
    Settled,
}

impl Default for Listening {
    fn default() -> Self {
        Self(watch::Sender::new(Stage::Unwanted))
    }
}

impl Listening {
    /// Notes that the server was asked.
    pub(crate) fn begin(&self) {
        self.0.send_replace(Stage::Opening);
    }

    /// Notes what the server said; whether its lists may have changed before, unheard.
    pub(crate) fn settle(&self) -> bool {
        self.0.send_replace(Stage::Settled) == Stage::Late
    }

    /// Waits for a server that was asked to say something to that.
    pub(crate) async fn settled(&self, patience: Duration) {
        let is_open = |stage: &Stage| !matches!(stage, Stage::Opening | Stage::Late);
        if !is_open(&self.0.borrow()) {
            let _ = tokio::time::timeout(patience, self.0.subscribe().wait_for(is_open)).await;
        }
    }

    /// Waits likewise before its lists are read, and notes if that was in vain.
    pub(crate) async fn before_reading(&self) {
        self.settled(HEAD_START).await;
        self.0.send_if_modified(|stage| {
            let late = *stage == Stage::Opening;
            if late {
                *stage = Stage::Late;
            }
            late
        });
    }
}

/// The pauses before a stream is opened again: long ones where it never lasts.
#[derive(Debug, Default)]
pub(crate) struct Returns(Backoff);

impl Returns {
    /// The pause after a stream that was opened then, or that could not be.
    pub(crate) fn pause(&mut self, opened: Option<Instant>) -> Duration {
        if opened.is_some_and(|opened| opened.elapsed() >= WORTHWHILE) {
            self.0 = Backoff::default();
        }
        self.0.next_pause()
    }
}

/// Asks a server to tell of changes, and waits a moment until it says that it will.
pub(crate) async fn hear_changes(connection: &Arc<Connection>, notices: &mpsc::Sender<Notice>) {
    match connection.era {
        Era::Legacy => {
            connection.peer.listen();
            connection.peer.listening().await;
        }
        Era::Modern if connection.tells_of_changes() => {
            let listening = Arc::new(Listening::default());
            listening.begin();
            tokio::spawn(subscribe(Arc::downgrade(connection), listening.clone(), notices.clone()));
            listening.before_reading().await;
        }
        Era::Modern => {}
    }
}

/// Keeps a subscription to the lists of a modern server, until it is refused or the connection is gone.
async fn subscribe(connection: Weak<Connection>, listening: Arc<Listening>, notices: mpsc::Sender<Notice>) {
    let wanted = RawJson::trusted(
        &br#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#[..],
    );
    let client = ClientFacts::default();
    let (mut returns, mut returning) = (Returns::default(), false);
    while let Some(connection) = connection.upgrade() {
        let (link, mut events) = CallLink::new();
        let ask = Ask::plain("subscriptions/listen", vec![("notifications", wanted.clone())], &client);
        let mut opened = None;
        let ended = {
            let asked = connection.ask(ask, &link);
            tokio::pin!(asked);
            loop {
                tokio::select! {
                    ended = &mut asked => break ended,
                    event = events.recv() => if let Some(LinkEvent::Acknowledged) = event {
                        opened = Some(Instant::now());
                        if listening.settle() || returning {
                            Notice::Missed.pass_on(&notices);
                        }
                    },
                }
            }
        };
        drop(connection);
        listening.settle();
        if let Ok(PeerAnswer::Whole(Err(_))) = ended {
            return; // Refused: it will not change its mind.
        }
        tokio::time::sleep(returns.pause(opened)).await;
        returning = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_opens_after_the_lists_were_read_may_have_missed_something() {
        let listening = Listening::default();
        listening.begin();
        let (start, opening) = (Instant::now(), tokio::time::sleep(HEAD_START / 2));
        tokio::join!(listening.before_reading(), async {
            opening.await;
            assert!(!listening.settle(), "nothing was read yet");
        });
        assert_eq!(start.elapsed(), HEAD_START / 2);

        listening.begin();
        listening.before_reading().await;
        assert_eq!(start.elapsed(), HEAD_START / 2 + HEAD_START);
        assert!(listening.settle(), "the lists were read before it was open");
        assert!(!listening.settle(), "that is said once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_never_lasts_is_opened_ever_more_rarely() {
        let mut returns = Returns::default();
        for _ in 0..20 {
            returns.pause(Some(Instant::now()));
        }
        let opened = Instant::now();
        assert!(returns.pause(Some(opened)) >= Duration::from_secs(3), "a twentieth of a minute at least");
        tokio::time::advance(WORTHWHILE).await;
        assert!(returns.pause(Some(opened)) <= Duration::from_secs(1));
        assert!(returns.pause(None) <= Duration::from_secs(2));
    }
}
