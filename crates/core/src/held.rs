//! Held calls: calls that wait for a person, and their state transitions.

use crate::audit::AuditEntry;
use crate::caller::{Caller, IdentifiedBy};
use crate::fault::{Blame, Fault};
use crate::json::{Member, RawJson};
use crate::names::ServerName;
use crate::outcome::OutcomeKind;
use crate::plan::PlanStep;
use crate::words::words;
use uuid::Uuid;

pub use crate::answerer::Answerer;

/// The beginning of the note of a call that was withdrawn, which tells it from one that a person rejected.
const WITHDRAWN: &str = "withdrawn: ";

words! {
    /// Why a call is held.
    pub enum HeldKind ("kind of held call") {
        /// A person must approve it before it runs.
        Approval = "approval",
        /// It is a step of a plan.
        Plan = "plan",
    }
}

words! {
    /// The state of a held call.
    pub enum HeldState ("state of a held call") {
        /// It has not been answered.
        Pending = "pending",
        /// It was approved; it may run, or is running.
        Approved = "approved",
        /// It was rejected.
        Rejected = "rejected",
        /// It was not answered in time.
        Expired = "expired",
        /// It ran, and the tool returned a result.
        Done = "done",
        /// It ran and failed, or its outcome is unknown.
        Failed = "failed",
    }
}

words! {
    /// How long an approval is remembered.
    pub enum Remember ("span of memory") {
        /// For this call only.
        Once = "once",
        /// For the caller's session.
        Session = "session",
        /// Until it expires or is revoked.
        Always = "always",
    }
}

/// Whether a user may answer for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsApprover {
    /// They may.
    Yes,
    /// They may only answer for themselves.
    No,
}

/// The call or the step of a run that a held call belongs to. If that is cancelled, the held call is withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOrigin {
    /// The id of the call; for a step, the id of its run.
    pub call: Uuid,
    /// The step of a job or skill, with the part of the run that it is in. Each step has a held call of its own.
    pub step: Option<String>,
}

/// A call that waits for a person. Its caller's rights are looked up again when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    /// Its id; a version 7 UUID, so that ids sort by time.
    pub id: Uuid,
    /// Why it is held.
    pub kind: HeldKind,
    /// The caller's user.
    pub user: String,
    /// The caller's persona.
    pub persona: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The caller's compliance level.
    pub level: Option<String>,
    /// What identified the caller; unknown for calls held by earlier versions.
    pub identified_by: Option<IdentifiedBy>,
    /// The client's name.
    pub client: String,
    /// What it belongs to; unknown for calls held by earlier versions, and for steps of plans.
    pub origin: Option<HeldOrigin>,
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The name the caller used.
    pub exposed: String,
    /// The digest of the tool's definition when it was called; an approval covers only that version.
    pub digest: [u8; 32],
    /// The public arguments, without injected ones.
    pub arguments: RawJson,
    /// The SHA-256 of those arguments.
    pub arguments_sha256: [u8; 32],
    /// The reason why a person is asked.
    pub question: String,
    /// Who may answer.
    pub answerer: Answerer,
    /// When it was held.
    pub created_ms: i64,
    /// When the question expires; steps of a plan never expire.
    pub expires_ms: Option<i64>,
    /// Its state.
    pub state: HeldState,
    /// Who answered.
    pub decided_by: Option<String>,
    /// When it was answered or expired.
    pub decided_ms: Option<i64>,
    /// The reason given.
    pub decision_note: Option<String>,
    /// The arguments to run with, if the approver changed them.
    pub edited: Option<RawJson>,
    /// How long the approval is remembered.
    pub remember: Option<Remember>,
    /// When the approval was claimed to run it.
    pub claimed_ms: Option<i64>,
    /// How it ended.
    pub outcome: Option<HeldOutcome>,
    /// Its position in a plan.
    pub plan: Option<PlanStep>,
}

/// The outcome of a held call that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOutcome {
    /// The time.
    pub at_ms: i64,
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The code of the fault, if any.
    pub code: Option<String>,
    /// The result for the caller; absent if it was too large to store.
    pub result: Option<RawJson>,
}

/// A person's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Approve or reject.
    pub verdict: HeldVerdict,
    /// Who decided.
    pub by: String,
    /// The time.
    pub at_ms: i64,
    /// The reason given.
    pub note: Option<String>,
}

/// Approve or reject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldVerdict {
    /// It may run.
    Approve {
        /// Other arguments to run with; equal ones do not count as an edit.
        arguments: Option<RawJson>,
        /// How long to remember it.
        remember: Option<Remember>,
    },
    /// It may not run.
    Reject,
    /// Its call or its run was cancelled: it may not run, even if it was approved and has not started.
    Withdraw,
}

/// An invalid transition of a held call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldFault {
    /// It was already answered.
    #[error("held call {id} was already {state} by {by}")]
    Decided {
        /// The held call.
        id: Uuid,
        /// Approved or rejected.
        state: HeldState,
        /// Who answered.
        by: String,
    },
    /// Its call or its run was cancelled.
    #[error("held call {id} was withdrawn by {by}: {reason}")]
    Withdrawn {
        /// The held call.
        id: Uuid,
        /// Who cancelled.
        by: String,
        /// What was cancelled.
        reason: String,
    },
    /// It was not answered in time.
    #[error("held call {id} expired before it was answered")]
    Expired {
        /// The held call.
        id: Uuid,
    },
    /// It is pending and has not expired.
    #[error("held call {id} has not expired")]
    NotExpired {
        /// The held call.
        id: Uuid,
    },
    /// The limit of waiting calls is reached.
    #[error("the call was not held: the limit of {limit} waiting calls {whose} is reached")]
    Full {
        /// The limit.
        limit: usize,
        /// The scope of the limit: `per user` or `in total`.
        whose: &'static str,
    },
    /// The answer cannot be remembered.
    #[error("held call {id} needs a decision every time, so an answer cannot be remembered")]
    NotRemembered {
        /// The held call.
        id: Uuid,
    },
    /// It is not approved.
    #[error("held call {id} is {state}, not approved")]
    NotApproved {
        /// The held call.
        id: Uuid,
        /// Its state.
        state: HeldState,
    },
    /// It runs, or has run.
    #[error("held call {id} was already run")]
    Claimed {
        /// The held call.
        id: Uuid,
    },
    /// An outcome was reported for a call that does not run.
    #[error("held call {id} is not running")]
    NotRunning {
        /// The held call.
        id: Uuid,
    },
}

impl Fault for HeldFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Decided { .. } | Self::Withdrawn { .. } => "call.already-decided",
            Self::Expired { .. } => "call.answer-too-late",
            Self::NotExpired { .. } => "call.not-expired",
            Self::NotApproved { .. } => "call.not-approved",
            Self::Full { .. } => "call.too-many-held",
            Self::NotRemembered { .. } => "approval.not-remembered",
            Self::Claimed { .. } => "call.already-run",
            Self::NotRunning { .. } => "call.not-running",
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::Decided { .. }
            | Self::Withdrawn { .. }
            | Self::Expired { .. }
            | Self::NotApproved { .. }
            | Self::Full { .. }
            | Self::NotRemembered { .. } => Blame::Caller,
            Self::NotExpired { .. } | Self::Claimed { .. } | Self::NotRunning { .. } => Blame::Gateway,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Expired { .. } => Some("make the call again".into()),
            Self::Full { .. } => Some(
                "answer or reject some (`toolbooth approvals`), or wait until they expire, then call again"
                    .into(),
            ),
            Self::NotRemembered { .. } => Some("omit `remember`, or set it to `once`".into()),
            _ => None,
        }
    }
}

impl HeldCall {
    /// The arguments to run with.
    pub fn final_arguments(&self) -> &RawJson {
        self.edited.as_ref().unwrap_or(&self.arguments)
    }

    /// The run that it is a step of.
    pub fn run(&self) -> Option<Uuid> {
        self.origin.as_ref().filter(|origin| origin.step.is_some()).map(|origin| origin.call)
    }

    /// The step of a run that it is.
    pub fn step(&self) -> Option<&str> {
        self.origin.as_ref()?.step.as_deref()
    }

    /// Why it was withdrawn, if its call or its run was cancelled.
    pub fn withdrawn(&self) -> Option<&str> {
        let note = self.decision_note.as_deref().filter(|_| self.state == HeldState::Rejected)?;
        note.strip_prefix(WITHDRAWN)
    }

    /// Whether a caller may approve it: never the one who called it if the question asks for another person.
    pub fn may_be_approved_by(&self, caller: &Caller, is_approver: IsApprover) -> bool {
        let own = self.user == *caller.user;
        match self.answerer {
            Answerer::CallerOrApprover | Answerer::InPerson => own || is_approver == IsApprover::Yes,
            Answerer::ApproverOnly => !own && is_approver == IsApprover::Yes,
        }
    }

    /// Whether it has expired at `now_ms`.
    pub fn is_overdue(&self, now_ms: i64) -> bool {
        self.state == HeldState::Pending && self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Pending, in time -> approved or rejected. A withdrawal also rejects a call that was approved and is not claimed.
    pub fn decide(&self, decision: &Decision) -> Result<Self, HeldFault> {
        let is_unclaimed = self.state == HeldState::Approved && self.claimed_ms.is_none();
        let takes_back_approval = is_unclaimed && decision.verdict == HeldVerdict::Withdraw;
        if !takes_back_approval {
            self.check_undecided()?;
        }
        if self.is_overdue(decision.at_ms) {
            return Err(HeldFault::Expired { id: self.id });
        }
        let mut decided = self.clone();
        decided.decided_by = Some(decision.by.clone());
        decided.decided_ms = Some(decision.at_ms);
        decided.decision_note = decision.note.clone();
        match &decision.verdict {
            HeldVerdict::Reject => decided.state = HeldState::Rejected,
            HeldVerdict::Withdraw => {
                decided.state = HeldState::Rejected;
                let reason = decision.note.as_deref().unwrap_or_default();
                decided.decision_note = Some(format!("{WITHDRAWN}{reason}"));
            }
            HeldVerdict::Approve { arguments, remember } => {
                decided.state = HeldState::Approved;
                decided.edited =
                    arguments.clone().filter(|arguments| !same_value(arguments, &self.arguments));
                decided.remember = *remember;
            }
        }
        Ok(decided)
    }

    /// Pending, too late -> expired.
    pub fn expire(&self, now_ms: i64) -> Result<Self, HeldFault> {
        self.check_undecided()?;
        if !self.is_overdue(now_ms) {
            return Err(HeldFault::NotExpired { id: self.id });
        }
        Ok(Self { state: HeldState::Expired, decided_ms: Some(now_ms), ..self.clone() })
    }

    /// Approved -> approved and claimed. This gives the approval to run it, once.
    pub fn claim(&self, at_ms: i64) -> Result<Self, HeldFault> {
        if self.claimed_ms.is_some() {
            return Err(HeldFault::Claimed { id: self.id });
        }
        if self.state != HeldState::Approved {
            return Err(HeldFault::NotApproved { id: self.id, state: self.state });
        }
        Ok(Self { claimed_ms: Some(at_ms), ..self.clone() })
    }

    /// Claimed -> done or failed.
    pub fn finish(&self, outcome: HeldOutcome) -> Result<Self, HeldFault> {
        if self.state != HeldState::Approved || self.claimed_ms.is_none() {
            return Err(HeldFault::NotRunning { id: self.id });
        }
        let state = if outcome.kind == OutcomeKind::Done { HeldState::Done } else { HeldState::Failed };
        Ok(Self { state, outcome: Some(outcome), ..self.clone() })
    }

    /// Claimed -> failed, because the gateway that ran it stopped: it may or may not have happened.
    pub fn interrupt(&self, at_ms: i64) -> Result<Self, HeldFault> {
        self.finish(HeldOutcome { at_ms, kind: OutcomeKind::Unknown, code: None, result: None })
    }

    /// The audit entry of a transition without a person: it expired or was interrupted. The call that ran has an
    /// entry of its own.
    pub fn audit_entry(&self, at_ms: i64) -> AuditEntry {
        let outcome = self.outcome.as_ref().map_or(self.state.as_str(), |outcome| outcome.kind.as_str());
        AuditEntry {
            call_id: Some(self.id),
            persona: self.persona.as_deref().map(Into::into),
            client: Some(self.client.as_str().into()),
            server: Some(self.server.as_str().into()),
            tool: Some(self.tool.as_str().into()),
            arguments_sha256: Some(self.arguments_sha256),
            ..AuditEntry::new(at_ms, "decision", &self.user, outcome)
        }
    }

    fn check_undecided(&self) -> Result<(), HeldFault> {
        let id = self.id;
        if let Some(reason) = self.withdrawn() {
            let by = self.decided_by.clone().unwrap_or_else(|| "another person".into());
            return Err(HeldFault::Withdrawn { id, by, reason: reason.to_owned() });
        }
        match (self.state, &self.decided_by) {
            (HeldState::Pending, _) => Ok(()),
            (HeldState::Expired, _) => Err(HeldFault::Expired { id }),
            (HeldState::Rejected, Some(by)) => {
                Err(HeldFault::Decided { id, state: HeldState::Rejected, by: by.clone() })
            }
            // Every call that ran was approved.
            (_, by) => Err(HeldFault::Decided {
                id,
                state: HeldState::Approved,
                by: by.clone().unwrap_or_else(|| "another person".into()),
            }),
        }
    }
}

/// Whether two texts are the same JSON value: whitespace, escapes and the order of members do not matter.
fn same_value(one: &RawJson, other: &RawJson) -> bool {
    if one == other {
        return true;
    }
    if let (Some(one), Some(other)) = (one.string(), other.string()) {
        return one == other;
    }
    if let (Ok(one), Ok(other)) = (one.elements(), other.elements()) {
        return one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| same_value(one, other));
    }
    let (Ok(mut one), Ok(mut other)) = (one.members(), other.members()) else { return false };
    // A stable sort keeps duplicate keys in order, because parsers take the last one.
    let by_key = |a: &Member, b: &Member| a.key.cmp(&b.key);
    one.sort_by(by_key);
    other.sort_by(by_key);
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| a.key == b.key && same_value(&a.value, &b.value))
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
