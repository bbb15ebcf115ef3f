//! The gateway's clock. It reads no time itself: the process gives it a [`TimeSource`], and tests give it one that they
//! control.
//!
//! Everything that expires uses [`Clock::now_ms`], which never goes back: otherwise, setting the system clock back would
//! make expired URLs, states and tokens valid again. Records for people use [`Clock::wall_ms`], the system clock.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far the stored time may be ahead of the system clock; a time further ahead is ignored.
pub const MAX_CLOCK_LEAD_MS: i64 = 24 * 3_600_000;

/// A step back of the system clock by more than this is logged.
const NOTABLE_MS: i64 = 5_000;

/// Where a [`Clock`] reads the time.
pub trait TimeSource: Debug + Send + Sync {
    /// The time since 1970 by the system clock, which people can set.
    fn wall(&self) -> Duration;

    /// The time since a fixed moment, which never goes back.
    fn monotonic(&self) -> Duration;
}

/// The latest time that the system clock has shown, advanced by the monotonic clock.
#[derive(Debug)]
pub struct Clock {
    source: Box<dyn TimeSource>,
    /// The latest wall time minus the monotonic time at that moment.
    offset_ms: AtomicI64,
    /// How far the system clock was behind at the last warning.
    warned_ms: AtomicI64,
}

/// Whether the time of an earlier process was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockResume {
    /// It was.
    Resumed,
    /// It was not, because it is too far ahead of the system clock.
    TooFarAhead {
        /// How far it is ahead, in milliseconds.
        ahead_ms: i64,
    },
}

impl Clock {
    /// A clock that begins with the current time of the source.
    pub fn new(source: impl TimeSource + 'static) -> Self {
        let offset_ms = milliseconds(source.wall()).saturating_sub(milliseconds(source.monotonic()));
        Self { source: Box::new(source), offset_ms: AtomicI64::new(offset_ms), warned_ms: AtomicI64::new(0) }
    }

    /// Milliseconds since 1970 by a clock that never goes back; for everything that expires.
    pub fn now_ms(&self) -> i64 {
        self.advance(self.wall_ms())
    }

    /// The same as a [`SystemTime`].
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.now_ms()).unwrap_or(0))
    }

    /// The time since 1970 by the system clock; for records that people read.
    pub fn wall(&self) -> Duration {
        self.source.wall()
    }

    /// The same in milliseconds.
    pub fn wall_ms(&self) -> i64 {
        milliseconds(self.wall())
    }

    /// The same as a [`SystemTime`].
    pub fn wall_time(&self) -> SystemTime {
        UNIX_EPOCH + self.wall()
    }

    /// Takes note of a wall time, and returns the current time.
    fn advance(&self, wall_ms: i64) -> i64 {
        let monotonic_ms = milliseconds(self.source.monotonic());
        let offset_ms = wall_ms.saturating_sub(monotonic_ms);
        let known_ms = self.offset_ms.load(Ordering::Relaxed);
        // Nearly always unchanged, and then nothing is written.
        if offset_ms > known_ms {
            self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed);
        }
        monotonic_ms.saturating_add(known_ms.max(offset_ms))
    }

    /// Continues from the latest time of an earlier process, unless it is too far ahead of the system clock.
    pub fn resume(&self, latest_ms: i64) -> ClockResume {
        match self.plausible(latest_ms) {
            Some(latest_ms) => {
                self.advance(latest_ms);
                ClockResume::Resumed
            }
            None => ClockResume::TooFarAhead { ahead_ms: latest_ms.saturating_sub(self.wall_ms()) },
        }
    }

    /// The time to store for the next start; `None` while it is too far ahead of the system clock.
    pub fn storable_ms(&self) -> Option<i64> {
        self.plausible(self.now_ms())
    }

    /// Accepts a time that is at most a day ahead of the system clock. If the clock was set back by more, it was wrong
    /// before and has been corrected; the wrong time would make every token expire.
    fn plausible(&self, latest_ms: i64) -> Option<i64> {
        (latest_ms.saturating_sub(self.wall_ms()) <= MAX_CLOCK_LEAD_MS).then_some(latest_ms)
    }

    /// How far the system clock is behind, in milliseconds, if it is worth a warning: once for each step back.
    pub fn notable_lag_ms(&self) -> Option<i64> {
        let behind_ms = self.now_ms().saturating_sub(self.wall_ms());
        let warned_ms = self.warned_ms.swap(behind_ms, Ordering::Relaxed);
        let notable = behind_ms > NOTABLE_MS && behind_ms.abs_diff(warned_ms) > NOTABLE_MS.unsigned_abs();
        notable.then_some(behind_ms)
    }
}

/// A duration in milliseconds, as stored times have it.
pub fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// A time in milliseconds since 1970; 0 for earlier times.
pub fn unix_ms(time: SystemTime) -> i64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A source whose two times are set by the test, in milliseconds.
    #[derive(Debug, Default)]
    struct SetTime {
        wall_ms: AtomicI64,
        monotonic_ms: AtomicI64,
    }

    fn read(time: &AtomicI64) -> Duration {
        Duration::from_millis(time.load(Ordering::Relaxed).unsigned_abs())
    }

    impl TimeSource for Arc<SetTime> {
        fn wall(&self) -> Duration {
            read(&self.wall_ms)
        }

        fn monotonic(&self) -> Duration {
            read(&self.monotonic_ms)
        }
    }

    fn clock_at(wall_ms: i64) -> (Arc<SetTime>, Clock) {
        let time = Arc::new(SetTime { wall_ms: AtomicI64::new(wall_ms), ..SetTime::default() });
        (time.clone(), Clock::new(time))
    }

    // audit: a wall clock set back revives expired states and file URLs.
    #[test]
    fn time_never_goes_back_when_the_system_clock_is_set_back() {
        let (time, clock) = clock_at(1_000);
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
            time.wall_ms.store(wall_ms, Ordering::Relaxed);
            time.monotonic_ms.store(monotonic_ms, Ordering::Relaxed);
            assert_eq!(clock.now_ms(), expected, "{wall_ms}");
            assert_eq!(clock.wall_ms(), wall_ms);
        }
        assert_eq!(clock.resume(9_000_000), ClockResume::Resumed);
        assert_eq!(clock.now_ms(), 9_000_000, "an earlier process saw it");
    }

    // audit: a clock that was far ahead once, and stored, locks token holders out after it is repaired.
    #[test]
    fn a_stored_time_more_than_a_day_ahead_is_ignored() {
        const HOUR_MS: i64 = 3_600_000;
        let wall_ms = 1_000 * HOUR_MS;
        let cases = [(-1, 0), (1, 1), (24, 24), (25, 0), (24 * 365, 0)];
        for (stored_hours, ahead_hours) in cases {
            let (_, clock) = clock_at(wall_ms);
            clock.resume(wall_ms + stored_hours * HOUR_MS);
            assert_eq!(clock.now_ms() - wall_ms, ahead_hours * HOUR_MS, "{stored_hours} hours ahead");
            assert_eq!(clock.storable_ms(), Some(clock.now_ms()));
        }
    }

    #[test]
    fn a_step_back_is_reported_once() {
        let (time, clock) = clock_at(1_000_000);
        assert_eq!(clock.notable_lag_ms(), None);
        time.wall_ms.store(996_000, Ordering::Relaxed);
        assert_eq!(clock.notable_lag_ms(), None, "too small");
        time.wall_ms.store(900_000, Ordering::Relaxed);
        assert_eq!(clock.notable_lag_ms(), Some(100_000));
        assert_eq!(clock.notable_lag_ms(), None, "already reported");
        time.wall_ms.store(700_000, Ordering::Relaxed);
        assert_eq!(clock.notable_lag_ms(), Some(300_000), "another step");
    }
}
