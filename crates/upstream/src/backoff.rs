//! Exponential backoff between attempts: doubles from one second to sixty, with full jitter, without a retry
//! limit.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

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

    /// Upper bound of the next pause: 1, 2, 4 … 60 s.
    pub fn ceiling(&self) -> Duration {
        FIRST.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX)).min(LONGEST)
    }

    /// Counts a failure and picks a random pause up to the upper bound.
    pub fn next_pause(&mut self) -> Duration {
        let ceiling = self.ceiling();
        self.attempts = self.attempts.saturating_add(1);
        ceiling.mul_f64(fraction())
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

    #[test]
    fn ceilings_double_to_a_minute_and_stay() {
        let mut backoff = Backoff::default();
        let mut ceilings = Vec::new();
        for _ in 0..40 {
            let ceiling = backoff.ceiling();
            let pause = backoff.next_pause();
            assert!(pause <= ceiling && pause >= ceiling / 20, "{pause:?} of {ceiling:?}");
            ceilings.push(ceiling.as_secs());
        }
        assert_eq!(ceilings[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(ceilings[39], 60);
    }
}
