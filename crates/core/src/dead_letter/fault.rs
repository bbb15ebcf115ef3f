//! Errors of dead-letter requests.

use super::LetterState;
use crate::fault::{Blame, Fault};
use uuid::Uuid;

/// A request about a dead letter failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LetterFault {
    /// There is no such letter, or the caller may not see it.
    #[error("there is no dead letter {id}")]
    Unknown {
        /// The letter.
        id: Uuid,
    },
    /// It is being replayed.
    #[error("dead letter {id} is already being replayed")]
    Retrying {
        /// The letter.
        id: Uuid,
    },
    /// It is not being replayed.
    #[error("dead letter {id} is not being replayed")]
    NotRetrying {
        /// The letter.
        id: Uuid,
    },
    /// It is already resolved or dropped.
    #[error("dead letter {id} is {state}")]
    Over {
        /// The letter.
        id: Uuid,
        /// Resolved or dropped.
        state: LetterState,
    },
    /// A replay may do harm.
    #[error("the call of dead letter {id} may have happened, and `{name}` changes data")]
    MayHaveHappened {
        /// The letter.
        id: Uuid,
        /// The tool.
        name: String,
    },
    /// The key that encrypted its arguments is lost.
    #[error("the arguments of dead letter {id} cannot be read: they were encrypted with another key")]
    KeyLost {
        /// The letter.
        id: Uuid,
    },
    /// Its arguments were too long to store.
    #[error("the arguments of dead letter {id} were too long to store")]
    NoCopy {
        /// The letter.
        id: Uuid,
    },
}

impl Fault for LetterFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "dead-letter.unknown",
            Self::Retrying { .. } => "dead-letter.retrying",
            Self::NotRetrying { .. } => "dead-letter.not-retrying",
            Self::Over { .. } => "dead-letter.over",
            Self::MayHaveHappened { .. } => "dead-letter.may-have-happened",
            Self::KeyLost { .. } => "dead-letter.key-lost",
            Self::NoCopy { .. } => "dead-letter.no-copy",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::KeyLost { .. } => Blame::Gateway,
            _ => Blame::Caller,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { .. } => Some("`toolbooth dead-letters list --all` lists yours".into()),
            Self::MayHaveHappened { .. } => Some(
                "check what it was meant to change; `--anyway` (REST: {\"anyway\": true}) replays it".into(),
            ),
            Self::KeyLost { .. } => {
                Some("restore `dead_letters.key` or the store, or make the call again".into())
            }
            Self::NoCopy { .. } => Some("make the call again".into()),
            Self::Retrying { .. } | Self::NotRetrying { .. } | Self::Over { .. } => None,
        }
    }
}
