//! Stage 5, judge: policies judge a draft, and the strictest verdict wins.

mod approval;
mod canonical;
mod change;
mod consent;
mod plan;
mod rules;
#[cfg(test)]
mod tests;

pub use super::verdict::Verdict;
pub use approval::{DefaultAsk, RequireApproval};
pub use change::{ChangedToolPolicy, OnChange};
pub use consent::RequireConsent;
pub use plan::{PlanMode, PlanReads};
pub use rules::{LayerRules, Rule, RuleBook, RuleEffect, RuleFault, RuleSubject, ToolMatch};

use super::draft::Draft;
use super::fault::CallFault;
use super::resolve::IncomingCall;
use super::situation::ServesPlanStep;
use crate::catalog::Tool;
use crate::held::Answerer;

/// Judges calls. A pure function: it has no error case that could let a call run.
pub trait Policy: Send + Sync {
    /// Judges one call.
    fn judge(&self, draft: &Draft) -> Verdict;

    /// Passes every verdict on one call to `report`: more than one if the policy consists of independent parts.
    fn judge_each(&self, draft: &Draft, report: &mut dyn FnMut(Verdict)) {
        report(self.judge(draft));
    }

    /// Whether the policy asks for consent before the first call of a tool.
    fn asks_consent(&self, _tool: &Tool) -> bool {
        false
    }
}

/// A draft that may run now.
#[derive(Debug)]
pub struct Judged(pub(super) Draft);

impl Judged {
    /// The call.
    pub fn draft(&self) -> &Draft {
        &self.0
    }
}

/// A draft that waits for a person's decision.
#[derive(Debug)]
pub struct HeldDraft {
    draft: Draft,
    /// The reason.
    pub reason: String,
    /// Who may answer.
    pub answerer: Answerer,
}

impl HeldDraft {
    /// The call.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    pub(super) fn into_draft(self) -> Draft {
        self.draft
    }

    /// The same question about another draft of the call.
    pub fn about(self, draft: Draft) -> Self {
        Self { draft, ..self }
    }

    /// The same call, to pass through every stage again.
    pub fn again(self) -> IncomingCall {
        let Draft { caller, client, requested_name, arguments, meta, .. } = self.draft;
        IncomingCall { caller, client, name: requested_name, arguments: Some(arguments), meta }
    }
}

/// The result of all policies.
#[derive(Debug)]
pub enum Judgement {
    /// It may run now.
    Run(Judged),
    /// A person must approve it first.
    Ask(HeldDraft),
    /// It becomes a step of a plan.
    Queue(HeldDraft),
}

/// Applies every policy; the strictest verdict that the call's approval does not cover wins.
pub fn judge(draft: Draft, policies: &[Box<dyn Policy>]) -> Result<Judgement, CallFault> {
    if draft.tool.server.is_own() {
        return Ok(Judgement::Run(Judged(draft)));
    }
    let approval =
        draft.situation.approval.as_ref().filter(|approval| approval.approves(&draft.tool, &draft.arguments));
    let mut strictest = Verdict::Run;
    // The decider of a plan step is the one who would have to approve the call.
    let mut decider = Answerer::CallerOrApprover;
    let mut weigh = |verdict: Verdict| {
        if approval.is_some_and(|approval| approval.covers(&verdict, &draft.caller.user)) {
            return;
        }
        match &verdict {
            Verdict::Ask { answerer, .. } => decider = decider.max(*answerer),
            // The approver of the step has seen what it serves; the tool behind it asks a separate question.
            Verdict::Queue { .. } if draft.situation.planned == ServesPlanStep::Yes => return,
            _ => {}
        }
        strictest.tighten(verdict);
    };
    for policy in policies {
        policy.judge_each(&draft, &mut weigh);
    }
    match strictest {
        Verdict::Run => Ok(Judgement::Run(Judged(draft))),
        Verdict::Ask { reason, answerer } => Ok(Judgement::Ask(HeldDraft { draft, reason, answerer })),
        Verdict::Queue { reason } => Ok(Judgement::Queue(HeldDraft { draft, reason, answerer: decider })),
        Verdict::Refuse { reason } => {
            Err(CallFault::Refused { name: draft.tool.exposed.to_string(), reason })
        }
        Verdict::Hide => Err(CallFault::UnknownTool { name: draft.requested_name }),
    }
}
