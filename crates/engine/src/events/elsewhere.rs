//! Events of other gateways on the same store: a gateway sends its latest events in batches, a few times a second.
//!
//! Nothing follows the ring for this, so a call does not wake the sender. Of a long batch the oldest events are left out,
//! and an event tells how many.

use super::{EventRing, ORIGIN, Since};
use crate::replica_mail::{ReplicaMail, ReplicaMessage};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use toolbooth_core::event::{Event, EventId, EventKind};
use toolbooth_core::json::RawJson;

/// How often events are sent.
const SEND_EVERY: Duration = Duration::from_millis(500);
/// The most events in one message.
const MAX_SENT: usize = 200;
/// The most events that are looked at for one message.
const MAX_READ: usize = 10_000;
/// How often the gateways are counted, in intervals of sending.
const COUNT_EVERY: u32 = 6;

impl EventRing {
    /// Sends the events of this gateway to the others, for as long as it is polled.
    pub(crate) async fn send_to_others(&self, mail: &ReplicaMail) {
        let mut turns = interval(SEND_EVERY);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = self.newest_id();
        for turn in (0..COUNT_EVERY).cycle() {
            turns.tick().await;
            if turn == 0 {
                mail.count().await;
            }
            let newest = self.newest_id();
            if mail.live() > 1 && newest != sent {
                self.send_after(sent, mail).await;
            }
            sent = newest;
        }
    }

    async fn send_after(&self, sent: EventId, mail: &ReplicaMail) {
        let found = self.latest(Since::After(sent), MAX_READ, is_sent);
        let missed = found.len().saturating_sub(MAX_SENT);
        let events: Vec<RawJson> = found.iter().skip(missed).map(|(id, event)| event.json(*id)).collect();
        if events.is_empty() {
            return;
        }
        // Events may be lost; the audit has every call.
        let _ = mail.send("", &ReplicaMessage::Events { events, missed: missed as u64 }).await;
    }

    /// Emits events of another gateway, and how many it left out.
    pub fn emit_elsewhere(&self, events: &[RawJson], missed: u64) {
        if missed > 0 {
            let event = Event::new(EventKind::EventsMissed).with(ORIGIN, "another gateway");
            self.emit(event.with("count", missed));
        }
        for event in events.iter().take(MAX_SENT) {
            if let Some(event) = Event::read(event, (ORIGIN, "another gateway")) {
                self.add(event);
            }
        }
    }
}

/// Whether an event is sent to other gateways. They have connections to servers of their own, learn of held calls from the
/// store, and get no progress, because there is too much of it.
fn is_sent(event: &Event) -> bool {
    let is_own = event.facts.as_ref().is_none_or(|facts| facts.iter().all(|(key, _)| *key != ORIGIN));
    is_own
        && !matches!(
            event.kind,
            EventKind::ServerConnecting
                | EventKind::ServerConnected
                | EventKind::ServerDisconnected
                | EventKind::ServerError
                | EventKind::ToolProgress
                | EventKind::ToolUpdate
                | EventKind::ToolChanged
                | EventKind::CatalogChanged
                | EventKind::ConfigError
                | EventKind::CallHeld
                | EventKind::CallApproved
                | EventKind::CallRejected
                | EventKind::CallExpired
                | EventKind::PlanQueued
                | EventKind::PlanApproved
                | EventKind::PlanRejected
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;

    #[test]
    fn events_of_others_are_marked_and_not_sent_again() {
        let (a, b) = (EventRing::new(10, system_clock()), EventRing::new(10, system_clock()));
        a.emit(Event::new(EventKind::ToolResult).user("ann").outcome("done"));
        a.emit(Event::new(EventKind::ServerConnected));
        let sent = a.latest(Since::Oldest, 10, is_sent);
        assert_eq!(sent.len(), 1);
        b.emit_elsewhere(&[sent[0].1.json(sent[0].0)], 3);
        let kinds: Vec<EventKind> =
            b.latest(Since::Oldest, 10, |_| true).iter().map(|(_, event)| event.kind).collect();
        assert_eq!(kinds, [EventKind::EventsMissed, EventKind::ToolResult]);
        assert!(b.latest(Since::Oldest, 10, is_sent).is_empty());
    }
}
