//! The results of recent calls, in memory, so that the caller can look at them again: in the console, or with
//! `GET /calls/{id}`. Nothing of them is written to disk (ADR 39).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::json::RawJson;
use uuid::Uuid;

/// The largest result that is kept.
pub const MAX_RECENT_RESULT_BYTES: usize = 64 << 10;
/// What an entry costs besides its result.
const ENTRY_BYTES: usize = 256;

/// The results of recent calls. The oldest are dropped when the limit is reached.
#[derive(Debug, Default)]
pub struct RecentResults(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    results: HashMap<Uuid, KeptResult>,
    /// The calls, oldest first.
    order: VecDeque<Uuid>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptResult {
    user: Arc<str>,
    result: RawJson,
}

impl KeptResult {
    fn bytes(&self) -> usize {
        self.result.as_bytes().len() + ENTRY_BYTES
    }
}

impl RecentResults {
    /// Keeps the result of a call of a user within a limit for all results; 0 keeps none.
    pub(super) fn keep(&self, call: Uuid, user: &Arc<str>, result: &RawJson, max_bytes: usize) {
        let length = result.as_bytes().len();
        // A result over the limit would only drop all others.
        let is_kept = length <= MAX_RECENT_RESULT_BYTES && length + ENTRY_BYTES <= max_bytes;
        // Copied before the lock is taken: the text may be a part of a much larger buffer.
        let kept_result = is_kept.then(|| KeptResult { user: user.clone(), result: result.detached() });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(new) = kept_result {
            kept.bytes += new.bytes();
            match kept.results.insert(call, new) {
                Some(old) => kept.bytes -= old.bytes(),
                None => kept.order.push_back(call),
            }
        }
        // Also after a reload that has lowered the limit.
        while kept.bytes > max_bytes
            && let Some(oldest) = kept.order.pop_front()
        {
            if let Some(old) = kept.results.remove(&oldest) {
                kept.bytes -= old.bytes();
            }
        }
    }

    /// The result of a call of this user, if it is still kept.
    pub fn of(&self, call: Uuid, user: &str) -> Option<RawJson> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.results.get(&call).filter(|found| &*found.user == user);
        found.map(|found| found.result.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(results: &RecentResults, number: u128, length: usize, max_bytes: usize) {
        let result = RawJson::from_value(&"x".repeat(length));
        results.keep(Uuid::from_u128(number), &"ann".into(), &result, max_bytes);
    }

    fn kept(results: &RecentResults) -> Vec<u128> {
        (1..10).filter(|number| results.of(Uuid::from_u128(*number), "ann").is_some()).collect()
    }

    #[test]
    fn the_oldest_results_are_dropped_at_the_limit() {
        let results = RecentResults::default();
        for number in 1..=5 {
            keep(&results, number, 1_000, 4_000);
        }
        assert_eq!(kept(&results), [3, 4, 5]);
        keep(&results, 6, 1, 0);
        assert_eq!(kept(&results), [0_u128; 0], "a reload has switched it off");
        let state = results.0.lock().expect("not poisoned");
        assert_eq!((state.bytes, state.order.len()), (0, 0));
    }

    #[test]
    fn a_result_is_for_the_user_of_the_call_and_a_large_one_is_not_kept() {
        let results = RecentResults::default();
        keep(&results, 1, 10, 1 << 20);
        keep(&results, 2, MAX_RECENT_RESULT_BYTES, 1 << 20);
        assert_eq!(kept(&results), [1]);
        assert!(results.of(Uuid::from_u128(1), "bob").is_none());
        keep(&results, 3, 2_000, 1_000);
        assert_eq!(kept(&results), [1], "a result over the limit drops nothing");
    }

    #[test]
    fn a_call_that_is_kept_twice_is_counted_once() {
        let results = RecentResults::default();
        for _ in 0..100 {
            keep(&results, 1, 1_000, 1 << 20);
        }
        let state = results.0.lock().expect("not poisoned");
        assert_eq!((state.order.len(), state.bytes), (1, 1_002 + ENTRY_BYTES));
    }
}
