//! What is asked of held calls and plans, and the rules that every backend keeps.

use crate::StoreError;
use crate::limits::{MAX_HELD_PAGE_BYTES, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER};
use toolbooth_core::held::{HeldCall, HeldFault, HeldKind, HeldOutcome, HeldState};
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use uuid::Uuid;

/// What came of an attempt to move a held call on, of which one at most succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Contest {
    /// This attempt did it; the call as it is now.
    Won(HeldCall),
    /// Somebody else was faster, or it was too late; the call as it is.
    Lost(HeldCall),
    /// There is no such held call.
    #[default]
    Missing,
}

/// What came of an answer.
pub type Decided = Contest;
/// What came of a claim.
pub type Claimed = Contest;
/// What came of an end.
pub type Finished = Contest;

/// Which held calls are asked for; everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldFilter {
    /// Of this user.
    pub user: Option<String>,
    /// Held for this reason.
    pub kind: Option<HeldKind>,
    /// In one of these states; none given means any.
    pub states: Vec<HeldState>,
    /// Steps of this plan.
    pub plan: Option<Uuid>,
    /// Of this tool with these arguments.
    pub call: Option<SameCall>,
    /// Held before this one.
    pub before: Option<Uuid>,
    /// At most so many; `MAX_HELD_PAGE` at the most.
    pub limit: Option<u32>,
}

/// What makes two held calls ask for the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameCall {
    /// The server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The SHA-256 of the arguments.
    pub arguments_sha256: [u8; 32],
}

/// What moves a held call on.
#[derive(Debug)]
pub(crate) enum Step {
    Decide(toolbooth_core::held::Decision),
    Claim { at_ms: i64 },
    Finish(HeldOutcome),
}

impl Step {
    /// The call after this step, or how the attempt was lost.
    pub(crate) fn apply(self, call: HeldCall) -> Contest {
        let at_ms = match &self {
            Self::Decide(decision) => decision.at_ms,
            Self::Claim { at_ms } => *at_ms,
            Self::Finish(outcome) => outcome.at_ms,
        };
        let moved: Result<HeldCall, HeldFault> = match self {
            Self::Decide(decision) => call.decide(&decision),
            Self::Claim { at_ms } => call.claim(at_ms),
            Self::Finish(outcome) => call.finish(outcome),
        };
        match moved {
            Ok(call) => Contest::Won(call),
            // The row is left to the sweep, which tells everybody; the loser sees what it will be.
            Err(_) => Contest::Lost(call.expire(at_ms).unwrap_or(call)),
        }
    }
}

/// What there is too much of when no more calls can be held at all.
pub const HELD: &str = "held calls";
/// What there is too much of when a user has their share of held calls.
pub const HELD_OF_USER: &str = "held calls of one user";

/// How many calls are open, in all and of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenCount {
    pub(crate) all: usize,
    pub(crate) of_user: usize,
}

impl OpenCount {
    /// Whether one more may be held. One user cannot take all the room.
    pub(crate) fn check(self) -> Result<(), StoreError> {
        if self.all >= MAX_OPEN_HELD {
            return Err(StoreError::Full { what: HELD });
        }
        if self.of_user >= MAX_OPEN_HELD_OF_USER {
            return Err(StoreError::Full { what: HELD_OF_USER });
        }
        Ok(())
    }
}

/// Room on one page of a list: arguments can be long, and a list must fit into memory.
#[derive(Debug, Default)]
pub(crate) struct Page {
    bytes: usize,
    pub(crate) calls: Vec<HeldCall>,
}

impl Page {
    /// Adds a call while there is room; says whether there was.
    #[must_use]
    pub(crate) fn add(&mut self, call: HeldCall) -> bool {
        self.bytes += call.arguments.as_bytes().len();
        self.bytes += call.edited.as_ref().map_or(0, |edited| edited.as_bytes().len());
        let fits = self.calls.is_empty() || self.bytes <= MAX_HELD_PAGE_BYTES;
        if fits {
            self.calls.push(call);
        }
        fits
    }
}

/// The plan that a call falls under: the narrowest of those that cover it, the newest of equals.
pub(crate) fn narrowest<'a>(
    newest_first: impl Iterator<Item = &'a Plan>,
    user: &str,
    persona: Option<&str>,
    session: Option<&str>,
) -> Option<&'a Plan> {
    let covering: Vec<_> = newest_first.filter(|plan| plan.covers(user, persona, session)).collect();
    // `max_by_key` takes the last of equals.
    covering.into_iter().rev().max_by_key(|plan| (plan.session.is_some(), plan.persona.is_some()))
}
