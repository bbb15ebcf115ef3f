//! Dead letters: what is asked of them, and the rules that every backend keeps.

use crate::StoreError;
use crate::limits::{long_text, optional, size, text};
use async_trait::async_trait;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::dead_letter::{Letter, LetterState, LetterStep};
use uuid::Uuid;

/// The most letters that may wait at once; a further one is refused, as what was promised is not let go.
pub const MAX_OPEN_LETTERS: usize = 10_000;
/// The most of them one user may have.
pub const MAX_OPEN_LETTERS_OF_USER: usize = 1_000;
/// Of more letters than this, the oldest that are over are dropped.
pub const MAX_LETTERS: u32 = 20_000;
/// The most letters one reading returns.
pub const MAX_LETTERS_PAGE: u32 = 1_000;
/// The most bytes the sealed arguments of a letter may have.
pub const MAX_SEALED_BYTES: usize = 512 << 10;
/// How long letters that are over are kept.
pub const ENDED_LETTER_MS: i64 = 7 * 24 * 3_600_000;
/// How long letters that nobody cared for are kept.
pub const OPEN_LETTER_MS: i64 = 30 * 24 * 3_600_000;
/// The most letters that one sweep moves on.
pub(crate) const SWEEP: usize = 500;

/// What came of an attempt to move a letter on, of which one at most succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LetterContest {
    /// This attempt did it; the letter as it is now.
    Won(Box<Letter>),
    /// Somebody else was faster, or it was too late; the letter as it is.
    Lost(Box<Letter>),
    /// There is no such letter.
    #[default]
    Missing,
}

/// Which letters are asked for; everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LetterFilter {
    /// Of this user.
    pub user: Option<String>,
    /// In one of these states; none given means any.
    pub states: Vec<LetterState>,
    /// Of a tool by this name: the one clients see, or the server's own.
    pub tool: Option<String>,
    /// Written before this one.
    pub before: Option<Uuid>,
    /// At most so many; `MAX_LETTERS_PAGE` at the most.
    pub limit: Option<u32>,
}

impl LetterFilter {
    /// How many are returned.
    pub(crate) fn most(&self) -> u32 {
        self.limit.unwrap_or(MAX_LETTERS_PAGE).min(MAX_LETTERS_PAGE)
    }
}

/// Keeps dead letters. As everywhere in the store: what has returned survives kill -9.
#[async_trait]
pub trait LetterStore: Send + Sync {
    /// Keeps a letter; the same again is fine, another under its id is a conflict.
    async fn add_letter(&self, letter: Letter) -> Result<(), StoreError>;

    /// A letter.
    async fn letter(&self, id: Uuid) -> Result<Option<Letter>, StoreError>;

    /// Letters, newest first, without their sealed arguments; the next page begins `before` the last.
    async fn letters(&self, filter: LetterFilter) -> Result<Vec<Letter>, StoreError>;

    /// Letters whose time to be made again has come, the longest overdue first; with their sealed arguments.
    async fn due_letters(&self, now_ms: i64, limit: u32) -> Result<Vec<Letter>, StoreError>;

    /// When the next letter is due.
    async fn next_letter_ms(&self) -> Result<Option<i64>, StoreError>;

    /// Moves a letter on, if it stands where the step begins: of two who try, one wins. The winner's audit
    /// entry is written with the step or not at all.
    async fn move_letter(
        &self,
        id: Uuid,
        step: LetterStep,
        at_ms: i64,
        audit: Option<AuditEntry>,
    ) -> Result<LetterContest, StoreError>;

    /// Puts back every letter whose call was being made, with audit entries; for the start of a gateway.
    async fn interrupted_letters(&self, at_ms: i64, next_retry_ms: i64) -> Result<Vec<Letter>, StoreError>;
}

/// Whether a letter may be added beside those that wait.
pub(crate) fn check_room(all: usize, of_user: usize) -> Result<(), StoreError> {
    match all >= MAX_OPEN_LETTERS || of_user >= MAX_OPEN_LETTERS_OF_USER {
        true => Err(StoreError::Full { what: "dead letters" }),
        false => Ok(()),
    }
}

pub(crate) fn check_letter(letter: &Letter) -> Result<(), StoreError> {
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
        _ => Err(StoreError::Unfit { field: "state", expected: "a letter that waits".into() }),
    }
}

/// The letter after a step, or how the attempt was lost.
pub(crate) fn apply(letter: Letter, step: &LetterStep, at_ms: i64) -> LetterContest {
    match letter.step(step, at_ms) {
        Ok(moved) => LetterContest::Won(moved.into()),
        Err(_) => LetterContest::Lost(letter.into()),
    }
}
