//! Stage 5, judge: policies look at a draft, and the strictest verdict stands.

mod approval;
mod canonical;
mod change;
mod consent;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

pub use approval::{AskFirst, DefaultAsk};
pub use change::{ChangedTool, OnChange};
pub use consent::AskForConsent;
pub use plan::{PlanMode, PlanReads};
pub use rules::{Layer, Rule, RuleBook, RuleEffect, RuleFault, Subject, ToolMatch};

use super::draft::Draft;
use super::fault::CallFault;
use super::resolve::Incoming;
use super::situation::Planned;
use crate::held::Answerer;

/// What a policy says of a call, mildest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may run.
    Run,
    /// A person is asked first.
    Ask {
        /// Why.
        reason: String,
        /// Who may answer.
        answerer: Answerer,
    },
    /// It is put into a plan.
    Queue {
        /// Why.
        reason: String,
    },
    /// It may not run.
    Refuse {
        /// Why.
        reason: String,
    },
    /// For this caller there is no such tool.
    Hide,
}

impl Verdict {
    /// Its place among verdicts: the greatest stands.
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

    /// Takes the place of a milder verdict.
    fn tighten(&mut self, other: Self) {
        if other.strictness() > self.strictness() {
            *self = other;
        }
    }
}

/// A rule over calls: a pure function that cannot fail open.
pub trait Policy: Send + Sync {
    /// Judges one call.
    fn judge(&self, draft: &Draft) -> Verdict;

    /// Reports every verdict on one call: more than one if the policy consists of independent parts.
    fn judge_each(&self, draft: &Draft, hear: &mut dyn FnMut(Verdict)) {
        hear(self.judge(draft));
    }
}

/// A draft that may run now.
#[derive(Debug)]
pub struct Judged(pub(super) Draft);

impl Judged {
    /// The call that may run.
    pub fn draft(&self) -> &Draft {
        &self.0
    }
}

/// A draft that waits for a person.
#[derive(Debug)]
pub struct Waiting {
    draft: Draft,
    /// Why.
    pub reason: String,
    /// Who may answer.
    pub answerer: Answerer,
}

impl Waiting {
    /// The call that waits.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(super) fn into_draft(self) -> Draft {
        self.draft
    }

    /// The same question, put about another draft of the call.
    pub fn about(self, draft: Draft) -> Self {
        Self { draft, ..self }
    }

    /// The same call, to walk every stage again.
    pub fn again(self) -> Incoming {
        let Draft { caller, client, asked, arguments, meta, .. } = self.draft;
        Incoming { caller, client, name: asked, arguments: Some(arguments), meta }
    }
}

/// What the policies come to.
#[derive(Debug)]
pub enum Judgement {
    /// It may run now.
    Run(Judged),
    /// A person is asked first.
    Ask(Waiting),
    /// It becomes a step of a plan.
    Queue(Waiting),
}

/// Asks every policy; the strictest verdict that the call's licence does not cover stands.
pub fn judge(draft: Draft, policies: &[Box<dyn Policy>]) -> Result<Judgement, CallFault> {
    if draft.tool.server.is_own() {
        return Ok(Judgement::Run(Judged(draft)));
    }
    let licence = draft.situation.licence.as_ref().filter(|licence| licence.is_for(&draft));
    let mut strictest = Verdict::Run;
    // A step of a plan is decided by whoever would have to be asked about it.
    let mut decider = Answerer::CallerOrApprover;
    let mut weigh = |verdict: Verdict| {
        if licence.is_some_and(|licence| licence.covers(&verdict, &draft.caller.user)) {
            return;
        }
        match &verdict {
            Verdict::Ask { answerer, .. } => decider = decider.max(*answerer),
            // The person who approved the step has read what it serves; its tool asks a separate question.
            Verdict::Queue { .. } if draft.situation.planned == Planned::Yes => return,
            _ => {}
        }
        strictest.tighten(verdict);
    };
    for policy in policies {
        policy.judge_each(&draft, &mut weigh);
    }
    match strictest {
        Verdict::Run => Ok(Judgement::Run(Judged(draft))),
        Verdict::Ask { reason, answerer } => Ok(Judgement::Ask(Waiting { draft, reason, answerer })),
        Verdict::Queue { reason } => Ok(Judgement::Queue(Waiting { draft, reason, answerer: decider })),
        Verdict::Refuse { reason } => {
            Err(CallFault::Refused { name: draft.tool.exposed.to_string(), reason })
        }
        Verdict::Hide => Err(CallFault::UnknownTool { name: draft.asked }),
    }
}
