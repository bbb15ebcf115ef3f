//! Metrics of finished calls: counts and durations by outcome.

use crate::answer::Answer;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};

/// The upper bounds of the duration buckets, in milliseconds; the last bucket has no bound.
pub const BUCKETS_MS: [u64; 11] = [1, 2, 5, 10, 25, 100, 250, 1_000, 5_000, 30_000, 120_000];

/// Calls with the same outcome, by duration. One addition counts both.
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

/// Metrics of the calls since the gateway started.
#[derive(Debug, Default)]
pub struct CallMetrics {
    done: Histogram,
    tool_errors: Histogram,
    refused: Histogram,
    failed: Histogram,
    cancelled: Histogram,
    held: Histogram,
    microseconds: AtomicU64,
    unrecorded: AtomicU64,
}

/// The metrics at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CallMetricsReport {
    /// Answered with a result.
    pub done: u64,
    /// Answered with an error of the tool.
    pub tool_errors: u64,
    /// Not made: the request was invalid or not permitted.
    pub refused: u64,
    /// Failed in the gateway or at the server.
    pub failed: u64,
    /// Cancelled by the caller.
    pub cancelled: u64,
    /// Held for an approval.
    pub held: u64,
    /// The duration of all of them together.
    pub microseconds: u64,
}

impl CallMetrics {
    /// Counts a finished call.
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

    /// Counts a call whose client disconnected.
    pub(crate) fn count_cancelled(&self, took: Duration) {
        self.add(&self.cancelled, took);
    }

    /// Counts a call that was made but whose outcome could not be recorded.
    pub(crate) fn count_unrecorded(&self) {
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of calls whose outcome could not be recorded.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    fn add(&self, counter: &Histogram, took: Duration) {
        counter.add(took);
        let spent = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(spent, Ordering::Relaxed);
    }

    /// The number of calls by outcome and duration bucket ([`BUCKETS_MS`]).
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

    /// A copy of the current metrics.
    pub fn report(&self) -> CallMetricsReport {
        let read = |counter: &Histogram| counter.read().iter().sum();
        CallMetricsReport {
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
