//! How calls ended, in numbers.

use crate::answer::Answer;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_upstream::connection::Progress;

/// How calls ended, since the gateway started.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicU64,
    tool_errors: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    held: AtomicU64,
    microseconds: AtomicU64,
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
            Ok(Answer::Result { .. } | Answer::Stream { .. } | Answer::InputRequired { .. }) => &self.done,
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

    fn add(&self, counter: &AtomicU64, took: Duration) {
        counter.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(spent, Ordering::Relaxed);
    }

    /// The tally now.
    pub fn report(&self) -> TallyReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TallyReport {
            done: read(&self.done),
            tool_errors: read(&self.tool_errors),
            refused: read(&self.refused),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            held: read(&self.held),
            microseconds: read(&self.microseconds),
        }
    }
}

/// Reads whether progress is wanted from whether a token came.
pub fn progress_wanted(token: Option<&toolbooth_core::json::RawJson>) -> Progress {
    if token.is_some() { Progress::Wanted } else { Progress::Unwanted }
}
