//! How calls ended, in numbers.

use crate::answer::Answer;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::connection::Progress;

/// The upper bounds, in milliseconds, by which durations are told apart; the last bucket has none.
pub const BUCKETS_MS: [u64; 11] = [1, 2, 5, 10, 25, 100, 250, 1_000, 5_000, 30_000, 120_000];

/// Calls that ended alike, by how long they took: one addition counts a call and its duration.
#[derive(Debug, Default)]
struct Histogram([AtomicU64; BUCKETS_MS.len() + 1]);

impl Histogram {
    fn add(&self, took: Duration) {
        let at = BUCKETS_MS.iter().position(|bound| took <= Duration::from_millis(*bound));
        self.0[at.unwrap_or(BUCKETS_MS.len())].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> [u64; BUCKETS_MS.len() + 1] {
        self.0.each_ref().map(|bucket| bucket.load(Ordering::Relaxed))
    }
}

/// How calls ended, since the gateway started.
#[derive(Debug, Default)]
pub struct Tally {
    done: Histogram,
    tool_errors: Histogram,
    refused: Histogram,
    failed: Histogram,
    cancelled: Histogram,
    held: Histogram,
    microseconds: AtomicU64,
    unrecorded: AtomicU64,
}

/// The tally at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TallyReport {
    /// Answered with a result.
    pub done: u64,
    /// Answered with the tool's own error.
    pub tool_errors: u64,
    /// Not made: the request was wrong or not allowed.
    pub refused: u64,
    /// Made, and lost on the way.
    pub failed: u64,
    /// Given up by the caller.
    pub cancelled: u64,
    /// Held for a person.
    pub held: u64,
    /// Time spent on all of them together.
    pub microseconds: u64,
}

impl Tally {
    /// Counts a call that ended.
    pub(crate) fn count(&self, answer: &Result<Answer, Problem>, took: Duration) {
        let counter = match answer {
            Ok(Answer::Result { facts, .. }) if facts.is_error => &self.tool_errors,
            Ok(Answer::Result { .. } | Answer::Long { .. } | Answer::InputRequired { .. }) => &self.done,
            Ok(Answer::Held { .. }) => &self.held,
            Ok(Answer::Error(_)) => &self.tool_errors,
            Err(problem) if problem.blame == Blame::Caller => &self.refused,
            Err(_) => &self.failed,
        };
        self.add(counter, took);
    }

    /// Counts a call whose caller hung up.
    pub(crate) fn count_cancelled(&self, took: Duration) {
        self.add(&self.cancelled, took);
    }

    /// Counts a call that was made and whose end could not be written down.
    pub(crate) fn count_unrecorded(&self) {
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls were made and have no end in the record.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    fn add(&self, counter: &Histogram, took: Duration) {
        counter.add(took);
        let spent = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(spent, Ordering::Relaxed);
    }

    /// How many calls ended how, by how long they took: counts by the bounds of [`BUCKETS_MS`].
    pub fn by_outcome(&self) -> [(&'static str, [u64; BUCKETS_MS.len() + 1]); 6] {
        [
            ("done", self.done.read()),
            ("tool_error", self.tool_errors.read()),
            ("refused", self.refused.read()),
            ("failed", self.failed.read()),
            ("cancelled", self.cancelled.read()),
            ("held", self.held.read()),
        ]
    }

    /// The tally now.
    pub fn report(&self) -> TallyReport {
        let read = |counter: &Histogram| counter.read().iter().sum();
        TallyReport {
            done: read(&self.done),
            tool_errors: read(&self.tool_errors),
            refused: read(&self.refused),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            held: read(&self.held),
            microseconds: self.microseconds.load(Ordering::Relaxed),
        }
    }
}

/// Reads whether progress is wanted from whether a token came.
pub fn progress_wanted(token: Option<&toolbooth_core::json::RawJson>) -> Progress {
    if token.is_some() { Progress::Wanted } else { Progress::Unwanted }
}
