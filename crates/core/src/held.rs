//! Held calls: what waits for a person, and the only ways from one state to the next.

use crate::audit::AuditEntry;
use crate::caller::{Caller, IdentifiedBy};
use crate::fault::{Blame, Fault};
use crate::json::{Member, RawJson};
use crate::names::ServerName;
use crate::outcome::OutcomeKind;
use crate::plan::PlanStep;
use crate::words::words;
use uuid::Uuid;

words! {
    /// Why a call is held.
    pub enum HeldKind ("kind of held call") {
        /// A person is asked before it runs.
        Approval = "approval",
        /// It is a step of a plan.
        Plan = "plan",
    }
}

words! {
    /// Where a held call stands.
    pub enum HeldState ("state of a held call") {
        /// Nobody has answered.
        Pending = "pending",
        /// Somebody said yes; it may run, or runs.
        Approved = "approved",
        /// Somebody said no.
        Rejected = "rejected",
        /// Nobody answered in time.
        Expired = "expired",
        /// It ran and the tool answered.
        Done = "done",
        /// It ran and failed, or its end is unknown.
        Failed = "failed",
    }
}

words! {
    /// Who may say yes, mildest first. Anybody who may see a held call as its caller or an approver may say no.
    pub enum Answerer ("kind of answerer") {
        /// The caller, or an approver; the answer may be remembered.
        CallerOrApprover = "caller_or_approver",
        /// The caller, or an approver, each time and in person: nothing that was said beforehand counts.
        InPerson = "in_person",
        /// An approver other than the caller: four eyes.
        ApproverOnly = "approver_only",
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

/// Whether somebody may answer for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsApprover {
    /// They may.
    Yes,
    /// They answer for themselves alone.
    No,
}

/// A call that waits for a person. The rights of its caller are looked up anew when it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCall {
    /// The held call; a version 7 id, so that ids sort by time.
    pub id: Uuid,
    /// Why it is held.
    pub kind: HeldKind,
    /// Who called.
    pub user: String,
    /// As which persona.
    pub persona: Option<String>,
    /// In which session.
    pub session: Option<String>,
    /// The level of data the caller had named.
    pub level: Option<String>,
    /// What the caller was identified by; unknown for calls that earlier versions held.
    pub identified_by: Option<IdentifiedBy>,
    /// With which client.
    pub client: String,
    /// The tool's server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The name the caller used.
    pub exposed: String,
    /// The tool's definition when it was called; an approval covers that version only.
    pub digest: [u8; 32],
    /// The public arguments: nothing injected.
    pub arguments: RawJson,
    /// The SHA-256 of those arguments.
    pub arguments_sha256: [u8; 32],
    /// Why a person is asked.
    pub question: String,
    /// Who may answer.
    pub answerer: Answerer,
    /// When it was held.
    pub created_ms: i64,
    /// From when on no answer counts; steps of a plan wait for ever.
    pub expires_ms: Option<i64>,
    /// Where it stands.
    pub state: HeldState,
    /// Who answered.
    pub decided_by: Option<String>,
    /// When the answer, or the end of waiting for one, came.
    pub decided_ms: Option<i64>,
    /// The reason given.
    pub decision_note: Option<String>,
    /// The arguments to run with, where the answer changed them.
    pub edited: Option<RawJson>,
    /// How long the approval is remembered.
    pub remember: Option<Remember>,
    /// When somebody took the licence to run it.
    pub claimed_ms: Option<i64>,
    /// How it ended.
    pub outcome: Option<HeldOutcome>,
    /// Its place in a plan.
    pub plan: Option<PlanStep>,
}

/// How a held call ended once it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOutcome {
    /// When.
    pub at_ms: i64,
    /// How.
    pub kind: OutcomeKind,
    /// The fault's stable code, where there was a fault.
    pub code: Option<String>,
    /// What the caller is answered; absent when it was too large to keep.
    pub result: Option<RawJson>,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes or no.
    pub verdict: HeldVerdict,
    /// Who answers.
    pub by: String,
    /// When.
    pub at_ms: i64,
    /// The reason given.
    pub note: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldVerdict {
    /// It may run.
    Approve {
        /// Other arguments to run with; the same ones again are no edit.
        arguments: Option<RawJson>,
        /// How long to remember it.
        remember: Option<Remember>,
    },
    /// It may not.
    Reject,
}

/// A held call cannot go where it was told to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeldFault {
    /// Somebody else answered first.
    #[error("held call {id} was already {state} by {by}")]
    Decided {
        /// The held call.
        id: Uuid,
        /// Approved or rejected.
        state: HeldState,
        /// Who answered.
        by: String,
    },
    /// Nobody answered in time.
    #[error("held call {id} expired before it was answered")]
    Expired {
        /// The held call.
        id: Uuid,
    },
    /// It waits, and its time is not over.
    #[error("held call {id} has not expired")]
    NotExpired {
        /// The held call.
        id: Uuid,
    },
    /// As many calls wait as may.
    #[error("the call was not held: {limit} calls {whose} wait already, and no more may")]
    Full {
        /// How many may wait.
        limit: usize,
        /// Whose calls they are.
        whose: &'static str,
    },
    /// The answer cannot be remembered.
    #[error("held call {id} is asked about every time, so an answer to it cannot be remembered")]
    NotRemembered {
        /// The held call.
        id: Uuid,
    },
    /// Nobody has said yes.
    #[error("held call {id} is {state}, not approved")]
    NotApproved {
        /// The held call.
        id: Uuid,
        /// What it is.
        state: HeldState,
    },
    /// Somebody runs it, or has run it.
    #[error("held call {id} was already run")]
    Claimed {
        /// The held call.
        id: Uuid,
    },
    /// An end came for a call that does not run.
    #[error("held call {id} is not running")]
    NotRunning {
        /// The held call.
        id: Uuid,
    },
}

impl Fault for HeldFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Decided { .. } => "call.already-decided",
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
            Self::NotRemembered { .. } => Some("leave `remember` out, or say `once`".into()),
            _ => None,
        }
    }
}

impl HeldCall {
    /// The arguments to run with.
    pub fn final_arguments(&self) -> &RawJson {
        self.edited.as_ref().unwrap_or(&self.arguments)
    }

    /// Who may say yes to it: never the caller where the question asks for a second pair of eyes.
    pub fn may_be_approved_by(&self, caller: &Caller, is_approver: IsApprover) -> bool {
        let own = self.user == *caller.user;
        match self.answerer {
            Answerer::CallerOrApprover | Answerer::InPerson => own || is_approver == IsApprover::Yes,
            Answerer::ApproverOnly => !own && is_approver == IsApprover::Yes,
        }
    }

    /// Whether the time for an answer is over at `now_ms`.
    pub fn is_overdue(&self, now_ms: i64) -> bool {
        self.state == HeldState::Pending && self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// Pending, in time -> approved or rejected.
    pub fn decide(&self, decision: &Decision) -> Result<Self, HeldFault> {
        self.check_undecided()?;
        if self.is_overdue(decision.at_ms) {
            return Err(HeldFault::Expired { id: self.id });
        }
        let mut decided = self.clone();
        decided.decided_by = Some(decision.by.clone());
        decided.decided_ms = Some(decision.at_ms);
        decided.decision_note = decision.note.clone();
        match &decision.verdict {
            HeldVerdict::Reject => decided.state = HeldState::Rejected,
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

    /// Approved -> approved and claimed: the licence to run it, given once.
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

    /// Claimed -> failed, because the gateway that ran it is gone: it may or may not have happened.
    pub fn interrupt(&self, at_ms: i64) -> Result<Self, HeldFault> {
        self.finish(HeldOutcome { at_ms, kind: OutcomeKind::Unknown, code: None, result: None })
    }

    /// The audit entry of a step that no person took: it expired or was cut off.
    pub fn trace(&self, at_ms: i64) -> AuditEntry {
        let (kind, outcome) = match &self.outcome {
            Some(outcome) => ("call", outcome.kind.as_str()),
            None => ("decision", self.state.as_str()),
        };
        AuditEntry {
            call_id: Some(self.id),
            persona: self.persona.as_deref().map(Into::into),
            client: Some(self.client.as_str().into()),
            server: Some(self.server.as_str().into()),
            tool: Some(self.tool.as_str().into()),
            arguments_sha256: Some(self.arguments_sha256),
            ..AuditEntry::new(at_ms, kind, &self.user, outcome)
        }
    }

    fn check_undecided(&self) -> Result<(), HeldFault> {
        let id = self.id;
        match (self.state, &self.decided_by) {
            (HeldState::Pending, _) => Ok(()),
            (HeldState::Expired, _) => Err(HeldFault::Expired { id }),
            (HeldState::Rejected, Some(by)) => {
                Err(HeldFault::Decided { id, state: HeldState::Rejected, by: by.clone() })
            }
            // Whatever has run was approved.
            (_, by) => Err(HeldFault::Decided {
                id,
                state: HeldState::Approved,
                by: by.clone().unwrap_or_else(|| "somebody".into()),
            }),
        }
    }
}

/// Whether two texts say the same JSON: spaces, escapes and the order of members do not matter.
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
    // Stable, so that members of one name, of which readers take the last, stay in order.
    let by_key = |a: &Member, b: &Member| a.key.cmp(&b.key);
    one.sort_by(by_key);
    other.sort_by(by_key);
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| a.key == b.key && same_value(&a.value, &b.value))
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
