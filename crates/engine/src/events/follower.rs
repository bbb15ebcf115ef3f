//! Somebody who follows events, at their own pace.

use super::{Events, LOOK, Since};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use toolbooth_core::event::{Event, EventId, Kinds};
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::json::{ObjectWriter, RawJson};

/// How many callers' followers there may be in all.
const MAX_FOLLOWERS: usize = 256;
/// How many of them one user may have.
const MAX_OF_ONE: usize = 32;

/// Too many follow already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyFollowers {
    /// This user has enough streams.
    #[error("you have {MAX_OF_ONE} streams of events open already")]
    OfOne,
    /// All of them together are too many.
    #[error("{MAX_FOLLOWERS} streams of events are open already")]
    InAll,
}

impl Fault for TooManyFollowers {
    fn code(&self) -> &'static str {
        "events.too-many-streams"
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        Some("close one, or read `/events/recent` now and then".into())
    }
}

/// The right to one more stream; leaving gives it back.
#[derive(Debug)]
pub struct Seat {
    events: Arc<Events>,
    user: Arc<str>,
}

impl Seat {
    pub(super) fn take(events: &Arc<Events>, user: &Arc<str>) -> Result<Self, TooManyFollowers> {
        let mut seats = events.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.values().sum::<usize>() >= MAX_FOLLOWERS {
            return Err(TooManyFollowers::InAll);
        }
        let taken = seats.entry(user.clone()).or_default();
        if *taken >= MAX_OF_ONE {
            return Err(TooManyFollowers::OfOne);
        }
        *taken += 1;
        drop(seats);
        Ok(Self { events: events.clone(), user: user.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.events.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.user) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.user);
            }
        }
    }
}

/// What a follower hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Something happened.
    Event(EventId, Event),
    /// Something happened that is not kept any more; what is kept follows.
    Gap {
        /// After this place the story goes on.
        id: EventId,
        /// Why that is missing.
        reason: GapReason,
        /// How many events are missing, where that is known and may be told.
        missed: Option<u64>,
    },
}

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// They have left the ring meanwhile.
    Overtaken,
    /// The last event that was heard is of another run of the gateway, or of another gateway.
    AnotherRun,
}

/// A place in the ring.
#[derive(Debug)]
pub struct Follower {
    events: Arc<Events>,
    kinds: Kinds,
    /// The number of the last event that was looked at.
    last: u64,
    /// The follower comes from another run, and has not been told.
    stranger: bool,
    _seat: Option<Seat>,
}

impl Follower {
    pub(super) fn new(events: &Arc<Events>, kinds: Kinds, since: Since, seat: Option<Seat>) -> Self {
        // Counted first, so that whoever emits from now on knows of it.
        events.followers.fetch_add(1, Ordering::AcqRel);
        let (gone, newest) = {
            let ring = events.ring();
            (ring.gone, ring.newest())
        };
        let (last, stranger) = match since {
            Since::Now => (newest, false),
            Since::Oldest => (gone, false),
            Since::After(id) if id.run == events.run => (id.number.min(newest), false),
            Since::After(_) => (gone, true),
        };
        Self { events: events.clone(), kinds, last, stranger, _seat: seat }
    }

    /// The place of the last event that was looked at.
    pub fn place(&self) -> EventId {
        EventId { run: self.events.run, number: self.last }
    }

    /// What happened since the last time, waiting until something has. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Vec<Heard> {
        let events = self.events.clone();
        loop {
            // Waiting begins before the look, so that nothing falls between the two.
            let woken = events.wake.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            let (heard, looked) = self.look();
            if !heard.is_empty() {
                return heard;
            }
            if looked == Looked::AtAll {
                woken.await;
            }
        }
    }

    /// What happened since the last time; nothing where nothing did that is wanted.
    pub fn now(&mut self) -> Vec<Heard> {
        loop {
            let (heard, looked) = self.look();
            if !heard.is_empty() || looked == Looked::AtAll {
                return heard;
            }
        }
    }

    fn look(&mut self) -> (Vec<Heard>, Looked) {
        let run = self.events.run;
        let ring = self.events.ring();
        let mut heard = Vec::new();
        if self.stranger {
            self.stranger = false;
            let id = EventId { run, number: ring.gone };
            heard.push(Heard::Gap { id, reason: GapReason::AnotherRun, missed: None });
        }
        if self.last < ring.gone {
            let missed = ring.gone - self.last;
            self.events.overtaken.fetch_add(missed, Ordering::Relaxed);
            self.last = ring.gone;
            let id = EventId { run, number: self.last };
            heard.push(Heard::Gap { id, reason: GapReason::Overtaken, missed: Some(missed) });
        }
        let from = usize::try_from(self.last - ring.gone).unwrap_or(usize::MAX);
        for event in ring.kept.iter().skip(from).take(LOOK) {
            self.last += 1;
            if self.kinds.has(event.kind) {
                heard.push(Heard::Event(EventId { run, number: self.last }, event.clone()));
            }
        }
        let looked = if self.last == ring.newest() { Looked::AtAll } else { Looked::AtSome };
        (heard, looked)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.events.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    AtAll,
    AtSome,
}

impl Heard {
    /// The place after which the story goes on.
    pub fn id(&self) -> EventId {
        match self {
            Self::Event(id, _) | Self::Gap { id, .. } => *id,
        }
    }

    /// The JSON that is told, on one line.
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
