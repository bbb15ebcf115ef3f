//! A circuit breaker: keeps calls away from a failing provider, and lets one call at a time test whether it recovered.
//!
//! Times are milliseconds of one monotonic clock, passed in by the caller.

use serde::Serialize;

/// This many consecutive failures open it.
const MOST_IN_A_ROW: u32 = 3;
/// More than half of this many recent calls failing also opens it.
const WINDOW: u32 = 20;
/// The maximum backoff.
pub const LONGEST_PAUSE_MS: u64 = 60_000;

/// The state of a breaker, with the word used in all interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls go to other providers until the backoff ends.
    Open,
    /// One call tests whether it recovered; others go to other providers.
    HalfOpen,
}

/// Permission to make one call. The outcome must be reported to the breaker that issued it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the outcome of the call must be reported to the breaker"]
pub struct BreakerPass {
    /// Outcomes of calls that began before the last state change are ignored.
    era: u64,
}

/// The breaker of one provider instance.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    place: BreakerPhase,
    era: u64,
    consecutive: u32,
    /// How often it opened since it was last closed; each time doubles the backoff.
    opened: u32,
    /// The last outcomes, newest in the lowest bit; a failure is a one.
    outcomes: u32,
    seen: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BreakerPhase {
    #[default]
    Closed,
    Open {
        until_ms: u64,
    },
    Trial,
}

impl Breaker {
    /// Permission for a call now, if the breaker allows one. Half open, it is given once.
    pub fn admit(&mut self, now_ms: u64) -> Option<BreakerPass> {
        match self.place {
            BreakerPhase::Closed => {}
            BreakerPhase::Open { until_ms } if now_ms >= until_ms => {
                self.place = BreakerPhase::Trial;
                self.era += 1;
            }
            BreakerPhase::Open { .. } | BreakerPhase::Trial => return None,
        }
        Some(BreakerPass { era: self.era })
    }

    /// Whether a call would be allowed now.
    pub fn would_admit(&self, now_ms: u64) -> bool {
        match self.place {
            BreakerPhase::Closed => true,
            BreakerPhase::Open { until_ms } => now_ms >= until_ms,
            BreakerPhase::Trial => false,
        }
    }

    /// Reports that the call succeeded.
    pub fn succeeded(&mut self, pass: BreakerPass) {
        if pass.era != self.era {
            return;
        }
        self.consecutive = 0;
        match self.place {
            BreakerPhase::Trial => *self = Self { era: self.era + 1, ..Self::default() },
            BreakerPhase::Closed => self.note(0),
            BreakerPhase::Open { .. } => {}
        }
    }

    /// Reports that the call failed. `jitter`, from 0 to 1, spreads the backoffs of many gateways over their second
    /// half.
    pub fn failed(&mut self, pass: BreakerPass, now_ms: u64, jitter: f64) {
        if pass.era != self.era {
            return;
        }
        self.consecutive = self.consecutive.saturating_add(1);
        if self.place == BreakerPhase::Closed {
            self.note(1);
        }
        if self.place == BreakerPhase::Trial || self.consecutive >= MOST_IN_A_ROW || self.mostly_failed() {
            self.open(now_ms, jitter);
        }
    }

    /// Reports that the call was cancelled without an outcome: the next call may test the provider.
    pub fn abandoned(&mut self, pass: BreakerPass, now_ms: u64) {
        if pass.era == self.era && self.place == BreakerPhase::Trial {
            self.place = BreakerPhase::Open { until_ms: now_ms };
            self.era += 1;
        }
    }

    /// Its state.
    pub fn state(&self) -> BreakerState {
        match self.place {
            BreakerPhase::Closed => BreakerState::Closed,
            BreakerPhase::Open { .. } => BreakerState::Open,
            BreakerPhase::Trial => BreakerState::HalfOpen,
        }
    }

    /// The number of consecutive failures.
    pub fn consecutive_failures(&self) -> u32 {
        self.consecutive
    }

    /// When the next call may test it, while it is open.
    pub fn backoff_until_ms(&self) -> Option<u64> {
        match self.place {
            BreakerPhase::Open { until_ms } => Some(until_ms),
            BreakerPhase::Closed | BreakerPhase::Trial => None,
        }
    }

    fn note(&mut self, failure: u32) {
        self.outcomes = ((self.outcomes << 1) | failure) & ((1 << WINDOW) - 1);
        self.seen = (self.seen + 1).min(WINDOW);
    }

    fn mostly_failed(&self) -> bool {
        self.seen == WINDOW && self.outcomes.count_ones() * 2 > WINDOW
    }

    fn open(&mut self, now_ms: u64, jitter: f64) {
        let longest = 1000_u64.saturating_mul(1 << self.opened.min(16)).min(LONGEST_PAUSE_MS);
        self.opened = self.opened.saturating_add(1);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 1.0 };
        let pause = longest / 2 + (jitter * (longest - longest / 2) as f64) as u64;
        self.place = BreakerPhase::Open { until_ms: now_ms.saturating_add(pause.min(longest)) };
        self.era += 1;
        (self.outcomes, self.seen) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fail(breaker: &mut Breaker, now_ms: u64) {
        let pass = breaker.admit(now_ms).expect("a pass");
        breaker.failed(pass, now_ms, 1.0);
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_the_backoff_doubles_up_to_a_minute() {
        let mut breaker = Breaker::default();
        let mut now = 0;
        fail(&mut breaker, now);
        fail(&mut breaker, now);
        assert_eq!(breaker.state(), BreakerState::Closed);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            fail(&mut breaker, now);
            let until = breaker.backoff_until_ms().expect("it is open");
            assert!(breaker.admit(until - 1).is_none(), "not before its time");
            pauses.push((until - now) / 1000);
            now = until;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn one_test_call_is_allowed_and_its_success_closes_it() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            fail(&mut breaker, 0);
        }
        let trial = breaker.admit(1000).expect("the trial");
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.admit(1000).is_none() && breaker.admit(99_000).is_none(), "others go elsewhere");
        breaker.succeeded(trial);
        assert_eq!((breaker.state(), breaker.consecutive_failures()), (BreakerState::Closed, 0));
        // The next backoff is short again.
        for _ in 0..3 {
            fail(&mut breaker, 2000);
        }
        assert_eq!(breaker.backoff_until_ms(), Some(3000));
    }

    #[test]
    fn a_cancelled_test_call_leaves_the_test_to_the_next() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            fail(&mut breaker, 0);
        }
        let trial = breaker.admit(1000).expect("the trial");
        breaker.abandoned(trial, 1500);
        let next = breaker.admit(1500).expect("the next trial");
        breaker.succeeded(trial);
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "the first has nothing to say any more");
        breaker.succeeded(next);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn more_than_half_of_the_last_twenty_open_it() {
        let cases = [
            ("FFSFFSFFSFSFSFSSSSSF", BreakerState::Closed), // 10 of 20
            ("FFSFFSFFSFFSFSFSSSSF", BreakerState::Open),   // 11 of 20
            ("FFSFFSFFSFFSFFSFF", BreakerState::Closed),    // not 20 yet
        ];
        for (outcomes, expected) in cases {
            let mut breaker = Breaker::default();
            for outcome in outcomes.chars() {
                let pass = breaker.admit(0).expect("a pass");
                match outcome {
                    'F' => breaker.failed(pass, 0, 1.0),
                    _ => breaker.succeeded(pass),
                }
            }
            assert_eq!(breaker.state(), expected, "{outcomes}");
        }
    }

    #[test]
    fn late_outcomes_of_earlier_calls_are_ignored() {
        let mut breaker = Breaker::default();
        let slow = breaker.admit(0).expect("a pass");
        for _ in 0..3 {
            fail(&mut breaker, 0);
        }
        let until = breaker.backoff_until_ms();
        breaker.failed(slow, 900, 1.0);
        assert_eq!(breaker.backoff_until_ms(), until, "the pause is not made longer");
        breaker.succeeded(slow);
        assert_eq!(breaker.state(), BreakerState::Open, "nor is it closed");
    }

    proptest! {
        /// In every sequence: at most one test call at a time, no call before the backoff ends, no backoff over a
        /// minute.
        #[test]
        fn it_never_allows_two_test_calls(steps in proptest::collection::vec((0_u8..4, 0_u64..5000, 0.0_f64..=1.0), 1..300)) {
            let mut breaker = Breaker::default();
            let mut now = 0;
            let mut passes: Vec<(BreakerPass, bool)> = Vec::new();
            for (step, wait, jitter) in steps {
                now += wait;
                let before = breaker.clone();
                match step {
                    0 => {
                        let given = breaker.admit(now);
                        prop_assert_eq!(given.is_some(), before.would_admit(now));
                        if let Some(until) = before.backoff_until_ms() {
                            prop_assert_eq!(given.is_some(), now >= until);
                        }
                        if let Some(pass) = given {
                            let trial = breaker.state() == BreakerState::HalfOpen;
                            if trial {
                                let fresh = passes.iter().filter(|(old, trial)| *trial && *old == pass).count();
                                prop_assert_eq!(fresh, 0, "a second trial");
                            }
                            passes.push((pass, trial));
                        }
                    }
                    _ if passes.is_empty() => {}
                    1 => breaker.succeeded(passes.remove(0).0),
                    2 => breaker.failed(passes.remove(0).0, now, jitter),
                    _ => breaker.abandoned(passes.remove(0).0, now),
                }
                if let (None, Some(until)) = (before.backoff_until_ms(), breaker.backoff_until_ms()) {
                    prop_assert!(until >= now && until - now <= LONGEST_PAUSE_MS);
                }
            }
            // It recovers from every state.
            for (pass, _) in passes {
                breaker.abandoned(pass, now);
            }
            let pass = breaker.admit(now + LONGEST_PAUSE_MS);
            prop_assert!(pass.is_some());
        }
    }
}
