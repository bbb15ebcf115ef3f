//! Limits the runs that this process works on at a time: of each user, and of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of runs that this process works on at a time.
const MAX_CONCURRENT_RUNS: usize = 16;
/// The maximum number of runs of one user that this process works on at a time.
const MAX_RUNS_OF_USER: usize = 4;

/// The number of runs of each user; users without a run are not in it.
type RunsOfUsers = HashMap<String, usize>;

/// The runs that this process works on, counted by user.
#[derive(Debug, Clone, Default)]
pub(super) struct RunSlots(Arc<Mutex<RunsOfUsers>>);

/// The right to work on one more run, returned on drop.
#[derive(Debug)]
pub(super) struct RunSlot {
    slots: RunSlots,
    user: String,
}

/// Why a run cannot start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRunSlot {
    /// There are too many runs of its user.
    OfUser,
    /// There are too many runs.
    OfAll,
}

impl RunSlots {
    fn counts(&self) -> MutexGuard<'_, RunsOfUsers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a run of this user.
    pub(super) fn take(&self, user: &str) -> Result<RunSlot, NoRunSlot> {
        let mut counts = self.counts();
        if counts.get(user).is_some_and(|count| *count >= MAX_RUNS_OF_USER) {
            return Err(NoRunSlot::OfUser);
        }
        if counts.values().sum::<usize>() >= MAX_CONCURRENT_RUNS {
            return Err(NoRunSlot::OfAll);
        }
        *counts.entry(user.to_owned()).or_default() += 1;
        drop(counts);
        Ok(RunSlot { slots: self.clone(), user: user.to_owned() })
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        if let Some(count) = counts.get_mut(&self.user) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_slots() {
        let slots = RunSlots::default();
        let mut taken: Vec<RunSlot> =
            (0..MAX_RUNS_OF_USER).map(|_| slots.take("ann").expect("a slot")).collect();
        assert_eq!(slots.take("ann").err(), Some(NoRunSlot::OfUser));
        let users = (0..).map(|number| format!("user {number}"));
        let others: Vec<RunSlot> = users.map_while(|user| slots.take(&user).ok()).collect();
        assert_eq!(taken.len() + others.len(), MAX_CONCURRENT_RUNS);
        assert_eq!(slots.take("bob").err(), Some(NoRunSlot::OfAll));
        taken.pop();
        assert!(slots.take("ann").is_ok(), "a slot is returned on drop");
        drop((taken, others));
        assert!(slots.counts().is_empty());
    }
}
