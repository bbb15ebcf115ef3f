//! What people may ask about dead letters: their own, or all of them for an admin.

use super::Replayed;
use crate::clock::now_ms;
use crate::engine::Engine;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::dead_letter::{Letter, LetterFault, LetterState, LetterStep};
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_store::{LetterContest, LetterFilter};
use uuid::Uuid;

/// Whether a call is made again though it may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insisting {
    /// Not then.
    No,
    /// All the same.
    Yes,
}

impl Engine {
    /// Letters that a caller may see, newest first.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        mut filter: LetterFilter,
    ) -> Result<Vec<Letter>, Problem> {
        if caller.admin == Admin::No {
            filter.user = Some(caller.user.to_string());
        }
        self.store().letters(filter).await.map_err(|error| Problem::of(&error))
    }

    /// A letter; one that the caller may not see is unknown.
    pub async fn dead_letter(&self, caller: &Caller, id: Uuid) -> Result<Letter, Problem> {
        let found = self.store().letter(id).await.map_err(|error| Problem::of(&error))?;
        let visible = |letter: &Letter| letter.user == *caller.user || caller.admin == Admin::Yes;
        found.filter(visible).ok_or_else(|| Problem::of(&LetterFault::Unknown { id }))
    }

    /// Makes a letter's call again as its first caller, at the request of that caller or of an admin.
    pub async fn replay_letter(
        self: &Arc<Self>,
        by: &Caller,
        id: Uuid,
        insisting: Insisting,
    ) -> Result<Replayed, Problem> {
        let letter = self.dead_letter(by, id).await?;
        let is_open = matches!(letter.state, LetterState::Pending | LetterState::Retrying);
        if is_open && letter.may_have_happened && insisting == Insisting::No {
            let fault = LetterFault::MayHaveHappened { id, name: letter.exposed };
            return Err(Problem::of(&fault));
        }
        if !is_open {
            return Err(Problem::of(&LetterFault::Over { id, state: letter.state }));
        }
        self.replay(letter, Some(by)).await
    }

    /// Gives a letter up.
    pub async fn drop_letter(&self, by: &Caller, id: Uuid) -> Result<Letter, Problem> {
        let letter = self.dead_letter(by, id).await?;
        let at_ms = now_ms();
        let audit = letter.trace(at_ms, Some(&by.user), "dropped");
        let dropped = self.store().move_letter(id, LetterStep::Drop, at_ms, Some(audit)).await;
        match dropped.map_err(|error| Problem::of(&error))? {
            LetterContest::Won(letter) => {
                self.emit(super::letter_event(EventKind::DeadLetterDropped, &letter));
                Ok(*letter)
            }
            LetterContest::Lost(letter) => Err(Problem::of(&super::replay::lost_to(&letter))),
            LetterContest::Missing => Err(Problem::of(&LetterFault::Unknown { id })),
        }
    }
}
