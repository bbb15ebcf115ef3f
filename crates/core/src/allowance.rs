//! Allowances: limits on the calls, runtime and cost of one user.
//!
//! Calls are counted per user and minute, runtime and cost per user and day. Sessions are not counted separately: a
//! client names its own session, so a new name would reset the count.

use crate::caller::Caller;
use crate::fault::{Blame, Fault};
use std::collections::HashMap;
use std::time::Duration;

/// How many users are remembered. Beyond that, the half that has been idle longest is forgotten.
const MAX_REMEMBERED: usize = 20_000;
const DAY_MS: u64 = 86_400_000;

/// The usage limits of one user.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Allowance {
    /// Calls of one user per minute.
    pub calls_per_minute: Option<u32>,
    /// Tool runtime of one user per UTC day.
    pub runtime: Option<Duration>,
    /// Cost of one user per UTC day, in the units of manifests.
    pub cost: Option<f64>,
}

impl Allowance {
    /// The part of one of several gateways that divide the allowance; at least one call a minute.
    pub fn part_of(&self, gateways: usize) -> Self {
        let gateways = u32::try_from(gateways).unwrap_or(u32::MAX).max(1);
        Self {
            calls_per_minute: self.calls_per_minute.map(|calls| calls.div_ceil(gateways)),
            runtime: self.runtime.map(|runtime| runtime / gateways),
            cost: self.cost.map(|cost| cost / f64::from(gateways)),
        }
    }

    /// Whether any limit is set.
    pub fn limits_anything(&self) -> bool {
        self.calls_per_minute.is_some() || self.runtime.is_some() || self.cost.is_some()
    }
}

/// The error for a call that exceeds its caller's allowance.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverAllowance {
    /// Too many calls.
    #[error("`{tool}` was not called: {limit} calls a minute are allowed, and they are used up")]
    Calls {
        /// The tool.
        tool: String,
        /// The limit.
        limit: u32,
        /// Seconds until a call is possible again.
        wait_seconds: u64,
    },
    /// Too much runtime.
    #[error("`{tool}` was not called: the {} s that tools may run in one day are used up", limit.as_secs())]
    Runtime {
        /// The tool.
        tool: String,
        /// The limit.
        limit: Duration,
    },
    /// Too much cost.
    #[error(
        "`{tool}` was not called: it costs {cost}, and {spent} of the {limit} allowed in one day are spent"
    )]
    Cost {
        /// The tool.
        tool: String,
        /// The cost of the call.
        cost: f64,
        /// The amount spent today.
        spent: f64,
        /// The limit.
        limit: f64,
    },
}

impl Fault for OverAllowance {
    fn code(&self) -> &'static str {
        match self {
            Self::Calls { .. } => "call.over-rate",
            Self::Runtime { .. } => "call.over-runtime",
            Self::Cost { .. } => "call.over-cost",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        let setting = match self {
            Self::Calls { wait_seconds, .. } => {
                return Some(format!(
                    "call again in {wait_seconds} s; `limits.calls_per_minute` sets the limit"
                ));
            }
            Self::Runtime { .. } => "limits.runtime_seconds",
            Self::Cost { .. } => "limits.cost",
        };
        Some(format!("it is reset at midnight UTC; `{setting}` sets the limit"))
    }
}

/// The usage of all users.
#[derive(Debug, Default)]
pub struct UsageMeter {
    minutes: HashMap<Box<str>, Minute>,
    daily: HashMap<Box<str>, DailyUsage>,
}

/// Calls in each second of the last minute.
#[derive(Debug, Clone)]
struct Minute {
    counts: [u32; 60],
    /// The last second that was counted.
    at: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct DailyUsage {
    runtime: Duration,
    cost: f64,
    day: u64,
    used_ms: u64,
}

/// The user whose runtime and cost are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageKey(Box<str>);

impl UsageKey {
    /// The key of a caller.
    pub fn of(caller: &Caller) -> Self {
        Self((&*caller.user).into())
    }
}

impl UsageMeter {
    /// Deducts a call from a caller's allowance. If it does not fit, nothing is deducted and the error names the limit.
    pub fn take(
        &mut self,
        allowance: &Allowance,
        caller: &Caller,
        tool: &str,
        cost: f64,
        now_ms: u64,
    ) -> Result<UsageKey, OverAllowance> {
        let key = UsageKey::of(caller);
        let cost = if cost.is_finite() { cost.max(0.0) } else { 0.0 };
        if allowance.runtime.is_some() || allowance.cost.is_some() {
            let usage = self.usage(&key, now_ms);
            if let Some(limit) = allowance.runtime.filter(|limit| usage.runtime >= *limit) {
                return Err(OverAllowance::Runtime { tool: tool.to_owned(), limit });
            }
            if let Some(limit) = allowance.cost.filter(|limit| cost > 0.0 && usage.cost + cost > *limit) {
                let spent = usage.cost;
                return Err(OverAllowance::Cost { tool: tool.to_owned(), cost, spent, limit });
            }
        }
        if let Some(limit) = allowance.calls_per_minute {
            let minute = self.minute(&caller.user, now_ms / 1000);
            if let Err(wait_seconds) = minute.take(limit) {
                return Err(OverAllowance::Calls { tool: tool.to_owned(), limit, wait_seconds });
            }
        }
        if allowance.cost.is_some() {
            self.usage(&key, now_ms).cost += cost;
        }
        Ok(key)
    }

    /// Records how long a call took.
    pub fn record_runtime(&mut self, key: &UsageKey, took: Duration, now_ms: u64) {
        let usage = self.usage(key, now_ms);
        usage.runtime = usage.runtime.saturating_add(took);
    }

    fn usage(&mut self, key: &UsageKey, now_ms: u64) -> &mut DailyUsage {
        if self.daily.len() >= MAX_REMEMBERED && !self.daily.contains_key(&key.0) {
            forget_half(&mut self.daily, |usage| usage.used_ms);
        }
        let usage = self.daily.entry(key.0.clone()).or_default();
        let day = now_ms / DAY_MS;
        // Setting the clock back restores nothing.
        if usage.day < day {
            *usage = DailyUsage { day, ..DailyUsage::default() };
        }
        usage.used_ms = now_ms;
        usage
    }

    fn minute(&mut self, user: &str, second: u64) -> &mut Minute {
        if self.minutes.len() >= MAX_REMEMBERED && !self.minutes.contains_key(user) {
            forget_half(&mut self.minutes, |minute| minute.at);
        }
        let minute = self.minutes.entry(user.into()).or_insert(Minute { counts: [0; 60], at: second });
        minute.move_to(second);
        minute
    }
}

fn forget_half<T>(map: &mut HashMap<Box<str>, T>, used: impl Fn(&T) -> u64) {
    let mut ages: Vec<u64> = map.values().map(&used).collect();
    let middle = ages.len() / 2;
    let (_, middle, _) = ages.select_nth_unstable(middle);
    let middle = *middle;
    let mut left = map.len() / 2;
    map.retain(|_, one| {
        let stays = used(one) >= middle && left > 0;
        left -= usize::from(stays);
        stays
    });
}

impl Minute {
    fn move_to(&mut self, second: u64) {
        let passed = second.saturating_sub(self.at).min(60);
        for ahead in 1..=passed {
            self.counts[slot(self.at + ahead)] = 0;
        }
        if second.saturating_sub(self.at) >= 60 {
            self.counts = [0; 60];
        }
        self.at = self.at.max(second);
    }

    /// Counts one call, or returns the number of seconds until one is possible.
    fn take(&mut self, limit: u32) -> Result<(), u64> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        if total < u64::from(limit) {
            self.counts[slot(self.at)] += 1;
            return Ok(());
        }
        // The oldest counted second expires first.
        let oldest = (1..=60).find(|ahead| self.counts[slot(self.at + ahead)] > 0);
        Err(oldest.unwrap_or(60))
    }
}

fn slot(second: u64) -> usize {
    usize::try_from(second % 60).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn in_session(user: &str, session: Option<&str>) -> Caller {
        Caller { session: session.map(Into::into), ..Caller::guest(user, []) }
    }

    #[test]
    fn gateways_divide_an_allowance() {
        let whole =
            Allowance { calls_per_minute: Some(10), runtime: Some(Duration::from_secs(9)), cost: Some(6.0) };
        assert_eq!(whole.part_of(1), whole);
        let third =
            Allowance { calls_per_minute: Some(4), runtime: Some(Duration::from_secs(3)), cost: Some(2.0) };
        assert_eq!(whole.part_of(3), third);
        assert_eq!(whole.part_of(100).calls_per_minute, Some(1), "no gateway refuses every call");
        assert_eq!(Allowance::default().part_of(3), Allowance::default());
    }

    #[test]
    fn calls_are_available_again_after_a_minute() {
        let allowance = Allowance { calls_per_minute: Some(2), ..Allowance::default() };
        let (ann, bob) = (in_session("ann", None), in_session("bob", None));
        let mut spending = UsageMeter::default();
        let mut take = |who: &Caller, second: u64| {
            spending.take(&allowance, who, "t", 0.0, second * 1000).map(|_| ()).map_err(|over| match over {
                OverAllowance::Calls { wait_seconds, .. } => wait_seconds,
                other => panic!("{other}"),
            })
        };
        assert_eq!(take(&ann, 100), Ok(()));
        assert_eq!(take(&ann, 110), Ok(()));
        assert_eq!(take(&ann, 120), Err(40), "the first leaves at 160");
        assert_eq!(take(&bob, 120), Ok(()), "each user has their own");
        assert_eq!(take(&ann, 159), Err(1));
        assert_eq!(take(&ann, 160), Ok(()));
        assert_eq!(take(&ann, 161), Err(9));
        assert_eq!(take(&ann, 5000), Ok(()));
    }

    // audit: allowances per session restart with a new session name
    #[test]
    fn runtime_and_cost_are_counted_per_day_across_sessions() {
        let allowance =
            Allowance { runtime: Some(Duration::from_secs(10)), cost: Some(1.0), ..Allowance::default() };
        let one = in_session("ann", Some("1"));
        let mut spending = UsageMeter::default();
        let key = spending.take(&allowance, &one, "t", 0.6, 0).expect("room");
        let over =
            spending.take(&allowance, &in_session("ann", Some("2")), "t", 0.6, 0).expect_err("too dear");
        assert_eq!(
            over.to_string(),
            "`t` was not called: it costs 0.6, and 0.6 of the 1 allowed in one day are spent"
        );
        assert!(spending.take(&allowance, &one, "t", 0.4, 0).is_ok());
        spending.record_runtime(&key, Duration::from_secs(10), DAY_MS - 1);
        for session in [None, Some("1"), Some("2")] {
            let over = spending.take(&allowance, &in_session("ann", session), "t", 0.0, DAY_MS - 1);
            assert_eq!(over.expect_err("too long").code(), "call.over-runtime");
        }
        assert!(spending.take(&allowance, &in_session("bob", None), "t", 0.0, DAY_MS - 1).is_ok());
        let key = spending.take(&allowance, &one, "t", 1.0, DAY_MS).expect("another day");
        spending.record_runtime(&key, Duration::from_secs(10), DAY_MS);
        assert!(spending.take(&allowance, &one, "t", 0.0, DAY_MS - 1).is_err(), "a clock that was set back");
    }

    #[test]
    fn the_number_of_remembered_users_is_limited() {
        let allowance = Allowance { calls_per_minute: Some(2), cost: Some(1.0), ..Allowance::default() };
        let mut spending = UsageMeter::default();
        for user in 0..u64::try_from(MAX_REMEMBERED * 2).expect("small") {
            let caller = in_session(&user.to_string(), None);
            assert!(spending.take(&allowance, &caller, "t", 0.1, user).is_ok());
        }
        assert!(spending.minutes.len() <= MAX_REMEMBERED && spending.daily.len() <= MAX_REMEMBERED);
    }

    proptest! {
        /// No window of one minute holds more calls than the limit.
        #[test]
        fn no_minute_exceeds_the_limit(limit in 1_u32..6, waits in proptest::collection::vec(0_u64..40, 1..80)) {
            let allowance = Allowance { calls_per_minute: Some(limit), ..Allowance::default() };
            let ann = in_session("ann", None);
            let mut spending = UsageMeter::default();
            let mut now = 1000;
            let mut taken: Vec<u64> = Vec::new();
            for wait in waits {
                now += wait;
                if spending.take(&allowance, &ann, "t", 0.0, now * 1000).is_ok() {
                    taken.push(now);
                }
            }
            for start in &taken {
                let within = taken.iter().filter(|at| **at >= *start && **at < start + 60).count();
                prop_assert!(within <= limit as usize);
            }
        }
    }
}
