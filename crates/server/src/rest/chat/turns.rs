//! The turns and drafts of the model that users wait for. Their number is limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::fault::{Blame, Problem};

/// The maximum number of turns that a user can wait for at once.
const MAX_TURNS: usize = 4;

/// The turns that users wait for.
#[derive(Debug, Default)]
pub struct ChatTurns(Mutex<HashMap<Arc<str>, usize>>);

/// Counts a turn until it is dropped.
#[derive(Debug)]
pub(in crate::rest) struct ChatTurnSlot {
    turns: Arc<ChatTurns>,
    user: Arc<str>,
}

impl ChatTurns {
    /// Counts a turn, unless the user waits for too many.
    pub(in crate::rest) fn begin(self: &Arc<Self>, user: &Arc<str>) -> Result<ChatTurnSlot, Problem> {
        let mut turns = self.lock();
        let count = turns.entry(user.clone()).or_default();
        if *count >= MAX_TURNS {
            return Err(too_many_turns());
        }
        *count += 1;
        drop(turns);
        Ok(ChatTurnSlot { turns: self.clone(), user: user.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChatTurnSlot {
    fn drop(&mut self) {
        let mut turns = self.turns.lock();
        if let Some(count) = turns.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                turns.remove(&self.user);
            }
        }
    }
}

fn too_many_turns() -> Problem {
    Problem {
        code: "llm.too-many-turns",
        blame: Blame::Caller,
        message: format!("you wait for {MAX_TURNS} answers of the language model already"),
        hint: Some("wait for one of them, or stop one".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_waits_for_a_few_turns_only() {
        let turns = Arc::new(ChatTurns::default());
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let mut slots: Vec<_> = (0..MAX_TURNS).map(|_| turns.begin(&ann)).collect();
        assert!(slots.iter().all(Result::is_ok));
        assert!(turns.begin(&ann).is_err() && turns.begin(&bob).is_ok());
        slots.pop();
        assert!(turns.begin(&ann).is_ok());
        drop(slots);
        assert!(turns.lock().is_empty());
    }
}
