//! Events: a ring buffer of the latest ones, and the followers that read from it.
//!
//! The ring is the only queue. A follower has a position in it and reads at its own pace; one that is overtaken gets
//! a gap instead of the lost events. Emitting never waits, and costs a short lock if there are no followers.

mod elsewhere;
mod emit;
mod follower;
mod progress;
mod webhooks;

pub use follower::{Follower, FollowerSlot, GapReason, StreamItem, TooManyFollowers};
pub(crate) use progress::ProgressEvents;
pub use webhooks::Webhook;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use toolbooth_core::clock::Clock;
use toolbooth_core::event::{Event, EventId, EventKinds};
use webhooks::Webhooks;

/// The fact that marks an event of another gateway on the same store.
const ORIGIN: &str = "origin";
/// The maximum number of events that are read under one lock.
const READ_BATCH: usize = 256;

/// The latest events of this run, and their followers.
#[derive(Debug)]
pub struct EventRing {
    clock: Arc<Clock>,
    run: u32,
    capacity: usize,
    ring: Mutex<EventBuffer>,
    /// The number of followers; without any, nothing is woken.
    followers: AtomicUsize,
    wake: Notify,
    slots: Mutex<HashMap<Arc<str>, usize>>,
    overtaken: AtomicU64,
    undelivered: AtomicU64,
    webhooks: Webhooks,
}

#[derive(Debug, Default)]
struct EventBuffer {
    /// The number of events that have left the buffer: one less than the number of its first event.
    dropped: u64,
    kept: VecDeque<Event>,
}

impl EventBuffer {
    /// The number of the newest event; zero if there was none.
    fn newest(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }
}

/// Where a follower starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// At the next event.
    Now,
    /// At the oldest event in the ring.
    Oldest,
    /// After the event with this id.
    After(EventId),
}

/// Statistics of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventsReport {
    /// Events so far.
    pub emitted: u64,
    /// Followers now.
    pub followers: usize,
    /// Events that followers missed because they were too slow.
    pub overtaken: u64,
    /// Events that could not be delivered to a webhook.
    pub undelivered: u64,
}

impl EventRing {
    /// A ring with this capacity; 0 switches events off.
    pub fn new(capacity: usize, clock: Arc<Clock>) -> Arc<Self> {
        let mut run = [0; 4];
        // Without randomness, ids of different runs look alike, and a returning follower may miss events.
        let _ = getrandom::fill(&mut run);
        Arc::new(Self {
            clock,
            run: u32::from_le_bytes(run),
            capacity,
            ring: Mutex::default(),
            followers: AtomicUsize::new(0),
            wake: Notify::new(),
            slots: Mutex::default(),
            overtaken: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            webhooks: Webhooks::default(),
        })
    }

    fn ring(&self) -> MutexGuard<'_, EventBuffer> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether events are switched on.
    pub(crate) fn is_on(&self) -> bool {
        self.capacity > 0
    }

    /// Emits an event, and wakes followers. Costs a short lock and never waits.
    pub fn emit(&self, mut event: Event) {
        if !self.is_on() {
            return;
        }
        event.at_ms = self.clock.now_ms();
        self.add(event);
    }

    /// Adds an event that has its time.
    fn add(&self, event: Event) {
        if !self.is_on() {
            return;
        }
        let mut ring = self.ring();
        let oldest = match ring.kept.len() >= self.capacity {
            true => {
                ring.dropped += 1;
                ring.kept.pop_front()
            }
            false => None,
        };
        ring.kept.push_back(event);
        drop(ring);
        // Freed outside the lock, because others wait for it.
        drop(oldest);
        if self.followers.load(Ordering::Acquire) > 0 {
            self.wake.notify_waiters();
        }
    }

    /// Follows for the gateway itself, without a limit.
    pub(crate) fn follow(self: &Arc<Self>, kinds: EventKinds, since: Since) -> Follower {
        Follower::new(self, kinds, since, None)
    }

    /// Follows for a caller, within the limits of this user and of all callers.
    pub fn follow_for(
        self: &Arc<Self>,
        user: &Arc<str>,
        kinds: EventKinds,
        since: Since,
    ) -> Result<Follower, TooManyFollowers> {
        let slot = FollowerSlot::take(self, user)?;
        Ok(Follower::new(self, kinds, since, Some(slot)))
    }

    /// The latest events after a position that pass a filter, in order.
    pub fn latest(
        &self,
        since: Since,
        most: usize,
        mut matches: impl FnMut(&Event) -> bool,
    ) -> Vec<(EventId, Event)> {
        let after = match since {
            Since::After(id) if id.run == self.run => id.number,
            _ => 0,
        };
        let mut found = Vec::new();
        let mut until = u64::MAX;
        // Newest first and in batches, so that permissions are not checked under the lock.
        loop {
            let batch = self.batch_before(after, until);
            let Some((first, _)) = batch.first() else { break };
            until = first.number - 1;
            let left = most - found.len();
            found.extend(batch.into_iter().rev().filter(|(_, event)| matches(event)).take(left));
            if found.len() == most {
                break;
            }
        }
        found.reverse();
        found
    }

    /// The id of the newest event.
    fn newest_id(&self) -> EventId {
        EventId { run: self.run, number: self.ring().newest() }
    }

    /// Up to one batch of the last events with a number above `after` and up to `until`.
    fn batch_before(&self, after: u64, until: u64) -> Vec<(EventId, Event)> {
        let ring = self.ring();
        let until = until.min(ring.newest());
        let from = until.saturating_sub(READ_BATCH as u64).max(after).max(ring.dropped);
        let numbers = from + 1..=until;
        let place = |number: u64| usize::try_from(number - ring.dropped - 1).unwrap_or(usize::MAX);
        let kept = numbers.filter_map(|number| Some((number, ring.kept.get(place(number))?.clone())));
        kept.map(|(number, event)| (EventId { run: self.run, number }, event)).collect()
    }

    /// The statistics now.
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
