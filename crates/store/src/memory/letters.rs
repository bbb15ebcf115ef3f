//! Dead letters in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::letters::{
    ENDED_LETTER_MS, LetterFilter, LetterStore, LetterUpdate, MAX_LETTERS, OPEN_LETTER_MS, apply,
    check_letter, check_room,
};
use async_trait::async_trait;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::dead_letter::{DeadLetter, LetterState, LetterStep};
use uuid::Uuid;

/// Dead letters in the order they were written.
#[derive(Debug, Default)]
pub(super) struct LetterTable(Vec<DeadLetter>);

fn is_open(letter: &DeadLetter) -> bool {
    matches!(letter.state, LetterState::Pending | LetterState::Retrying)
}

impl LetterTable {
    fn add(&mut self, letter: DeadLetter) -> Result<(), StoreError> {
        if let Some(kept) = self.0.iter().find(|kept| kept.id == letter.id) {
            return if *kept == letter { Ok(()) } else { Err(StoreError::Conflict { call_id: letter.id }) };
        }
        let open = self.0.iter().filter(|letter| is_open(letter));
        let of_user = open.clone().filter(|kept| kept.user == letter.user).count();
        check_room(open.count(), of_user)?;
        self.0.push(letter);
        Ok(())
    }

    fn list(&self, filter: &LetterFilter) -> Vec<DeadLetter> {
        let end = match filter.before {
            Some(before) => self.0.iter().position(|letter| letter.id == before).unwrap_or(0),
            None => self.0.len(),
        };
        let fits = |letter: &&DeadLetter| {
            filter.user.as_ref().is_none_or(|user| letter.user == *user)
                && (filter.states.is_empty() || filter.states.contains(&letter.state))
                && filter.tool.as_ref().is_none_or(|tool| letter.exposed == *tool || letter.tool == *tool)
        };
        let found = self.0[..end].iter().rev().filter(fits).take(filter.page_size() as usize);
        found.map(|letter| DeadLetter { sealed: None, ..letter.clone() }).collect()
    }

    fn due(&self, now_ms: i64, limit: u32) -> Vec<DeadLetter> {
        let mut due: Vec<(i64, &DeadLetter)> =
            self.0.iter().filter_map(|letter| Some((letter.next_retry_ms?, letter))).collect();
        due.retain(|(at_ms, _)| *at_ms <= now_ms);
        due.sort_by_key(|(at_ms, _)| *at_ms);
        due.into_iter().take(limit as usize).map(|(_, letter)| letter.clone()).collect()
    }

    fn step(&mut self, id: Uuid, step: &LetterStep, at_ms: i64) -> LetterUpdate {
        let Some(kept) = self.0.iter_mut().find(|letter| letter.id == id) else {
            return LetterUpdate::Missing;
        };
        let update = apply(kept.clone(), step, at_ms);
        if let LetterUpdate::Won(moved) = &update {
            kept.clone_from(moved);
        }
        update
    }

    pub(super) fn purge(&mut self, now_ms: i64) {
        let surplus = self.0.len().saturating_sub(MAX_LETTERS as usize);
        let mut place = 0;
        self.0.retain(|letter| {
            place += 1;
            match letter.ended_ms {
                Some(ended_ms) => ended_ms >= now_ms.saturating_sub(ENDED_LETTER_MS) && place > surplus,
                None => {
                    letter.state == LetterState::Retrying
                        || letter.created_ms >= now_ms.saturating_sub(OPEN_LETTER_MS)
                }
            }
        });
    }
}

#[async_trait]
impl LetterStore for MemoryStore {
    async fn add_letter(&self, letter: DeadLetter) -> Result<(), StoreError> {
        check_letter(&letter)?;
        self.with(|state| state.letters.add(letter))
    }

    async fn letter(&self, id: Uuid) -> Result<Option<DeadLetter>, StoreError> {
        self.with(|state| Ok(state.letters.0.iter().find(|letter| letter.id == id).cloned()))
    }

    async fn letters(&self, filter: LetterFilter) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|state| Ok(state.letters.list(&filter)))
    }

    async fn due_letters(&self, now_ms: i64, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|state| Ok(state.letters.due(now_ms, limit)))
    }

    async fn next_letter_ms(&self) -> Result<Option<i64>, StoreError> {
        self.with(|state| Ok(state.letters.0.iter().filter_map(|letter| letter.next_retry_ms).min()))
    }

    async fn move_letter(
        &self,
        id: Uuid,
        step: LetterStep,
        at_ms: i64,
        audit: Option<AuditEntry>,
    ) -> Result<LetterUpdate, StoreError> {
        self.with(|state| {
            let update = state.letters.step(id, &step, at_ms);
            if let (LetterUpdate::Won(_), Some(entry)) = (&update, audit) {
                state.audit.add(entry);
            }
            Ok(update)
        })
    }

    async fn interrupted_letters(
        &self,
        at_ms: i64,
        next_retry_ms: i64,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.with(|state| {
            let step = LetterStep::Interrupt { next_retry_ms };
            let mut moved = Vec::new();
            for kept in &mut state.letters.0 {
                if let Ok(letter) = kept.step(&step, at_ms) {
                    state.audit.add(letter.audit_entry(at_ms, None, "interrupted"));
                    kept.clone_from(&letter);
                    moved.push(letter);
                }
            }
            Ok(moved)
        })
    }
}
