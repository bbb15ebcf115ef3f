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
        let mut mark = SentMark(self.newest_id());
        for turn in (0..COUNT_EVERY).cycle() {
            turns.tick().await;
            let newest = self.newest_id();
            let others = match turn {
                0 => OtherGateways::counted(mail.count().await),
                _ => OtherGateways::assumed(mail.live()),
            };
            if let Some(sent) = mark.advance(newest, others) {
                self.send_after(sent, mail).await;
            }
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

/// Whether there are other gateways that need the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherGateways {
    Present,
    Absent,
    /// There were none when they were counted last, but one may have started since.
    Unknown,
}

impl OtherGateways {
    fn counted(live: usize) -> Self {
        if live > 1 { Self::Present } else { Self::Absent }
    }

    fn assumed(live: usize) -> Self {
        if live > 1 { Self::Present } else { Self::Unknown }
    }
}

/// The latest event that the other gateways do not need any more.
struct SentMark(EventId);

impl SentMark {
    /// Returns the event after which events have to be sent now, if there are any.
    fn advance(&mut self, newest: EventId, others: OtherGateways) -> Option<EventId> {
        if others == OtherGateways::Unknown || newest == self.0 {
            return None;
        }
        let sent = std::mem::replace(&mut self.0, newest);
        (others == OtherGateways::Present).then_some(sent)
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
    fn a_gateway_that_has_just_started_gets_the_events_since_the_last_count() {
        let ring = EventRing::new(10, system_clock());
        let mut mark = SentMark(ring.newest_id());
        let mut next = |others| {
            ring.emit(Event::new(EventKind::ToolResult));
            let newest = ring.newest_id();
            mark.advance(newest, others).map(|sent| ring.latest(Since::After(sent), 10, is_sent).len())
        };
        assert_eq!(next(OtherGateways::Present), Some(1));
        assert_eq!(next(OtherGateways::Absent), None);
        assert_eq!(next(OtherGateways::Unknown), None);
        assert_eq!(next(OtherGateways::Unknown), None);
        // The last two, and the one that came with this count.
        assert_eq!(next(OtherGateways::Present), Some(3));
    }

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
