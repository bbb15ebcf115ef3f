//! Dead letters: calls that were accepted and came to nothing, kept until somebody makes them again.
//!
//! A letter names its caller and holds none of the caller's rights: these are looked up when it is replayed.

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

/// The most attempts a letter lists; of more, the oldest are forgotten.
pub const MAX_ATTEMPTS: usize = 32;

words! {
    /// Where a dead letter stands.
    pub enum LetterState ("state of a dead letter") {
        /// Nobody makes the call now.
        Pending = "pending",
        /// Somebody makes it.
        Retrying = "retrying",
        /// It was made, and answered.
        Resolved = "resolved",
        /// Somebody gave it up.
        Dropped = "dropped",
    }
}

words! {
    /// Who may have a letter's call made again.
    pub enum Replaying ("way of replaying") {
        /// The gateway, by itself, and people: making it twice does no harm.
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
    /// What was to serve it.
    pub provider: String,
    /// Why it failed; `done` where it did not.
    pub code: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// A call that was accepted and came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The letter; a version 7 id, so that ids sort by time.
    pub id: Uuid,
    /// The call that failed first.
    pub call_id: Uuid,
    /// Who called. Never anybody else, whoever has it made again.
    pub user: String,
    /// As which persona.
    pub persona: Option<String>,
    /// In which session.
    pub session: Option<String>,
    /// The level of data the caller had named.
    pub level: Option<String>,
    /// What the caller was identified by; unknown for letters of earlier versions.
    pub identified_by: Option<IdentifiedBy>,
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The name clients see.
    pub exposed: String,
    /// What was to serve the call last.
    pub provider: String,
    /// The beginning of the caller's own arguments, secrets masked.
    pub arguments_preview: String,
    /// The SHA-256 of those arguments.
    pub arguments_sha256: [u8; 32],
    /// The arguments, encrypted and bound to caller and tool; absent where they were too long to keep.
    pub sealed: Option<String>,
    /// The stable code of the last failure.
    pub error_code: String,
    /// The last failure in a sentence.
    pub error_text: String,
    /// What was tried, oldest first.
    pub attempts: Vec<Attempt>,
    /// When it was written.
    pub created_ms: i64,
    /// When the gateway makes the call again by itself.
    pub next_retry_ms: Option<i64>,
    /// Where it stands.
    pub state: LetterState,
    /// Who may have it made again.
    pub replaying: Replaying,
    /// Whether the tool may have done what it was asked, though nobody heard so.
    pub may_have_happened: bool,
    /// How often the call was made again.
    pub replays: u32,
    /// When it was resolved or dropped.
    pub ended_ms: Option<i64>,
}

/// What moves a letter on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterStep {
    /// Somebody makes the call again.
    Claim,
    /// The call that was made again is over.
    Settle(Settlement),
    /// Somebody gives it up.
    Drop,
    /// The gateway ended while the call was made again.
    Interrupt {
        /// When the gateway tries again by itself, where it may.
        next_retry_ms: i64,
    },
}

/// How a call that was made again ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// The tool answered, or a person was asked: it is off our hands.
    Resolved(Attempt),
    /// It came to nothing once more.
    Failed {
        /// What was tried.
        attempt: Attempt,
        /// Why it failed, in a sentence.
        text: String,
        /// When the gateway tries again by itself.
        next_retry_ms: Option<i64>,
        /// Whether the tool may have done it all the same.
        may_have_happened: bool,
    },
}

impl Letter {
    /// The letter after a step at this time.
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
                    Replaying::Automatic => next.next_retry_ms = Some(*next_retry_ms),
                    // Nobody knows how far it came.
                    Replaying::ByHand => next.may_have_happened = true,
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
                // A doubt is not removed by a later attempt that never left the gateway.
                next.may_have_happened |= may_have_happened;
            }
        }
        Ok(next)
    }

    fn end(&mut self, state: LetterState, at_ms: i64) {
        self.state = state;
        self.next_retry_ms = None;
        self.ended_ms = Some(at_ms);
        // What is never made again need not be kept.
        self.sealed = None;
    }

    fn note(&mut self, attempt: &Attempt) {
        self.provider.clone_from(&attempt.provider);
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt.clone());
    }

    /// What its sealed arguments are bound to: with another caller or tool they do not open.
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

    /// An audit entry about it: whose call it is, who had something done to it, and what.
    pub fn trace(&self, at_ms: i64, by: Option<&str>, outcome: &str) -> AuditEntry {
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
