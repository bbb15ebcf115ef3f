//! What can be wrong with what is asked of a dead letter.

use super::LetterState;
use crate::fault::{Blame, Fault};
use uuid::Uuid;

/// A dead letter cannot be treated so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LetterFault {
    /// There is none of that id, or none for this caller.
    #[error("there is no dead letter {id}")]
    Unknown {
        /// The letter.
        id: Uuid,
    },
    /// Its call is being made.
    #[error("the call of dead letter {id} is being made already")]
    Retrying {
        /// The letter.
        id: Uuid,
    },
    /// Its call is not being made.
    #[error("the call of dead letter {id} is not being made")]
    NotRetrying {
        /// The letter.
        id: Uuid,
    },
    /// It is over.
    #[error("dead letter {id} is {state}")]
    Over {
        /// The letter.
        id: Uuid,
        /// Resolved or dropped.
        state: LetterState,
    },
    /// A second time may do harm.
    #[error("the call of dead letter {id} may have happened, and `{name}` changes something")]
    MayHaveHappened {
        /// The letter.
        id: Uuid,
        /// The tool.
        name: String,
    },
    /// The key that its arguments were encrypted with is gone.
    #[error("the arguments of dead letter {id} cannot be read: they were encrypted with another key")]
    KeyLost {
        /// The letter.
        id: Uuid,
    },
    /// Its arguments were too long.
    #[error("the arguments of dead letter {id} were too long to keep")]
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
            Self::Unknown { .. } => Some("`toolbooth dead-letters list --all` shows yours".into()),
            Self::MayHaveHappened { .. } => Some(
                "look at what it was to change; `--anyway` (REST: {\"anyway\": true}) makes the call".into(),
            ),
            Self::KeyLost { .. } => {
                Some("put `dead_letters.key`, or the store, back as it was, or make the call anew".into())
            }
            Self::NoCopy { .. } => Some("make the call anew".into()),
            Self::Retrying { .. } | Self::NotRetrying { .. } | Self::Over { .. } => None,
        }
    }
}
