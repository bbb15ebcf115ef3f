//! Metrics of finished calls: counts and durations by outcome, server and tool.

mod tools;

pub use tools::{OTHER, ServerCallReport, ToolCallReport, ToolMetrics};

use crate::answer::Answer;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Blame, Problem};

/// The upper bounds of the duration buckets, in milliseconds; the last bucket has no bound.
pub const BUCKETS_MS: [u64; 11] = [1, 2, 5, 10, 25, 100, 250, 1_000, 5_000, 30_000, 120_000];

/// How a call ended, as metrics count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricOutcome {
    /// Answered with a result.
    Done,
    /// Answered with an error of the tool.
    ToolError,
    /// Not made: the request was invalid or not permitted.
    Refused,
    /// Failed in the gateway or at the server.
    Failed,
    /// Cancelled by the caller.
    Cancelled,
    /// Held for an approval.
    Held,
}

impl MetricOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::ToolError, Self::Refused, Self::Failed, Self::Cancelled, Self::Held];

    /// The outcome's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ToolError => "tool_error",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Held => "held",
        }
    }

    /// The outcome of an answered call.
    pub(crate) fn of(answer: &Result<Answer, Problem>) -> Self {
        match answer {
            Ok(Answer::Result { facts, .. }) if facts.is_error => Self::ToolError,
            Ok(Answer::Long { facts, .. }) if facts.is_error => Self::ToolError,
            Ok(Answer::Result { .. } | Answer::Long { .. } | Answer::InputRequired { .. }) => Self::Done,
            Ok(Answer::Held { .. }) => Self::Held,
            Ok(Answer::Error(_)) => Self::ToolError,
            Err(problem) if problem.blame == Blame::Caller => Self::Refused,
            Err(_) => Self::Failed,
        }
    }
}

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
    outcomes: [Histogram; MetricOutcome::ALL.len()],
    microseconds: AtomicU64,
    unrecorded: AtomicU64,
    in_flight: AtomicU64,
    tools: ToolMetrics,
}

/// Counts a call as in flight until it is dropped: a call may also end because its client is gone.
#[derive(Debug)]
pub(crate) struct InFlightCall<'a>(&'a AtomicU64);

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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
    /// Counts a finished call; `tool` is absent if the call named no tool that its caller may use.
    pub(crate) fn count(&self, outcome: MetricOutcome, took: Duration, tool: Option<&Tool>) {
        self.outcomes[outcome as usize].add(took);
        let spent = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(spent, Ordering::Relaxed);
        if let Some(tool) = tool {
            self.tools.add(tool.server.name.as_str(), &tool.name, outcome, took);
        }
    }

    /// Counts a call that begins.
    pub(crate) fn begin(&self) -> InFlightCall<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlightCall(&self.in_flight)
    }

    /// The number of calls that have begun and not ended, with those that wait for a person.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a call that was made but whose outcome could not be recorded.
    pub(crate) fn count_unrecorded(&self) {
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of calls whose outcome could not be recorded.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded.load(Ordering::Relaxed)
    }

    /// Metrics by server and tool.
    pub fn tools(&self) -> &ToolMetrics {
        &self.tools
    }

    /// The number of calls by outcome and duration bucket ([`BUCKETS_MS`]).
    pub fn by_outcome(&self) -> [(&'static str, [u64; BUCKETS_MS.len() + 1]); MetricOutcome::ALL.len()] {
        MetricOutcome::ALL.map(|outcome| (outcome.as_str(), self.outcomes[outcome as usize].read()))
    }

    /// A copy of the current metrics.
    pub fn report(&self) -> CallMetricsReport {
        let read = |outcome: MetricOutcome| self.outcomes[outcome as usize].read().iter().sum();
        CallMetricsReport {
            done: read(MetricOutcome::Done),
            tool_errors: read(MetricOutcome::ToolError),
            refused: read(MetricOutcome::Refused),
            failed: read(MetricOutcome::Failed),
            cancelled: read(MetricOutcome::Cancelled),
            held: read(MetricOutcome::Held),
            microseconds: self.microseconds.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_in_flight_until_its_guard_is_dropped() {
        let metrics = CallMetrics::default();
        let (first, second) = (metrics.begin(), metrics.begin());
        assert_eq!(metrics.in_flight(), 2);
        drop(first);
        assert_eq!(metrics.in_flight(), 1);
        drop(second);
        assert_eq!(metrics.in_flight(), 0);
    }
}
