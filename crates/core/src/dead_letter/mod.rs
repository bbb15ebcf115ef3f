//! Dead letters: accepted calls that failed, stored until they are replayed or dropped.
//!
//! A letter names its caller but stores none of the caller's rights: these are looked up when it is replayed.

mod fault;
mod rules;
#[cfg(test)]
mod tests;

pub use fault::LetterFault;
pub use rules::{SCHEDULE_SECONDS, deserves_letter, next_retry_ms, replaying_of};

use crate::audit::AuditEntry;
use crate::caller::IdentifiedBy;
use crate::names::ServerName;
use crate::words::words;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The maximum number of attempts a letter lists; older ones are dropped.
pub const MAX_ATTEMPTS: usize = 32;

words! {
    /// The state of a dead letter.
    pub enum LetterState ("state of a dead letter") {
        /// It is not being replayed.
        Pending = "pending",
        /// It is being replayed.
        Retrying = "retrying",
        /// A replay succeeded.
        Resolved = "resolved",
        /// It was dropped.
        Dropped = "dropped",
    }
}

words! {
    /// Who may replay a letter.
    pub enum ReplayMode ("way of replaying") {
        /// The gateway automatically, and people: repeating the call does no harm.
        Automatic = "automatic",
        /// People only.
        ByHand = "by_hand",
    }
}

/// One attempt at a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began.
    pub at_ms: i64,
    /// The provider it was sent to.
    pub provider: String,
    /// The code of the failure; `done` if it succeeded.
    pub code: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// An accepted call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id; a version 7 UUID, so that ids sort by time.
    pub id: Uuid,
    /// The call that failed first.
    pub call_id: Uuid,
    /// The caller's user. A replay runs as this user, regardless of who requests it.
    pub user: String,
    /// The caller's persona.
    pub persona: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The caller's compliance level.
    pub level: Option<String>,
    /// What identified the caller; unknown for letters of earlier versions.
    pub identified_by: Option<IdentifiedBy>,
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The name clients see.
    pub exposed: String,
    /// The provider of the last attempt.
    pub provider: String,
    /// The beginning of the caller's own arguments, with secrets masked.
    pub arguments_preview: String,
    /// The SHA-256 of those arguments.
    pub arguments_sha256: [u8; 32],
    /// The arguments, encrypted and bound to caller and tool; absent if they were too long to store.
    pub sealed: Option<String>,
    /// The code of the last failure.
    pub error_code: String,
    /// The message of the last failure.
    pub error_text: String,
    /// The attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// When it was created.
    pub created_ms: i64,
    /// When the gateway replays it automatically.
    pub next_retry_ms: Option<i64>,
    /// Its state.
    pub state: LetterState,
    /// Who may replay it.
    pub replaying: ReplayMode,
    /// Whether the tool may have run although no result was received.
    pub may_have_happened: bool,
    /// How often it was replayed.
    pub replays: u32,
    /// When it was resolved or dropped.
    pub ended_ms: Option<i64>,
}

/// A state transition of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterStep {
    /// A replay begins.
    Claim,
    /// A replay ended.
    Settle(Settlement),
    /// The letter is dropped.
    Drop,
    /// The gateway stopped during a replay.
    Interrupt {
        /// When the gateway retries automatically, if it may.
        next_retry_ms: i64,
    },
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The tool answered, or a person was asked: the letter is no longer needed.
    Resolved(Attempt),
    /// It failed again.
    Failed {
        /// The attempt.
        attempt: Attempt,
        /// The message of the failure.
        text: String,
        /// When the gateway retries automatically.
        next_retry_ms: Option<i64>,
        /// Whether the tool may have run nevertheless.
        may_have_happened: bool,
    },
}

impl DeadLetter {
    /// The letter after a transition at this time.
    pub fn step(&self, step: &LetterStep, at_ms: i64) -> Result<Self, LetterFault> {
        let id = self.id;
        let expected = match step {
            LetterStep::Claim | LetterStep::Drop => LetterState::Pending,
            LetterStep::Settle(_) | LetterStep::Interrupt { .. } => LetterState::Retrying,
        };
        if self.state != expected {
            return Err(match self.state {
                LetterState::Retrying => LetterFault::Retrying { id },
                LetterState::Pending => LetterFault::NotRetrying { id },
                state => LetterFault::Over { id, state },
            });
        }
        let mut next = self.clone();
        match step {
            LetterStep::Claim => {
                next.state = LetterState::Retrying;
                next.next_retry_ms = None;
                next.replays = next.replays.saturating_add(1);
            }
            LetterStep::Drop => next.end(LetterState::Dropped, at_ms),
            LetterStep::Interrupt { next_retry_ms } => {
                next.state = LetterState::Pending;
                match next.replaying {
                    ReplayMode::Automatic => next.next_retry_ms = Some(*next_retry_ms),
                    // It is unknown how far the call got.
                    ReplayMode::ByHand => next.may_have_happened = true,
                }
            }
            LetterStep::Settle(Settlement::Resolved(attempt)) => {
                next.note(attempt);
                next.end(LetterState::Resolved, at_ms);
            }
            LetterStep::Settle(Settlement::Failed { attempt, text, next_retry_ms, may_have_happened }) => {
                next.note(attempt);
                next.state = LetterState::Pending;
                next.error_code.clone_from(&attempt.code);
                next.error_text.clone_from(text);
                next.next_retry_ms = *next_retry_ms;
                // A later attempt that never left the gateway does not remove the doubt.
                next.may_have_happened |= may_have_happened;
            }
        }
        Ok(next)
    }

    fn end(&mut self, state: LetterState, at_ms: i64) {
        self.state = state;
        self.next_retry_ms = None;
        self.ended_ms = Some(at_ms);
        // A letter that is never replayed does not need its arguments.
        self.sealed = None;
    }

    fn note(&mut self, attempt: &Attempt) {
        self.provider.clone_from(&attempt.provider);
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt.clone());
    }

    /// The data its encrypted arguments are bound to: with another caller or tool they cannot be decrypted.
    pub fn binding(&self) -> Vec<u8> {
        let mut bound = b"toolbooth dead letter\0".to_vec();
        let persona = self.persona.as_deref().unwrap_or_default();
        for part in [self.user.as_str(), persona, self.server.as_str(), &self.tool] {
            bound.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bound.extend_from_slice(part.as_bytes());
        }
        bound.extend_from_slice(self.id.as_bytes());
        bound
    }

    /// An audit entry about the letter: its caller, the user who acted, and the outcome.
    pub fn audit_entry(&self, at_ms: i64, by: Option<&str>, outcome: &str) -> AuditEntry {
        AuditEntry {
            call_id: Some(self.id),
            by: by.map(Into::into),
            persona: self.persona.as_deref().map(Into::into),
            server: Some(self.server.shared()),
            tool: Some(self.tool.as_str().into()),
            arguments_preview: Some(self.arguments_preview.as_str().into()),
            arguments_sha256: Some(self.arguments_sha256),
            ..AuditEntry::new(at_ms, "dead_letter", &self.user, outcome)
        }
    }
}
