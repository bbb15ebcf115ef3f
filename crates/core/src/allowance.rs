//! Allowances: how many calls, how much time and how much money one caller may use.
//!
//! Calls are counted by user over a minute, time and money by user and day. Sessions do not count: a client names its
//! own, so a new name would reset the count.

use crate::caller::Caller;
use crate::fault::{Blame, Fault};
use std::collections::HashMap;
use std::time::Duration;

/// How many callers are remembered; then those that were quiet longest are forgotten.
const MOST_REMEMBERED: usize = 20_000;
const DAY_MS: u64 = 86_400_000;

/// What one caller may use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Allowance {
    /// Calls of one user in any minute.
    pub calls_per_minute: Option<u32>,
    /// Time of tools of one user in one day, by UTC.
    pub runtime: Option<Duration>,
    /// Cost of one user in one day, by UTC, in the units of manifests.
    pub cost: Option<f64>,
}

impl Allowance {
    /// Whether anything is limited at all.
    pub fn limits_anything(&self) -> bool {
        self.calls_per_minute.is_some() || self.runtime.is_some() || self.cost.is_some()
    }
}

/// A call is over what its caller may use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverAllowance {
    /// Too many calls.
    #[error("`{tool}` was not called: {limit} calls a minute are allowed, and they are used up")]
    Calls {
        /// The tool.
        tool: String,
        /// The limit.
        limit: u32,
        /// Seconds until there is room again.
        wait_seconds: u64,
    },
    /// Too much time.
    #[error("`{tool}` was not called: the {} s that tools may run in one day are used up", limit.as_secs())]
    Runtime {
        /// The tool.
        tool: String,
        /// The limit.
        limit: Duration,
    },
    /// Too much money.
    #[error(
        "`{tool}` was not called: it costs {cost}, and {spent} of the {limit} allowed in one day are spent"
    )]
    Cost {
        /// The tool.
        tool: String,
        /// What it costs.
        cost: f64,
        /// What was spent so far.
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

/// What callers have used.
#[derive(Debug, Default)]
pub struct Spending {
    users: HashMap<Box<str>, Minute>,
    purses: HashMap<Box<str>, Purse>,
}

/// Calls in each second of the last minute.
#[derive(Debug, Clone)]
struct Minute {
    counts: [u32; 60],
    /// The second that was counted last.
    at: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Purse {
    runtime: Duration,
    cost: f64,
    day: u64,
    used_ms: u64,
}

/// Whose time and money it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurseKey(Box<str>);

impl PurseKey {
    /// The one of a caller.
    pub fn of(caller: &Caller) -> Self {
        Self((&*caller.user).into())
    }
}

impl Spending {
    /// Takes a call from a caller's allowance, or says what is used up. Nothing is taken then.
    pub fn take(
        &mut self,
        allowance: &Allowance,
        caller: &Caller,
        tool: &str,
        cost: f64,
        now_ms: u64,
    ) -> Result<PurseKey, OverAllowance> {
        let key = PurseKey::of(caller);
        let cost = if cost.is_finite() { cost.max(0.0) } else { 0.0 };
        if allowance.runtime.is_some() || allowance.cost.is_some() {
            let purse = self.purse(&key, now_ms);
            if let Some(limit) = allowance.runtime.filter(|limit| purse.runtime >= *limit) {
                return Err(OverAllowance::Runtime { tool: tool.to_owned(), limit });
            }
            if let Some(limit) = allowance.cost.filter(|limit| cost > 0.0 && purse.cost + cost > *limit) {
                let spent = purse.cost;
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
            self.purse(&key, now_ms).cost += cost;
        }
        Ok(key)
    }

    /// Notes how long a call took.
    pub fn ran(&mut self, key: &PurseKey, took: Duration, now_ms: u64) {
        let purse = self.purse(key, now_ms);
        purse.runtime = purse.runtime.saturating_add(took);
    }

    fn purse(&mut self, key: &PurseKey, now_ms: u64) -> &mut Purse {
        if self.purses.len() >= MOST_REMEMBERED && !self.purses.contains_key(&key.0) {
            forget_half(&mut self.purses, |purse| purse.used_ms);
        }
        let purse = self.purses.entry(key.0.clone()).or_default();
        let day = now_ms / DAY_MS;
        // A clock that is set back gives nothing back.
        if purse.day < day {
            *purse = Purse { day, ..Purse::default() };
        }
        purse.used_ms = now_ms;
        purse
    }

    fn minute(&mut self, user: &str, second: u64) -> &mut Minute {
        if self.users.len() >= MOST_REMEMBERED && !self.users.contains_key(user) {
            forget_half(&mut self.users, |minute| minute.at);
        }
        let minute = self.users.entry(user.into()).or_insert(Minute { counts: [0; 60], at: second });
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

    /// Takes one call, or says in how many seconds there is room.
    fn take(&mut self, limit: u32) -> Result<(), u64> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        if total < u64::from(limit) {
            self.counts[slot(self.at)] += 1;
            return Ok(());
        }
        // The oldest that count leave first.
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
    fn calls_come_back_with_the_minute() {
        let allowance = Allowance { calls_per_minute: Some(2), ..Allowance::default() };
        let (ann, bob) = (in_session("ann", None), in_session("bob", None));
        let mut spending = Spending::default();
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
    fn time_and_money_are_counted_by_day_whatever_session_is_named() {
        let allowance =
            Allowance { runtime: Some(Duration::from_secs(10)), cost: Some(1.0), ..Allowance::default() };
        let one = in_session("ann", Some("1"));
        let mut spending = Spending::default();
        let key = spending.take(&allowance, &one, "t", 0.6, 0).expect("room");
        let over =
            spending.take(&allowance, &in_session("ann", Some("2")), "t", 0.6, 0).expect_err("too dear");
        assert_eq!(
            over.to_string(),
            "`t` was not called: it costs 0.6, and 0.6 of the 1 allowed in one day are spent"
        );
        assert!(spending.take(&allowance, &one, "t", 0.4, 0).is_ok());
        spending.ran(&key, Duration::from_secs(10), DAY_MS - 1);
        for session in [None, Some("1"), Some("2")] {
            let over = spending.take(&allowance, &in_session("ann", session), "t", 0.0, DAY_MS - 1);
            assert_eq!(over.expect_err("too long").code(), "call.over-runtime");
        }
        assert!(spending.take(&allowance, &in_session("bob", None), "t", 0.0, DAY_MS - 1).is_ok());
        let key = spending.take(&allowance, &one, "t", 1.0, DAY_MS).expect("another day");
        spending.ran(&key, Duration::from_secs(10), DAY_MS);
        assert!(spending.take(&allowance, &one, "t", 0.0, DAY_MS - 1).is_err(), "a clock that was set back");
    }

    #[test]
    fn it_forgets_rather_than_grows() {
        let allowance = Allowance { calls_per_minute: Some(2), cost: Some(1.0), ..Allowance::default() };
        let mut spending = Spending::default();
        for user in 0..u64::try_from(MOST_REMEMBERED * 2).expect("small") {
            let caller = in_session(&user.to_string(), None);
            assert!(spending.take(&allowance, &caller, "t", 0.1, user).is_ok());
        }
        assert!(spending.users.len() <= MOST_REMEMBERED && spending.purses.len() <= MOST_REMEMBERED);
    }

    proptest! {
        /// No window of a minute holds more calls than allowed.
        #[test]
        fn no_minute_holds_more(limit in 1_u32..6, waits in proptest::collection::vec(0_u64..40, 1..80)) {
            let allowance = Allowance { calls_per_minute: Some(limit), ..Allowance::default() };
            let ann = in_session("ann", None);
            let mut spending = Spending::default();
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
