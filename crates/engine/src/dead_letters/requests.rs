//! Requests about dead letters: users manage their own, administrators all of them.

use super::{DeadLetters, ReplayedCall};
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::dead_letter::{DeadLetter, LetterFault, LetterState, LetterStep};
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_store::{LetterFilter, LetterUpdate};
use uuid::Uuid;

/// Whether to replay a call that may already have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayAnyway {
    /// Do not replay it.
    No,
    /// Replay it.
    Yes,
}

impl DeadLetters {
    /// The letters that a caller may see, newest first.
    pub async fn list(&self, caller: &Caller, mut filter: LetterFilter) -> Result<Vec<DeadLetter>, Problem> {
        if caller.admin == Admin::No {
            filter.user = Some(caller.user.to_string());
        }
        self.store.letters(filter).await.map_err(|error| Problem::of(&error))
    }

    /// A letter. One that the caller may not see is reported as unknown.
    pub async fn get(&self, caller: &Caller, id: Uuid) -> Result<DeadLetter, Problem> {
        let found = self.store.letter(id).await.map_err(|error| Problem::of(&error))?;
        let visible = |letter: &DeadLetter| on_owned_work(caller, &letter.user) == Permission::Granted;
        found.filter(visible).ok_or_else(|| Problem::of(&LetterFault::Unknown { id }))
    }

    /// Replays a letter as its original caller, at the request of that caller or of an administrator.
    pub async fn replay(
        self: &Arc<Self>,
        by: &Caller,
        id: Uuid,
        anyway: ReplayAnyway,
    ) -> Result<ReplayedCall, Problem> {
        let letter = self.get(by, id).await?;
        let is_open = matches!(letter.state, LetterState::Pending | LetterState::Retrying);
        if is_open && letter.may_have_happened && anyway == ReplayAnyway::No {
            let fault = LetterFault::MayHaveHappened { id, name: letter.exposed };
            return Err(Problem::of(&fault));
        }
        if !is_open {
            return Err(Problem::of(&LetterFault::Over { id, state: letter.state }));
        }
        self.replay_now(letter, Some(by)).await
    }

    /// Discards a letter.
    pub async fn discard(&self, by: &Caller, id: Uuid) -> Result<DeadLetter, Problem> {
        let letter = self.get(by, id).await?;
        let at_ms = self.clock.now_ms();
        let audit = letter.audit_entry(at_ms, Some(&by.user), "dropped");
        let dropped = self.store.move_letter(id, LetterStep::Drop, at_ms, Some(audit)).await;
        match dropped.map_err(|error| Problem::of(&error))? {
            LetterUpdate::Won(letter) => {
                self.events.emit(super::letter_event(EventKind::DeadLetterDropped, &letter));
                Ok(*letter)
            }
            LetterUpdate::Lost(letter) => Err(Problem::of(&super::replay::lost_to(&letter))),
            LetterUpdate::Missing => Err(Problem::of(&LetterFault::Unknown { id })),
        }
    }
}
