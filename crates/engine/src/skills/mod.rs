//! Skills: finds them for callers, checks them, and runs the steps of plans as ordinary calls.
//!
//! `executor` runs a plan: ready steps run concurrently, and each is a call of the same caller through all stages. The
//! pipeline implements `StepCaller`. A skill with a plan is a tool, whose provider is `serve`; jobs call
//! `Skills::run_plan` and are notified of each step.

mod changes;
mod check;
mod executor;
mod observer;
mod report;

pub use changes::SkillChange;
pub use check::SkillCheck;
pub use executor::{PlanOutcome, PlanRun, RunLabel};
pub use observer::{StepObserver, Unobserved};

use crate::answer::Answer;
use crate::catalog::LiveCatalog;
use crate::events::EventRing;
use crate::shared_state::SharedState;
use changes::ChangeLog;
use futures_util::future::BoxFuture;
use report::Continuation;
use serde_json::Value;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use toolbooth_core::call::{IncomingCall, Sealed};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::SkillSet;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::skill::{DEFAULT_TIMEOUT, RunState, Skill, SkillFault, StepRecords};
use toolbooth_upstream::CallLink;
use uuid::Uuid;

/// The call of a step.
pub(crate) struct StepCall {
    pub(crate) incoming: IncomingCall,
    /// The id of the call.
    pub(crate) id: Uuid,
    /// The id of the step, for the audit.
    pub(crate) step: String,
    /// How long to wait for a person's approval; `None` for the configured time.
    pub(crate) approval_wait: Option<Duration>,
    /// The time that the call has; `None` for the tool's own.
    pub(crate) timeout: Option<Duration>,
    /// The run that it belongs to, for the audit.
    pub(crate) label: RunLabel,
}

/// Makes the calls of steps. The call pipeline implements it.
pub(crate) trait StepCaller: Send + Sync {
    /// Makes a call through all stages.
    fn call_step<'a>(
        self: Arc<Self>,
        call: StepCall,
        link: &'a CallLink,
    ) -> BoxFuture<'a, Result<Answer, Problem>>;
}

/// A run of a skill that a caller started, and whose steps wait for a person.
pub(crate) struct HeldSkillRun {
    /// What runs.
    pub(crate) run: PlanRun,
    /// The outcomes of the steps so far.
    pub(crate) steps: StepRecords,
}

/// Continues runs of skills when their held steps were decided. `Jobs` implements it, because it stores runs.
pub(crate) trait HeldRunStore: Send + Sync {
    /// Takes over a run.
    fn keep(self: Arc<Self>, run: HeldSkillRun) -> BoxFuture<'static, Result<(), Problem>>;
}

/// The skills of a running gateway.
pub struct Skills {
    clock: Arc<Clock>,
    events: Arc<EventRing>,
    catalog: Arc<LiveCatalog>,
    runner: OnceLock<Weak<dyn StepCaller>>,
    held_runs: OnceLock<Weak<dyn HeldRunStore>>,
    changes: ChangeLog,
}

impl std::fmt::Debug for Skills {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Skills").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Skills {
    pub(crate) fn new(shared: &SharedState, catalog: Arc<LiveCatalog>) -> Self {
        let (clock, events) = (shared.clock.clone(), shared.events.clone());
        let (runner, held_runs) = (OnceLock::new(), OnceLock::new());
        Self { clock, events, catalog, runner, held_runs, changes: ChangeLog::default() }
    }

    /// Sets the pipeline that makes the calls of steps. Only the first call has an effect.
    pub(crate) fn set_runner(&self, runner: Weak<dyn StepCaller>) {
        let _ = self.runner.set(runner);
    }

    /// Sets the part that continues held runs. Only the first call has an effect.
    pub(crate) fn set_held_runs(&self, held_runs: Weak<dyn HeldRunStore>) {
        let _ = self.held_runs.set(held_runs);
    }

    /// Has a run continue when its held steps were decided.
    async fn keep(&self, run: PlanRun, outcome: &PlanOutcome) -> Continuation {
        let Some(held_runs) = self.held_runs.get().and_then(Weak::upgrade) else { return Continuation::None };
        let name = run.label.name.clone();
        match held_runs.keep(HeldSkillRun { run, steps: outcome.steps.clone() }).await {
            Ok(()) => Continuation::Later,
            Err(problem) => {
                tracing::error!(skill = %name, "a held run cannot continue later: {}", problem.message);
                Continuation::None
            }
        }
    }

    fn runner(&self) -> Result<Arc<dyn StepCaller>, Problem> {
        self.runner.get().and_then(Weak::upgrade).ok_or_else(|| Problem {
            code: "call.no-provider",
            blame: Blame::Gateway,
            message: "the gateway is stopping".to_owned(),
            hint: None,
        })
    }

    /// All skills, without permission checks.
    pub fn all(&self) -> Arc<SkillSet> {
        self.catalog.load().skill_set().clone()
    }

    /// The skills that a caller may see, sorted by name.
    pub fn visible(&self, caller: &Caller) -> Vec<Arc<Skill>> {
        self.catalog.load().skills(caller).cloned().collect()
    }

    /// Finds a skill that a caller may see.
    pub fn find(&self, name: &str, caller: &Caller) -> Option<Arc<Skill>> {
        self.catalog.load().skill(name, caller).cloned()
    }

    /// Serves a call of a skill's tool by running its plan.
    pub(crate) async fn serve(
        &self,
        skill: &Skill,
        call: &Sealed,
        id: Uuid,
        approval_wait: Option<Duration>,
        link: &CallLink,
    ) -> Result<Answer, Problem> {
        let Some(plan) = skill.plan.clone() else {
            return Err(Problem::of(&SkillFault::NoPlan { name: skill.name.clone() }));
        };
        let arguments = match call.public_arguments().read::<Value>() {
            Ok(Value::Object(arguments)) => arguments,
            _ => serde_json::Map::new(),
        };
        let run = PlanRun {
            plan,
            caller: call.caller().clone(),
            client: call.client().clone(),
            arguments,
            finished: StepRecords::new(),
            limit: skill.timeout.unwrap_or(DEFAULT_TIMEOUT),
            approval_wait,
            label: RunLabel { kind: "skill", name: skill.name.clone(), run: id, part: String::new() },
        };
        // A plan that is refused or has failed is a result, like that of a tool: sending the call again, to this or
        // another provider, would not help and could repeat steps.
        let outcome = match self.run_plan(&run, &Unobserved, link).await {
            Ok(outcome) => outcome,
            Err(problem) => return Ok(report::refusal(&problem)),
        };
        let (label, plan) = (run.label.clone(), run.plan.clone());
        let continuation = match outcome.state {
            RunState::Held => self.keep(run, &outcome).await,
            RunState::Succeeded | RunState::Failed => Continuation::None,
        };
        Ok(report::answer(&label, &plan, &outcome, continuation))
    }
}
