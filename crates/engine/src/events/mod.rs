//! Events while they are fresh: a ring of the latest, and those who follow it.
//!
//! The ring is the only queue. A follower has a place in it and reads at its own pace; one that is overtaken
//! is told so. Nobody who emits waits for anybody, and without followers an event costs a short lock.

mod emit;
mod follower;
mod hooks;

pub use follower::{Follower, GapReason, Heard, Seat, TooManyFollowers};
pub use hooks::Webhook;

use crate::clock::now_ms;
use hooks::Hooks;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use toolbooth_core::event::{Event, EventId, Kinds};

/// How many events are looked at under one lock.
const LOOK: usize = 256;

/// The latest events of this run, and everybody who follows them.
#[derive(Debug)]
pub struct Events {
    run: u32,
    capacity: usize,
    ring: Mutex<Ring>,
    /// How many follow: where nobody does, nobody is woken.
    followers: AtomicUsize,
    wake: Notify,
    seats: Mutex<HashMap<Arc<str>, usize>>,
    overtaken: AtomicU64,
    undelivered: AtomicU64,
    hooks: Hooks,
}

#[derive(Debug, Default)]
struct Ring {
    /// How many events have left it: the number before that of its first.
    gone: u64,
    kept: VecDeque<Event>,
}

impl Ring {
    /// The number of the newest event; zero where there was none.
    fn newest(&self) -> u64 {
        self.gone + self.kept.len() as u64
    }
}

/// From where on somebody wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// From now on.
    Now,
    /// From the oldest that is kept.
    Oldest,
    /// After the event of this id.
    After(EventId),
}

/// How events did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventsReport {
    /// Events so far.
    pub emitted: u64,
    /// Followers now.
    pub followers: usize,
    /// Events that followers missed, being too slow.
    pub overtaken: u64,
    /// Events that could not be delivered to a webhook.
    pub undelivered: u64,
}

impl Events {
    /// A ring for so many events; with none, events are off.
    pub fn new(capacity: usize) -> Arc<Self> {
        let mut run = [0; 4];
        // Without randomness runs look alike, and somebody who comes back may be told too little.
        let _ = getrandom::fill(&mut run);
        Arc::new(Self {
            run: u32::from_le_bytes(run),
            capacity,
            ring: Mutex::default(),
            followers: AtomicUsize::new(0),
            wake: Notify::new(),
            seats: Mutex::default(),
            overtaken: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            hooks: Hooks::default(),
        })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether events are kept at all.
    pub(crate) fn are_on(&self) -> bool {
        self.capacity > 0
    }

    /// Notes that something happened.
    pub(crate) fn push(&self, mut event: Event) {
        if !self.are_on() {
            return;
        }
        event.at_ms = now_ms();
        let mut ring = self.ring();
        let oldest = match ring.kept.len() >= self.capacity {
            true => {
                ring.gone += 1;
                ring.kept.pop_front()
            }
            false => None,
        };
        ring.kept.push_back(event);
        drop(ring);
        // Not under the lock: others wait for it.
        drop(oldest);
        if self.followers.load(Ordering::Acquire) > 0 {
            self.wake.notify_waiters();
        }
    }

    /// Follows for the gateway itself: nobody counts these.
    pub(crate) fn follow(self: &Arc<Self>, kinds: Kinds, since: Since) -> Follower {
        Follower::new(self, kinds, since, None)
    }

    /// Follows for a caller; a user may have a few followers, and all of them together many.
    pub fn follow_for(
        self: &Arc<Self>,
        user: &Arc<str>,
        kinds: Kinds,
        since: Since,
    ) -> Result<Follower, TooManyFollowers> {
        let seat = Seat::take(self, user)?;
        Ok(Follower::new(self, kinds, since, Some(seat)))
    }

    /// The latest events that somebody wants to hear, in order, after a place.
    pub fn latest(
        &self,
        since: Since,
        most: usize,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Vec<(EventId, Event)> {
        let after = match since {
            Since::After(id) if id.run == self.run => id.number,
            _ => 0,
        };
        let mut found = Vec::new();
        let mut until = u64::MAX;
        // Newest first and a few at a time: whether somebody may hear of an event is not decided under the lock.
        loop {
            let piece = self.piece(after, until);
            let Some((first, _)) = piece.first() else { break };
            until = first.number - 1;
            let left = most - found.len();
            found.extend(piece.into_iter().rev().filter(|(_, event)| wanted(event)).take(left));
            if found.len() == most {
                break;
            }
        }
        found.reverse();
        found
    }

    /// The last events that are kept of those after one number and up to another.
    fn piece(&self, after: u64, until: u64) -> Vec<(EventId, Event)> {
        let ring = self.ring();
        let until = until.min(ring.newest());
        let from = until.saturating_sub(LOOK as u64).max(after).max(ring.gone);
        let numbers = from + 1..=until;
        let place = |number: u64| usize::try_from(number - ring.gone - 1).unwrap_or(usize::MAX);
        let kept = numbers.filter_map(|number| Some((number, ring.kept.get(place(number))?.clone())));
        kept.map(|(number, event)| (EventId { run: self.run, number }, event)).collect()
    }

    /// How events do.
    pub fn report(&self) -> EventsReport {
        EventsReport {
            emitted: self.ring().newest(),
            followers: self.followers.load(Ordering::Relaxed),
            overtaken: self.overtaken.load(Ordering::Relaxed),
            undelivered: self.undelivered.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
