//! Stage 10, record: every call leaves a trace, also the one whose caller hung up.

use crate::answer::Answer;
use crate::engine::Engine;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use toolbooth_core::call::Incoming;
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
    /// Time spent on all of them together.
    pub microseconds: u64,
}

impl Tally {
    /// The tally now.
    pub fn report(&self) -> TallyReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TallyReport {
            done: read(&self.done),
            tool_errors: read(&self.tool_errors),
            refused: read(&self.refused),
            failed: read(&self.failed),
            cancelled: read(&self.cancelled),
            microseconds: read(&self.microseconds),
        }
    }
}

/// The record of one call. If it is dropped unclosed, the caller hung up.
#[derive(Debug)]
pub struct Record {
    tally: Arc<Tally>,
    started: Instant,
    closed: bool,
}

impl Engine {
    /// Opens the record of a call.
    pub(crate) fn open_record(&self, incoming: &Incoming) -> Record {
        tracing::trace!(tool = %incoming.name, user = %incoming.caller.user, "a call came in");
        Record { tally: self.tally().clone(), started: Instant::now(), closed: false }
    }
}

impl Record {
    /// Notes how the call ended.
    pub fn close(&mut self, answer: &Result<Answer, Problem>) {
        let counter = match answer {
            Ok(Answer::Result { facts, .. }) if facts.is_error => &self.tally.tool_errors,
            Ok(Answer::Result { .. }) => &self.tally.done,
            Ok(Answer::Stream { .. } | Answer::InputRequired { .. }) => &self.tally.done,
            Ok(Answer::Error(_)) => &self.tally.tool_errors,
            Err(problem) if problem.blame == Blame::Caller => &self.tally.refused,
            Err(_) => &self.tally.failed,
        };
        self.finish(counter);
        self.closed = true;
    }

    fn finish(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
        let spent = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.tally.microseconds.fetch_add(spent, Ordering::Relaxed);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.closed {
            self.finish(&self.tally.cancelled);
        }
    }
}

/// Reads whether progress is wanted from whether a token came.
pub fn progress_wanted(token: Option<&toolbooth_core::json::RawJson>) -> Progress {
    if token.is_some() { Progress::Wanted } else { Progress::Unwanted }
}
