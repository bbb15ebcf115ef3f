//! The time of day, in one place.
//!
//! What expires goes by [`now_ms`], which never goes back: a clock that is set back would make expired addresses,
//! states and tokens good again. What people read goes by [`wall_ms`], which is the system's clock as it is.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use toolbooth_store::MAX_CLOCK_LEAD_MS;

/// What this much of a step back is said in the log.
const NOTABLE_MS: i64 = 5_000;

static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::start);

/// The latest time that the system's clock ever showed, kept going by the steady clock.
#[derive(Debug)]
struct Clock {
    began: Instant,
    /// The latest time of day, less what the steady clock showed then.
    offset_ms: AtomicI64,
    /// How far the system's clock was behind when that was last said.
    said_ms: AtomicI64,
}

impl Clock {
    fn start() -> Self {
        Self { began: Instant::now(), offset_ms: AtomicI64::new(wall_ms()), said_ms: AtomicI64::new(0) }
    }

    fn read(&self, wall_ms: i64) -> i64 {
        let steady_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at(wall_ms, steady_ms)
    }

    fn at(&self, wall_ms: i64, steady_ms: i64) -> i64 {
        let offset_ms = wall_ms.saturating_sub(steady_ms);
        let known_ms = self.offset_ms.load(Ordering::Relaxed);
        // Nearly always the same, and then nothing is written.
        if offset_ms > known_ms {
            self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed);
        }
        steady_ms.saturating_add(known_ms.max(offset_ms))
    }

    /// Goes on from a time that an earlier process saw, unless it is too far ahead of the system's clock.
    fn resume(&self, latest_ms: i64, wall_ms: i64) {
        let Some(latest_ms) = believable(latest_ms, wall_ms) else {
            tracing::warn!(
                ahead_ms = latest_ms.saturating_sub(wall_ms),
                "the stored time is more than a day ahead of the system's clock and is ignored; \
                 check the clock if it was not wrong before"
            );
            return;
        };
        let steady_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.at(latest_ms, steady_ms);
    }
}

/// A time that is at most a day ahead of the system's clock. A clock that was set back by more was wrong before and
/// has been repaired; going by the wrong time would treat every token as expired.
fn believable(latest_ms: i64, wall_ms: i64) -> Option<i64> {
    (latest_ms.saturating_sub(wall_ms) <= MAX_CLOCK_LEAD_MS).then_some(latest_ms)
}

/// Milliseconds since 1970 by the latest time that was ever seen; for everything that expires.
pub fn now_ms() -> i64 {
    CLOCK.read(wall_ms())
}

/// The same as a moment.
pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms()).unwrap_or(0))
}

/// Milliseconds since 1970 by the system's clock; for records that people read.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Goes on from the latest time that an earlier process saw.
pub(crate) fn resume(latest_ms: i64) {
    CLOCK.resume(latest_ms, wall_ms());
    say_if_behind();
}

/// The time to store for the next start; none while it is too far ahead of the system's clock.
pub(crate) fn storable_ms() -> Option<i64> {
    believable(now_ms(), wall_ms())
}

/// Says in the log when the system's clock is behind, once for each step back.
pub(crate) fn say_if_behind() {
    let behind_ms = now_ms().saturating_sub(wall_ms());
    let said_ms = CLOCK.said_ms.swap(behind_ms, Ordering::Relaxed);
    if behind_ms > NOTABLE_MS && behind_ms.abs_diff(said_ms) > NOTABLE_MS.unsigned_abs() {
        tracing::warn!(
            behind_ms,
            "the system's clock was set back; what expires goes by the latest time that was seen"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // audit: a wall clock set back revives expired states and addresses.
    #[test]
    fn time_goes_on_when_the_clock_is_set_back_and_never_goes_back() {
        let clock =
            Clock { began: Instant::now(), offset_ms: AtomicI64::new(1_000), said_ms: AtomicI64::new(0) };
        let steps = [
            (1_000, 0, 1_000),
            (1_500, 500, 1_500),
            // An hour ahead: believed.
            (3_601_500, 500, 3_601_500),
            // Set right again: time goes on from the latest.
            (1_600, 600, 3_601_600),
            (11_600, 10_600, 3_611_600),
            // Caught up with.
            (3_700_000, 20_600, 3_700_000),
        ];
        for (wall_ms, steady_ms, expected) in steps {
            assert_eq!(clock.at(wall_ms, steady_ms), expected, "{wall_ms}");
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
                said_ms: AtomicI64::new(0),
            };
            let stored_ms = wall_ms + ahead_hours * HOUR_MS;
            clock.resume(stored_ms, wall_ms);
            let offset_ms = clock.offset_ms.load(Ordering::Relaxed);
            assert_eq!(offset_ms > wall_ms, resumed, "{ahead_hours} hours ahead");
        }
    }
}
