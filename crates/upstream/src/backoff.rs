//! Exponential backoff between attempts: doubles from one second to sixty, with full jitter, without a retry
//! limit. The pauses for a command that does not exist grow to an hour.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// The longest pause for a command that does not exist: only an installation helps, and that is noticed.
const LONGEST_WITHOUT_COMMAND: Duration = Duration::from_secs(3600);

/// Why an attempt failed, as far as it decides how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryReason {
    /// The command of the server does not exist.
    MissingCommand,
    /// Any other failure.
    Failure,
}

impl RetryReason {
    fn longest(self) -> Duration {
        match self {
            Self::MissingCommand => LONGEST_WITHOUT_COMMAND,
            Self::Failure => LONGEST,
        }
    }
}

/// Computes the pause before the next attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Number of failed attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The longest pause.
    pub fn longest(&self) -> Duration {
        LONGEST
    }

    /// Upper bound of the next pause: 1, 2, 4 … 60 s, or … 3600 s.
    pub fn ceiling(&self, reason: RetryReason) -> Duration {
        FIRST.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX)).min(reason.longest())
    }

    /// Counts a failure and picks a random pause up to the upper bound.
    pub fn next_pause(&mut self, reason: RetryReason) -> Duration {
        let ceiling = self.ceiling(reason);
        self.attempts = self.attempts.saturating_add(1);
        ceiling.mul_f64(fraction())
    }

    /// Whether the latest failure is worth a warning: the first, the second, the fourth, the eighth and so on. The
    /// others say the same again.
    pub fn is_worth_warning(&self) -> bool {
        self.attempts.is_power_of_two()
    }
}

/// A random fraction, at least 0.05, so that a failing server is not retried in a tight loop.
fn fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    // Without randomness the pause is the upper bound: slower, but correct.
    if getrandom::fill(&mut bytes).is_err() {
        return 1.0;
    }
    (f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)).max(0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper bounds of the first 40 pauses, in seconds.
    fn ceilings(reason: RetryReason) -> Vec<u64> {
        let mut backoff = Backoff::default();
        let ceilings = (0..40).map(|_| {
            let ceiling = backoff.ceiling(reason);
            let pause = backoff.next_pause(reason);
            assert!(pause <= ceiling && pause >= ceiling / 20, "{pause:?} of {ceiling:?}");
            ceiling.as_secs()
        });
        ceilings.collect()
    }

    #[test]
    fn ceilings_double_to_a_minute_and_stay() {
        let ceilings = ceilings(RetryReason::Failure);
        assert_eq!(ceilings[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(ceilings[39], 60);
    }

    #[test]
    fn a_missing_command_is_looked_for_less_and_less_often() {
        let ceilings = ceilings(RetryReason::MissingCommand);
        assert_eq!(ceilings[5..14], [32, 64, 128, 256, 512, 1024, 2048, 3600, 3600]);
        assert_eq!(ceilings[39], 3600);
    }

    #[test]
    fn repeated_failures_are_warned_about_less_and_less_often() {
        let mut backoff = Backoff::default();
        let warned: Vec<u32> = (1..=20)
            .filter(|_| {
                backoff.next_pause(RetryReason::Failure);
                backoff.is_worth_warning()
            })
            .collect();
        assert_eq!(warned, [1, 2, 4, 8, 16]);
    }
}
