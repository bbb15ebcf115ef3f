//! Limits repeated log lines: of the same kind, only a few per minute are written, and the others are counted.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The number of lines of one kind that are written within [`WINDOW`].
const LINES: u32 = 20;
/// The time after which lines of a kind are written again.
pub const WINDOW: Duration = Duration::from_secs(60);
/// The maximum number of kinds that are counted; lines of further kinds are written.
const MAX_KINDS: usize = 1_024;

/// The number of lines that were left out since the gateway started. It is global, as the log is.
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);

/// The number of log lines that were left out since the gateway started.
pub fn suppressed() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

/// Counts log lines by kind.
#[derive(Debug)]
pub struct LogLimit<K> {
    kinds: HashMap<K, LogWindow>,
}

#[derive(Debug)]
struct LogWindow {
    since: Instant,
    lines: u32,
    /// Lines that were left out and not reported yet.
    left_out: u64,
}

impl<K> Default for LogLimit<K> {
    fn default() -> Self {
        Self { kinds: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone> LogLimit<K> {
    /// Counts a line, and returns whether it is written.
    pub fn admit(&mut self, kind: K, now: Instant) -> bool {
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            return true;
        }
        let window = self.kinds.entry(kind).or_insert(LogWindow { since: now, lines: 0, left_out: 0 });
        if now.saturating_duration_since(window.since) >= WINDOW {
            (window.since, window.lines) = (now, 0);
        }
        window.lines = window.lines.saturating_add(1);
        let is_written = window.lines <= LINES;
        if !is_written {
            window.left_out += 1;
            SUPPRESSED.fetch_add(1, Ordering::Relaxed);
        }
        is_written
    }

    /// The kinds of which lines were left out since the last report, with their number. Forgets kinds that are quiet.
    pub fn report(&mut self, now: Instant) -> Vec<(K, u64)> {
        let left_out = self.kinds.iter_mut().filter(|(_, window)| window.left_out > 0);
        let report = left_out.map(|(kind, window)| (kind.clone(), std::mem::take(&mut window.left_out)));
        let report = report.collect();
        self.kinds.retain(|_, window| now.saturating_duration_since(window.since) < WINDOW);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_left_out_and_counted() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let written = |limit: &mut LogLimit<&'static str>, kind, at: Duration, lines: u32| {
            (0..lines).filter(|_| limit.admit(kind, start + at)).count()
        };
        let (soon, later) = (Duration::from_secs(5), WINDOW + Duration::from_secs(1));
        assert_eq!(written(&mut limit, "a", Duration::ZERO, 15), 15);
        assert_eq!(written(&mut limit, "a", soon, 15), 5);
        assert_eq!(written(&mut limit, "b", soon, 3), 3, "another kind has its own limit");
        assert_eq!(limit.report(start + soon), [("a", 10)]);
        assert!(limit.report(start + soon).is_empty(), "each line is reported once");
        assert_eq!(written(&mut limit, "a", later, 15), 15, "a new minute");
        assert!(suppressed() >= 10);
    }

    #[test]
    fn the_number_of_kinds_is_limited() {
        let (mut limit, now) = (LogLimit::default(), Instant::now());
        for kind in 0..2 * MAX_KINDS {
            assert!(limit.admit(kind, now));
        }
        assert_eq!(limit.kinds.len(), MAX_KINDS);
        limit.report(now + WINDOW);
        assert!(limit.kinds.is_empty(), "quiet kinds are forgotten");
    }
}
