//! A follower: a reader of events at its own pace.

use super::{EventRing, READ_BATCH, Since};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use toolbooth_core::event::{Event, EventId, EventKinds};
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::json::{ObjectWriter, RawJson};

/// The maximum number of followers of all callers.
const MAX_FOLLOWERS: usize = 256;
/// The maximum number of followers of one user.
const MAX_OF_USER: usize = 32;

/// The limit of event streams is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyFollowers {
    /// The limit of this user.
    #[error("you already have {MAX_OF_USER} open event streams")]
    OfUser,
    /// The limit of all callers.
    #[error("{MAX_FOLLOWERS} event streams are already open")]
    OfAll,
}

impl Fault for TooManyFollowers {
    fn code(&self) -> &'static str {
        "events.too-many-streams"
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        Some("close one, or poll `/events/recent`".into())
    }
}

/// The right to one more stream, returned on drop.
#[derive(Debug)]
pub struct FollowerSlot {
    events: Arc<EventRing>,
    user: Arc<str>,
}

impl FollowerSlot {
    pub(super) fn take(events: &Arc<EventRing>, user: &Arc<str>) -> Result<Self, TooManyFollowers> {
        let mut slots = events.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.values().sum::<usize>() >= MAX_FOLLOWERS {
            return Err(TooManyFollowers::OfAll);
        }
        let taken = slots.entry(user.clone()).or_default();
        if *taken >= MAX_OF_USER {
            return Err(TooManyFollowers::OfUser);
        }
        *taken += 1;
        drop(slots);
        Ok(Self { events: events.clone(), user: user.clone() })
    }
}

impl Drop for FollowerSlot {
    fn drop(&mut self) {
        let mut slots = self.events.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = slots.get_mut(&self.user) {
            *taken -= 1;
            if *taken == 0 {
                slots.remove(&self.user);
            }
        }
    }
}

/// One item that a follower reads.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// An event.
    Event(EventId, Event),
    /// Events were lost; the oldest ones that are left follow.
    Gap {
        /// The position after which the stream continues.
        id: EventId,
        /// Why events are missing.
        reason: GapReason,
        /// The number of missing events, if it is known and the caller may know it.
        missed: Option<u64>,
    },
}

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// They have left the ring.
    Overtaken,
    /// The follower's last event is from another run or another gateway.
    AnotherRun,
}

/// A reader with a position in the ring.
#[derive(Debug)]
pub struct Follower {
    events: Arc<EventRing>,
    kinds: EventKinds,
    /// The number of the last event that was read.
    last: u64,
    /// Whether the follower's position is from another run, and the gap was not reported yet.
    is_foreign: bool,
    _slot: Option<FollowerSlot>,
}

impl Follower {
    pub(super) fn new(
        events: &Arc<EventRing>,
        kinds: EventKinds,
        since: Since,
        slot: Option<FollowerSlot>,
    ) -> Self {
        // Counted first, so that events from now on wake it.
        events.followers.fetch_add(1, Ordering::AcqRel);
        let (dropped, newest) = {
            let ring = events.ring();
            (ring.dropped, ring.newest())
        };
        let (last, is_foreign) = match since {
            Since::Now => (newest, false),
            Since::Oldest => (dropped, false),
            Since::After(id) if id.run == events.run => (id.number.min(newest), false),
            Since::After(_) => (dropped, true),
        };
        Self { events: events.clone(), kinds, last, is_foreign, _slot: slot }
    }

    /// The position: the id of the last event that was read.
    pub fn position(&self) -> EventId {
        EventId { run: self.events.run, number: self.last }
    }

    /// Waits for the next events. Cancel-safe.
    pub async fn next(&mut self) -> Vec<StreamItem> {
        let events = self.events.clone();
        loop {
            // Registered before reading, so that no event is missed in between.
            let woken = events.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let (items, end) = self.read_batch();
            if !items.is_empty() {
                return items;
            }
            if end == BatchEnd::Newest {
                woken.await;
            }
        }
    }

    /// The events since the last time, without waiting.
    pub fn now(&mut self) -> Vec<StreamItem> {
        loop {
            let (items, end) = self.read_batch();
            if !items.is_empty() || end == BatchEnd::Newest {
                return items;
            }
        }
    }

    fn read_batch(&mut self) -> (Vec<StreamItem>, BatchEnd) {
        let run = self.events.run;
        let ring = self.events.ring();
        let mut items = Vec::new();
        if self.is_foreign {
            self.is_foreign = false;
            let id = EventId { run, number: ring.dropped };
            items.push(StreamItem::Gap { id, reason: GapReason::AnotherRun, missed: None });
        }
        if self.last < ring.dropped {
            let missed = ring.dropped - self.last;
            self.events.overtaken.fetch_add(missed, Ordering::Relaxed);
            self.last = ring.dropped;
            let id = EventId { run, number: self.last };
            items.push(StreamItem::Gap { id, reason: GapReason::Overtaken, missed: Some(missed) });
        }
        let from = usize::try_from(self.last - ring.dropped).unwrap_or(usize::MAX);
        for event in ring.kept.iter().skip(from).take(READ_BATCH) {
            self.last += 1;
            if self.kinds.has(event.kind) {
                items.push(StreamItem::Event(EventId { run, number: self.last }, event.clone()));
            }
        }
        let end = if self.last == ring.newest() { BatchEnd::Newest } else { BatchEnd::More };
        (items, end)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.events.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether a batch reached the newest event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchEnd {
    Newest,
    More,
}

impl StreamItem {
    /// The position after which the stream continues.
    pub fn id(&self) -> EventId {
        match self {
            Self::Event(id, _) | Self::Gap { id, .. } => *id,
        }
    }

    /// The item as one line of JSON.
    pub fn json(&self) -> RawJson {
        match self {
            Self::Event(id, event) => event.json(*id),
            Self::Gap { id, reason, missed } => {
                let mut writer = ObjectWriter::default();
                writer.text("id", &id.to_string()).text("type", "events.gap");
                writer.text(
                    "reason",
                    match reason {
                        GapReason::Overtaken => "overtaken",
                        GapReason::AnotherRun => "another-run",
                    },
                );
                if let Some(missed) = missed {
                    writer.number("missed", *missed);
                }
                writer.finish()
            }
        }
    }
}
