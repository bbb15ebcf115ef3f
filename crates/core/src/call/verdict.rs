//! The verdict of a policy on a call.

use crate::answerer::Answerer;

/// A policy's verdict on a call, mildest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call may run.
    Run,
    /// A person must approve it first.
    Ask {
        /// The reason.
        reason: String,
        /// Who may answer.
        answerer: Answerer,
    },
    /// It is queued in a plan.
    Queue {
        /// The reason.
        reason: String,
    },
    /// It may not run.
    Refuse {
        /// The reason.
        reason: String,
    },
    /// The tool does not exist for this caller.
    Hide,
}

impl Verdict {
    /// The rank of the verdict; the highest wins.
    fn strictness(&self) -> u8 {
        match self {
            Self::Run => 0,
            Self::Ask { answerer: Answerer::CallerOrApprover, .. } => 1,
            Self::Ask { answerer: Answerer::InPerson, .. } => 2,
            Self::Ask { answerer: Answerer::ApproverOnly, .. } => 3,
            Self::Queue { .. } => 4,
            Self::Refuse { .. } => 5,
            Self::Hide => 6,
        }
    }

    /// Replaces this verdict with `other` if that is stricter.
    pub(super) fn tighten(&mut self, other: Self) {
        if other.strictness() > self.strictness() {
            *self = other;
        }
    }
}
