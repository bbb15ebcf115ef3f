//! Filters and rules for held calls and plans, shared by all backends.

use crate::StoreError;
use crate::limits::{MAX_HELD_PAGE_BYTES, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER};
use toolbooth_core::held::{HeldCall, HeldFault, HeldKind, HeldOutcome, HeldState};
use toolbooth_core::names::ServerName;
use toolbooth_core::plan::Plan;
use uuid::Uuid;

/// The result of a compare-and-set on a held call: of several attempts at the same step, one at most wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HeldUpdate {
    /// This attempt changed the call; the call after the change.
    Won(HeldCall),
    /// Another attempt came first, or the call has expired; the call as it is.
    Lost(HeldCall),
    /// The held call does not exist.
    #[default]
    Missing,
}

/// Selects held calls; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldFilter {
    /// Calls of this user.
    pub user: Option<String>,
    /// Calls that were held for this reason.
    pub kind: Option<HeldKind>,
    /// Calls in one of these states; empty means any state.
    pub states: Vec<HeldState>,
    /// Steps of this plan.
    pub plan: Option<Uuid>,
    /// Calls of this tool with these arguments.
    pub call: Option<SameCall>,
    /// Calls that belong to this call or run.
    pub of_call: Option<Uuid>,
    /// Calls that were held before this one.
    pub before: Option<Uuid>,
    /// The page size; at most `MAX_HELD_PAGE`.
    pub limit: Option<u32>,
}

/// The fields by which two held calls are the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SameCall {
    /// The server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The SHA-256 of the arguments.
    pub arguments_sha256: [u8; 32],
}

/// A state change of a held call.
#[derive(Debug, Clone)]
pub(crate) enum HeldStep {
    Decide(toolbooth_core::held::Decision),
    Claim { at_ms: i64 },
    Finish(HeldOutcome),
}

impl HeldStep {
    /// Applies this step to a call.
    pub(crate) fn apply(self, call: HeldCall) -> HeldUpdate {
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
            Ok(call) => HeldUpdate::Won(call),
            // The sweep expires the row and notifies clients; the loser already sees the expired state.
            Err(_) => HeldUpdate::Lost(call.expire(at_ms).unwrap_or(call)),
        }
    }
}

/// The `what` of `store.full` if the total number of held calls is at its limit.
pub const HELD: &str = "held calls";
/// The `what` of `store.full` if one user's number of held calls is at its limit.
pub const HELD_OF_USER: &str = "held calls of one user";

/// The number of open held calls, in total and of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenCount {
    pub(crate) all: usize,
    pub(crate) of_user: usize,
}

impl OpenCount {
    /// Checks that one more call may be held. The limit per user keeps one user from using up the total.
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

/// One page of held calls, limited in bytes because arguments can be long.
#[derive(Debug, Default)]
pub(crate) struct HeldPage {
    bytes: usize,
    pub(crate) calls: Vec<HeldCall>,
}

impl HeldPage {
    /// Adds a call if it fits; returns whether it did.
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

/// Returns the plan with the narrowest scope that covers a call; the newest of several equal ones.
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
