//! The gateway's clocks.
//!
//! Everything that expires uses [`now_ms`], which never goes back: otherwise, setting the system clock back would
//! make expired URLs, states and tokens valid again. Records for people use [`wall_ms`], the system clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use toolbooth_store::MAX_CLOCK_LEAD_MS;

/// A step back of the system clock by more than this is logged.
const NOTABLE_MS: i64 = 5_000;

static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::start);

/// The latest time that the system clock has shown, advanced by the monotonic clock.
#[derive(Debug)]
struct Clock {
    began: Instant,
    /// The latest wall time minus the monotonic time at that moment.
    offset_ms: AtomicI64,
    /// How far the system clock was behind at the last warning.
    warned_ms: AtomicI64,
}

impl Clock {
    fn start() -> Self {
        Self { began: Instant::now(), offset_ms: AtomicI64::new(wall_ms()), warned_ms: AtomicI64::new(0) }
    }

    fn read(&self, wall_ms: i64) -> i64 {
        let monotonic_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at(wall_ms, monotonic_ms)
    }

    fn at(&self, wall_ms: i64, monotonic_ms: i64) -> i64 {
        let offset_ms = wall_ms.saturating_sub(monotonic_ms);
        let known_ms = self.offset_ms.load(Ordering::Relaxed);
        // Nearly always unchanged, and then nothing is written.
        if offset_ms > known_ms {
            self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed);
        }
        monotonic_ms.saturating_add(known_ms.max(offset_ms))
    }

    /// Continues from the latest time of an earlier process, unless it is too far ahead of the system clock.
    fn resume(&self, latest_ms: i64, wall_ms: i64) {
        let Some(latest_ms) = plausible(latest_ms, wall_ms) else {
            tracing::warn!(
                ahead_ms = latest_ms.saturating_sub(wall_ms),
                "the stored time is more than a day ahead of the system clock and is ignored; \
                 check the clock if it was not wrong before"
            );
            return;
        };
        let monotonic_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at(latest_ms, monotonic_ms);
    }
}

/// Accepts a time that is at most a day ahead of the system clock. If the clock was set back by more, it was wrong
/// before and has been corrected; the wrong time would make every token expire.
fn plausible(latest_ms: i64, wall_ms: i64) -> Option<i64> {
    (latest_ms.saturating_sub(wall_ms) <= MAX_CLOCK_LEAD_MS).then_some(latest_ms)
}

/// Milliseconds since 1970 by a clock that never goes back; for everything that expires.
pub fn now_ms() -> i64 {
    CLOCK.read(wall_ms())
}

/// The same as a [`SystemTime`].
pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms()).unwrap_or(0))
}

/// Milliseconds since 1970 by the system clock; for records that people read.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Continues from the latest time of an earlier process.
pub(crate) fn resume(latest_ms: i64) {
    CLOCK.resume(latest_ms, wall_ms());
    warn_if_behind();
}

/// The time to store for the next start; `None` while it is too far ahead of the system clock.
pub(crate) fn storable_ms() -> Option<i64> {
    plausible(now_ms(), wall_ms())
}

/// Logs a warning if the system clock is behind, once for each step back.
pub(crate) fn warn_if_behind() {
    let behind_ms = now_ms().saturating_sub(wall_ms());
    let warned_ms = CLOCK.warned_ms.swap(behind_ms, Ordering::Relaxed);
    if behind_ms > NOTABLE_MS && behind_ms.abs_diff(warned_ms) > NOTABLE_MS.unsigned_abs() {
        tracing::warn!(
            behind_ms,
            "the system clock was set back; expiry times still use the latest time that was seen"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // audit: a wall clock set back revives expired states and file URLs.
    #[test]
    fn time_never_goes_back_when_the_system_clock_is_set_back() {
        let clock =
            Clock { began: Instant::now(), offset_ms: AtomicI64::new(1_000), warned_ms: AtomicI64::new(0) };
        let steps = [
            (1_000, 0, 1_000),
            (1_500, 500, 1_500),
            // An hour ahead: accepted.
            (3_601_500, 500, 3_601_500),
            // Corrected: time continues from the latest.
            (1_600, 600, 3_601_600),
            (11_600, 10_600, 3_611_600),
            // The system clock has caught up.
            (3_700_000, 20_600, 3_700_000),
        ];
        for (wall_ms, monotonic_ms, expected) in steps {
            assert_eq!(clock.at(wall_ms, monotonic_ms), expected, "{wall_ms}");
        }
        clock.resume(9_000_000, 3_700_000);
        assert!(clock.read(0) >= 9_000_000, "an earlier process saw it");
    }

    // audit: a clock that was far ahead once, and stored, locks token holders out after it is repaired.
    #[test]
    fn a_stored_time_more_than_a_day_ahead_is_ignored() {
        const HOUR_MS: i64 = 3_600_000;
        let wall_ms = 1_000 * HOUR_MS;
        let cases = [(-1, false), (1, true), (24, true), (25, false), (24 * 365, false)];
        for (ahead_hours, resumed) in cases {
            let clock = Clock {
                began: Instant::now(),
                offset_ms: AtomicI64::new(wall_ms),
                warned_ms: AtomicI64::new(0),
            };
            let stored_ms = wall_ms + ahead_hours * HOUR_MS;
            clock.resume(stored_ms, wall_ms);
            let offset_ms = clock.offset_ms.load(Ordering::Relaxed);
            assert_eq!(offset_ms > wall_ms, resumed, "{ahead_hours} hours ahead");
        }
    }
}
