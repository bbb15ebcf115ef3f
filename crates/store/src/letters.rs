//! Filters, limits and rules for dead letters, shared by all backends.

use crate::StoreError;
use crate::limits::{long_text, optional, size, text};
use async_trait::async_trait;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::dead_letter::{DeadLetter, LetterState, LetterStep};
use uuid::Uuid;

/// The most open letters. A further one is refused, because an open letter is never dropped to make room.
pub const MAX_OPEN_LETTERS: usize = 10_000;
/// The most open letters of one user.
pub const MAX_OPEN_LETTERS_OF_USER: usize = 1_000;
/// The most letters in all; beyond it, the oldest ended letters are deleted.
pub const MAX_LETTERS: u32 = 20_000;
/// The most letters in one page.
pub const MAX_LETTERS_PAGE: u32 = 1_000;
/// The most bytes the sealed arguments of a letter may have.
pub const MAX_SEALED_BYTES: usize = 512 << 10;
/// How long ended letters are kept.
pub const ENDED_LETTER_MS: i64 = 7 * 24 * 3_600_000;
/// How long pending letters are kept.
pub const OPEN_LETTER_MS: i64 = 30 * 24 * 3_600_000;
/// The most letters that one sweep changes.
pub(crate) const SWEEP: usize = 500;

/// The result of a compare-and-set on a letter: of several attempts at the same step, one at most wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LetterUpdate {
    /// This attempt changed the letter; the letter after the change.
    Won(Box<DeadLetter>),
    /// Another attempt came first; the letter as it is.
    Lost(Box<DeadLetter>),
    /// The letter does not exist.
    #[default]
    Missing,
}

/// Selects letters; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LetterFilter {
    /// Letters of this user.
    pub user: Option<String>,
    /// Letters in one of these states; empty means any state.
    pub states: Vec<LetterState>,
    /// Letters of a tool with this name: the name that clients see, or the server's own.
    pub tool: Option<String>,
    /// Letters that were written before this one.
    pub before: Option<Uuid>,
    /// The page size; at most `MAX_LETTERS_PAGE`.
    pub limit: Option<u32>,
}

impl LetterFilter {
    /// The page size.
    pub(crate) fn page_size(&self) -> u32 {
        self.limit.unwrap_or(MAX_LETTERS_PAGE).min(MAX_LETTERS_PAGE)
    }
}

/// Stores dead letters. As everywhere in the store, a write that has returned survives kill -9.
#[async_trait]
pub trait LetterStore: Send + Sync {
    /// Adds a letter. Adding it twice is allowed; a different letter with its id is a conflict.
    async fn add_letter(&self, letter: DeadLetter) -> Result<(), StoreError>;

    /// Returns a letter.
    async fn letter(&self, id: Uuid) -> Result<Option<DeadLetter>, StoreError>;

    /// Returns a page of letters, newest first, without their sealed arguments; pass the last one as `before` to get
    /// the next page.
    async fn letters(&self, filter: LetterFilter) -> Result<Vec<DeadLetter>, StoreError>;

    /// Returns letters whose retry is due, the longest overdue first, with their sealed arguments.
    async fn due_letters(&self, now_ms: i64, limit: u32) -> Result<Vec<DeadLetter>, StoreError>;

    /// Returns the time at which the next retry is due.
    async fn next_letter_ms(&self) -> Result<Option<i64>, StoreError>;

    /// Applies a step to a letter if its state allows the step: of two concurrent attempts, one wins. The winner's
    /// audit entry is written in the same transaction.
    async fn move_letter(
        &self,
        id: Uuid,
        step: LetterStep,
        at_ms: i64,
        audit: Option<AuditEntry>,
    ) -> Result<LetterUpdate, StoreError>;

    /// Makes every letter pending again whose replay was interrupted, with audit entries. Called when a gateway starts.
    async fn interrupted_letters(
        &self,
        at_ms: i64,
        next_retry_ms: i64,
    ) -> Result<Vec<DeadLetter>, StoreError>;
}

/// Checks that one more letter may be added to the open ones.
pub(crate) fn check_room(all: usize, of_user: usize) -> Result<(), StoreError> {
    match all >= MAX_OPEN_LETTERS || of_user >= MAX_OPEN_LETTERS_OF_USER {
        true => Err(StoreError::Full { what: "dead letters" }),
        false => Ok(()),
    }
}

pub(crate) fn check_letter(letter: &DeadLetter) -> Result<(), StoreError> {
    text("user", &letter.user)?;
    optional("persona", letter.persona.as_deref())?;
    optional("session", letter.session.as_deref())?;
    text("tool", &letter.tool)?;
    text("exposed", &letter.exposed)?;
    text("provider", &letter.provider)?;
    long_text("arguments_preview", &letter.arguments_preview)?;
    text("error_code", &letter.error_code)?;
    long_text("error_text", &letter.error_text)?;
    size("sealed", letter.sealed.as_deref().map_or(0, str::len), 0, MAX_SEALED_BYTES)?;
    match (letter.state, letter.ended_ms) {
        (LetterState::Pending, None) => Ok(()),
        _ => Err(StoreError::Unfit { field: "state", expected: "a pending letter".into() }),
    }
}

/// Applies a step to a letter.
pub(crate) fn apply(letter: DeadLetter, step: &LetterStep, at_ms: i64) -> LetterUpdate {
    match letter.step(step, at_ms) {
        Ok(moved) => LetterUpdate::Won(moved.into()),
        Err(_) => LetterUpdate::Lost(letter.into()),
    }
}
