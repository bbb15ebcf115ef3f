//! The time of this process, and the warnings of the gateway's clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;
use toolbooth_core::clock::{Clock, ClockResume, TimeSource};

/// Reads the system clock, and the monotonic clock of the runtime.
#[derive(Debug)]
pub struct SystemTimeSource {
    began: Instant,
}

impl Default for SystemTimeSource {
    fn default() -> Self {
        Self { began: Instant::now() }
    }
}

impl TimeSource for SystemTimeSource {
    #[allow(clippy::disallowed_methods, reason = "the only reader of the system clock in the gateway")]
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A clock that shows the time of this process.
pub fn system_clock() -> Arc<Clock> {
    Arc::new(Clock::new(SystemTimeSource::default()))
}

/// Continues from the latest time of an earlier process.
pub(crate) fn resume(clock: &Clock, latest_ms: i64) {
    if let ClockResume::TooFarAhead { ahead_ms } = clock.resume(latest_ms) {
        tracing::warn!(
            ahead_ms,
            "the stored time is more than a day ahead of the system clock and is ignored; \
             check the clock if it was not wrong before"
        );
    }
    warn_if_behind(clock);
}

/// Logs a warning if the system clock is behind, once for each step back.
pub(crate) fn warn_if_behind(clock: &Clock) {
    if let Some(behind_ms) = clock.notable_lag_ms() {
        tracing::warn!(
            behind_ms,
            "the system clock was set back; expiry times still use the latest time that was seen"
        );
    }
}
