//! Plan mode: calls that may change something become steps of a plan, and run after a person has approved them.

use super::{Approvals, not_held};
use crate::answer::Answer;
use serde::Serialize;
use std::str::FromStr;
use std::sync::Arc;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::HeldDraft;
use toolbooth_core::caller::Caller;
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldKind, HeldState, HeldVerdict};
use toolbooth_core::plan::{Plan, PlanState, PlanStep};
use toolbooth_store::HeldFilter;
use uuid::Uuid;

/// The session of plans whose steps are queued only by rules.
const RULE_SESSION: &str = "queued by rules";

/// Which calls a plan takes: all of the caller's, or those of one persona or session.
#[derive(Debug, Clone, Default)]
pub struct PlanScope {
    /// Only calls as this persona.
    pub persona: Option<String>,
    /// Only calls in this session.
    pub session: Option<String>,
}

/// A selection of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// All waiting steps.
    All,
    /// The steps from the first number to the second.
    Range(u32, u32),
}

impl FromStr for Steps {
    type Err = Problem;

    /// Parses `all`, one number, or a range of two numbers.
    fn from_str(text: &str) -> Result<Self, Problem> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let range = match text.split_once('-') {
            None => number(text).map(|number| (number, number)),
            Some((from, to)) => number(from).zip(number(to)).filter(|(from, to)| from <= to),
        };
        range.map(|(from, to)| Self::Range(from, to)).ok_or_else(|| Problem {
            code: "plan.bad-steps",
            blame: Blame::Caller,
            message: "steps are one number, a range such as 2-4, or `all`".into(),
            hint: Some("`toolbooth plan show` lists the steps".into()),
        })
    }
}

impl Steps {
    fn has(self, step: u32) -> bool {
        match self {
            Self::All => true,
            Self::Range(from, to) => (from..=to).contains(&step),
        }
    }
}

/// The outcome of one step.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// The number of the step.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// Its state now.
    pub state: String,
    /// What went wrong, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

fn unknown(id: Uuid) -> Problem {
    Problem {
        code: "plan.unknown",
        blame: Blame::Caller,
        message: format!("there is no plan {id}"),
        hint: Some("`toolbooth plan list` shows yours".into()),
    }
}

/// The plans of callers.
#[derive(Debug)]
pub struct Plans {
    approvals: Arc<Approvals>,
}

impl Plans {
    pub(crate) fn new(approvals: Arc<Approvals>) -> Self {
        Self { approvals }
    }

    /// Makes a call a step of the caller's plan.
    pub(crate) async fn queue_step(&self, waiting: HeldDraft) -> Result<Answer, Problem> {
        let draft = waiting.draft();
        let plan = match draft.situation.plan {
            Some(plan) => plan,
            None => self.rule_plan(&draft.caller).await?.id,
        };
        let held = self.approvals.held_of(draft, HeldKind::Plan, &waiting.reason, waiting.answerer);
        let step =
            self.approvals.store.queue_step(plan, held.clone()).await.map_err(|error| not_held(&error))?;
        self.approvals.events.emit_held(&HeldCall { plan: Some(PlanStep { plan, step }), ..held.clone() });
        Ok(Answer::queued(&held, plan, step))
    }

    /// The caller's plan for steps that a rule queues while plan mode is off. Its scope is a session that no call
    /// has, so that it takes no other calls.
    async fn rule_plan(&self, caller: &Caller) -> Result<Plan, Problem> {
        let open = self.approvals.store.plan_of(&caller.user, None, Some(RULE_SESSION)).await;
        let open = open.map_err(|error| Problem::of(&error))?;
        match open.filter(|plan| plan.session.as_deref() == Some(RULE_SESSION)) {
            Some(plan) => Ok(plan),
            None => {
                let session = Some(RULE_SESSION.to_owned());
                self.open(caller, PlanScope { persona: None, session }).await
            }
        }
    }

    /// Switches plan mode on, and returns the plan that takes the calls: a new one, or the one that is already open.
    pub async fn open(&self, caller: &Caller, scope: PlanScope) -> Result<Plan, Problem> {
        let plan = Plan {
            id: Uuid::now_v7(),
            user: caller.user.to_string(),
            persona: scope.persona,
            session: scope.session,
            state: PlanState::Open,
            created_ms: self.approvals.clock.now_ms(),
            closed_ms: None,
        };
        let plan = self.approvals.store.open_plan(plan).await.map_err(|error| Problem::of(&error))?;
        self.approvals.decisions.open_plan(plan.clone());
        self.note_plan(caller, &plan, "opened").await?;
        self.approvals.events.emit_plan(EventKind::PlanCreated, &plan);
        Ok(plan)
    }

    /// Switches plan mode off: the open plans of this scope take no more steps. Waiting steps stay.
    pub async fn close(&self, caller: &Caller, scope: PlanScope) -> Result<Vec<Plan>, Problem> {
        let mut closed = Vec::new();
        for plan in self.list(caller).await? {
            let same = plan.persona == scope.persona && plan.session == scope.session;
            if plan.state == PlanState::Open && plan.user == *caller.user && same {
                let done = self.approvals.store.close_plan(plan.id, self.approvals.clock.now_ms()).await;
                closed.extend(done.map_err(|error| Problem::of(&error))?);
                self.approvals.decisions.close_plan(plan.id);
                self.note_plan(caller, &plan, "closed").await?;
                self.approvals.events.emit_plan(EventKind::PlanClosed, &plan);
            }
        }
        Ok(closed)
    }

    /// The caller's plans, newest first; those of all users for an approver.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<Plan>, Problem> {
        let all = self.approvals.terms.load().is_approver(caller);
        let user = (!all).then_some(&*caller.user);
        self.approvals.store.plans(user).await.map_err(|error| Problem::of(&error))
    }

    /// A plan and its steps, in order.
    pub async fn get(&self, caller: &Caller, id: Uuid) -> Result<(Plan, Vec<HeldCall>), Problem> {
        let plan =
            self.list(caller).await?.into_iter().find(|plan| plan.id == id).ok_or_else(|| unknown(id))?;
        let filter = HeldFilter { kind: Some(HeldKind::Plan), plan: Some(id), ..HeldFilter::default() };
        let mut steps = self.approvals.store.held_calls(filter).await.map_err(|error| Problem::of(&error))?;
        steps.sort_by_key(|step| step.plan.map(|place| place.step));
        Ok((plan, steps))
    }

    /// Approves steps and runs them in order, up to the first that fails. The others stay.
    pub async fn approve_steps(
        &self,
        caller: &Caller,
        id: Uuid,
        steps: Steps,
    ) -> Result<Vec<StepReport>, Problem> {
        let mut reports = Vec::new();
        for step in self.waiting_steps(caller, id, steps).await? {
            let verdict = HeldVerdict::Approve { arguments: None, remember: None };
            let held = if step.state == HeldState::Approved {
                step // Approved before a restart, and not run yet.
            } else {
                self.approvals.decide(caller, step.id, verdict, None).await?
            };
            let report = report(&held);
            let step = held.clone();
            let answer = self.approvals.run_held(held).await;
            let problem = match &answer {
                Ok(Answer::Result { facts, .. }) if facts.is_error => {
                    Some("the tool reported an error".to_owned())
                }
                Ok(Answer::Error(error)) => Some(error.message.clone()),
                Ok(Answer::Held { text, .. }) => Some(text.clone()),
                Ok(_) => None,
                Err(problem) => Some(problem.message.clone()),
            };
            let failed = problem.is_some();
            // A step that cannot run yet stays approved, and runs when it is approved again.
            let waits = matches!(&answer, Err(problem) if problem.code == "call.deferred");
            let state = match (waits, failed) {
                (true, _) => "approved",
                (false, true) => "failed",
                (false, false) => "done",
            };
            if !waits {
                self.approvals.events.emit_step(&step, state);
            }
            reports.push(StepReport { state: state.to_owned(), problem, ..report });
            if failed {
                break;
            }
        }
        Ok(reports)
    }

    /// Rejects waiting steps.
    pub async fn reject_steps(
        &self,
        caller: &Caller,
        id: Uuid,
        steps: Steps,
        reason: Option<String>,
    ) -> Result<Vec<StepReport>, Problem> {
        let mut reports = Vec::new();
        for step in self.waiting_steps(caller, id, steps).await? {
            if step.state == HeldState::Pending {
                reports.push(report(
                    &self.approvals.decide(caller, step.id, HeldVerdict::Reject, reason.clone()).await?,
                ));
            }
        }
        Ok(reports)
    }

    async fn waiting_steps(&self, caller: &Caller, id: Uuid, steps: Steps) -> Result<Vec<HeldCall>, Problem> {
        let (_, all) = self.get(caller, id).await?;
        let waits = |held: &HeldCall| {
            let unclaimed = held.state == HeldState::Approved && held.claimed_ms.is_none();
            held.state == HeldState::Pending || unclaimed
        };
        let meant = |held: &HeldCall| held.plan.is_some_and(|place| steps.has(place.step));
        let found: Vec<HeldCall> = all.into_iter().filter(|held| meant(held) && waits(held)).collect();
        if found.is_empty() {
            return Err(Problem {
                code: "plan.no-such-step",
                blame: Blame::Caller,
                message: "no waiting step has that number".into(),
                hint: Some("`toolbooth plan show` lists the steps".into()),
            });
        }
        Ok(found)
    }

    async fn note_plan(&self, caller: &Caller, plan: &Plan, outcome: &str) -> Result<(), Problem> {
        let entry = AuditEntry {
            call_id: Some(plan.id),
            ..AuditEntry::new(self.approvals.clock.now_ms(), "plan", &caller.user, outcome)
        };
        self.approvals.store.audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))
    }
}

fn report(held: &HeldCall) -> StepReport {
    StepReport {
        step: held.plan.map_or(0, |place| place.step),
        tool: held.exposed.clone(),
        state: held.state.as_str().to_owned(),
        problem: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_number_a_range_or_all() {
        let cases = [
            ("all", Some(Steps::All)),
            ("3", Some(Steps::Range(3, 3))),
            ("2-4", Some(Steps::Range(2, 4))),
            ("4-2", None),
            ("0", None),
            ("1-", None),
            ("-1", None),
            ("1-2-3", None),
            ("", None),
            ("ALL", None),
            ("4294967296", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Steps>().ok(), expected, "{text}");
        }
    }
}
