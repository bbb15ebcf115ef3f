//! The work of a process on one run: runs its parts in order, and writes every step before and after it.

use super::rows::{WorkRecord, added, replaced};
use super::work_end::{LEASE_MS, WAIT_MS, WorkEnd};
use super::{Jobs, fault};
use crate::rights_source::{Rights, rights_gone};
use crate::skills::{PlanRun, RunLabel, StepObserver};
use futures_util::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldOutcome, HeldState};
use toolbooth_core::job::{
    EscalationTrigger, JobFault, PartOutcome, RunRecord, TaskDefinition, TaskRecord, TaskStatus,
};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_core::skill::{
    RunState, SkillFault, SkillStep, StepError, StepPlan, StepRecord, StepState, results_of,
};
use toolbooth_store::WorkUpdate;
use toolbooth_upstream::CallLink;
use uuid::Uuid;

/// How often a worker renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How long to wait if the rights of the owner cannot be looked up now.
const RIGHTS_WAIT_MS: i64 = 60_000;
/// How long the run of a skill waits for the rights of its caller.
const SKILL_RIGHTS_MS: i64 = 24 * 3_600_000;
/// The time for the steps of one part.
const PART_LIMIT: Duration = Duration::from_secs(6 * 3600);
/// How often a part starts again because the rights of the owner changed.
const MAX_RESTARTS: usize = 20;
/// The maximum length of a tool's error text in the record of a step.
const MAX_ERROR_TEXT: usize = 1000;
/// The client of runs, for rules about clients.
const CLIENT: &str = "toolbooth-jobs";

const LEASE_LOST: &str = "job.lease-lost";
const STOPPING: &str = "job.stopping";
const RIGHTS_CHANGED: &str = "job.rights-changed";

/// The work of this process on one run.
pub(super) struct RunWorker {
    jobs: Arc<Jobs>,
    /// The run as it is stored. Writes are made one at a time.
    run: AsyncMutex<RunRecord>,
}

impl RunWorker {
    pub(super) fn new(jobs: Arc<Jobs>, run: RunRecord) -> Self {
        Self { jobs, run: AsyncMutex::new(run) }
    }

    /// Changes the run in the store, and renews the lease. Fails if another process has the run now.
    async fn update(&self, change: impl FnOnce(&mut RunRecord)) -> Result<(), Problem> {
        let mut run = self.run.lock().await;
        let mut next = run.clone();
        change(&mut next);
        let now = self.jobs.clock.now_ms();
        next.lease_until_ms = Some(now + LEASE_MS);
        next.touch(now);
        let changes = vec![replaced(&*run, &next)?];
        match self.jobs.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => {
                *run = next;
                Ok(())
            }
            WorkUpdate::Lost(_) => Err(lease_lost(&run.name)),
        }
    }

    /// Whether the stored run is still as this worker wrote it. The worker writes nothing meanwhile.
    async fn is_current(&self) -> Result<bool, Problem> {
        let run = self.run.lock().await;
        let stored = self.jobs.run_record(run.id).await?;
        Ok(stored.is_some_and(|stored| stored.updated_ms == run.updated_ms && stored.worker == run.worker))
    }

    /// Renews the lease until it is lost.
    pub(super) async fn keep_lease(&self) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            let jobs = &self.jobs;
            let run = self.run.lock().await.clone();
            let definition = jobs.definition_of_run(&run).await;
            let policy = definition.map(|definition| definition.escalation_policy).unwrap_or_default();
            let now = jobs.clock.now_ms();
            let mut is_overdue = Jobs::overdue_ms(&run, &policy).is_some_and(|overdue| overdue <= now);
            // The schedule is paused before the run says that it was escalated: if this process ends in between, or has
            // lost its lease, the next one finds the run overdue and does both.
            if is_overdue && policy.on(EscalationTrigger::Overdue).is_some_and(|acts| acts.pause) {
                // One that has lost the run does not pause: a person may have resumed the schedule since.
                let paused = match self.is_current().await {
                    Ok(true) => jobs.pause_by_policy(&run.job).await,
                    Ok(false) => return,
                    Err(problem) => Err(problem),
                };
                if let Err(problem) = paused {
                    tracing::error!(job = %run.name, "the schedule could not be paused: {}", problem.message);
                    is_overdue = false;
                }
            }
            let renewed = self
                .update(|run| {
                    if is_overdue {
                        Jobs::escalate(run, &policy, EscalationTrigger::Overdue);
                    }
                })
                .await;
            let Err(problem) = renewed else {
                if is_overdue {
                    let stored = self.run.lock().await.clone();
                    jobs.announce_escalations(run.escalations.len(), &stored, &policy);
                }
                continue;
            };
            let until_ms = self.run.lock().await.lease_until_ms.unwrap_or(i64::MIN);
            if problem.code == LEASE_LOST || jobs.clock.now_ms() > until_ms {
                return;
            }
        }
    }

    /// Works on the run until it has ended, or has to wait.
    pub(super) async fn work(&self) -> WorkEnd {
        match self.work_on_parts().await {
            Ok(end) => end,
            Err(problem) => match problem.code {
                LEASE_LOST => WorkEnd::Lost,
                STOPPING => WorkEnd::Stopped,
                // What happened is not stored, so the run is taken up again when the lease has ended.
                code if code.starts_with("store.") => WorkEnd::Lost,
                _ => WorkEnd::Failed((&problem).into()),
            },
        }
    }

    async fn work_on_parts(&self) -> Result<WorkEnd, Problem> {
        if let Some(end) = self.prepare().await? {
            return Ok(end);
        }
        let count = self.run.lock().await.parts.len();
        let mut waits = None;
        for place in 0..count {
            let (part, blocked) = {
                let run = self.run.lock().await;
                (run.parts[place].clone(), blocked(&run, place))
            };
            if part.outcome.is_some() {
                continue;
            }
            match blocked {
                Blocked::Never => {}
                Blocked::Waits => continue,
                Blocked::Forever => {
                    self.update(|run| run.parts[place].outcome = Some(PartOutcome::Cancelled)).await?;
                    continue;
                }
            }
            let end = match part.plan {
                Some(_) => self.work_on_plan(place).await?,
                None => self.work_on_task(place).await?,
            };
            match end {
                None => {}
                Some(WorkEnd::Waits(until_ms)) => {
                    waits = Some(waits.map_or(until_ms, |other: i64| other.min(until_ms)));
                }
                Some(end) => return Ok(end),
            }
        }
        Ok(waits.map_or(WorkEnd::Ended, WorkEnd::Waits))
    }

    /// Fills in the parts of a run that starts.
    async fn prepare(&self) -> Result<Option<WorkEnd>, Problem> {
        let run = self.run.lock().await.clone();
        if !run.parts.is_empty() {
            return Ok(None);
        }
        let Some(definition) = self.jobs.definition_of_run(&run).await else {
            return Err(fault(&JobFault::UnknownJob { name: run.name }));
        };
        let caller = match self.caller().await? {
            Ok(caller) => caller,
            Err(end) => return Ok(Some(end)),
        };
        let parts = self.jobs.parts_of(&definition, &run.arguments, &caller).await?;
        self.update(|run| run.parts = parts).await?;
        Ok(None)
    }

    /// The owner with their current rights, or why the run cannot go on now.
    async fn caller(&self) -> Result<Result<Arc<Caller>, WorkEnd>, Problem> {
        let now = self.jobs.clock.now_ms();
        let (owner, name, is_old) = {
            let run = self.run.lock().await;
            let is_old = run.is_of_skill() && now - run.created_ms > SKILL_RIGHTS_MS;
            (run.owner.clone(), run.name.clone(), is_old)
        };
        match self.jobs.rights_of(&owner).await {
            Rights::Known(caller) => Ok(Ok(caller)),
            Rights::Gone => Err(rights_gone(&name, &owner.user)),
            Rights::Unknown(_) if is_old => Err(rights_gone(&name, &owner.user)),
            Rights::Unknown(why) => {
                tracing::warn!(job = %name, "a run waits: {why}");
                Ok(Err(WorkEnd::Waits(now + RIGHTS_WAIT_MS)))
            }
        }
    }

    /// Runs the steps of a part. `None` if the part has ended.
    async fn work_on_plan(&self, place: usize) -> Result<Option<WorkEnd>, Problem> {
        for _ in 0..MAX_RESTARTS {
            self.settle_held(place).await?;
            let caller = match self.caller().await? {
                Ok(caller) => caller,
                Err(end) => return Ok(Some(end)),
            };
            if let Some(end) = self.settle_interrupted(place, &caller).await? {
                return Ok(Some(end));
            }
            let (part, client, label) = {
                let run = self.run.lock().await;
                let kind = if run.is_of_skill() { "skill" } else { "job" };
                let part = run.parts[place].clone();
                let label = RunLabel { kind, name: run.name.clone(), run: run.id, part: part.id.clone() };
                let client = ClientFacts::remembered(run.client.as_deref().unwrap_or(CLIENT));
                (part, client, label)
            };
            if label.kind == "skill" && self.jobs.skills.find(&label.name, &caller).is_none() {
                return Err(Problem::of(&SkillFault::Unknown { name: label.name }));
            }
            let plan = part.plan.as_ref().map(StepPlan::read);
            let Some(Ok(plan)) = plan else {
                return Err(broken_plan(&part.id));
            };
            let run = PlanRun {
                plan: Arc::new(plan),
                caller: caller.clone(),
                client: Arc::new(client),
                arguments: part.arguments.clone(),
                finished: part.kept(),
                limit: part.limit_ms.map_or(PART_LIMIT, Duration::from_millis),
                approval_wait: Some(Duration::ZERO),
                label,
            };
            let observer = PartObserver { worker: self, place, caller };
            let outcome = match self.jobs.skills.run_plan(&run, &observer, &CallLink::silent()).await {
                Ok(outcome) => outcome,
                Err(problem) if problem.code == RIGHTS_CHANGED => continue,
                Err(problem) => return Err(problem),
            };
            let ended = match outcome.state {
                RunState::Succeeded => PartOutcome::Succeeded,
                RunState::Failed => PartOutcome::Failed,
                RunState::Held => return Ok(Some(WorkEnd::Waits(self.jobs.clock.now_ms() + WAIT_MS))),
            };
            self.update(|run| run.parts[place].outcome = Some(ended)).await?;
            return Ok(None);
        }
        Err(Problem {
            code: RIGHTS_CHANGED,
            blame: Blame::Gateway,
            message: "the rights of the job's owner changed again and again".into(),
            hint: None,
        })
    }

    /// Takes over the outcomes of held calls that were decided.
    async fn settle_held(&self, place: usize) -> Result<(), Problem> {
        let part = self.run.lock().await.parts[place].clone();
        for (step, id) in part.held() {
            let held = self.jobs.store.held(id).await.map_err(|error| Problem::of(&error))?;
            let Some(mut record) = decided(held.as_ref(), id) else { continue };
            if record.held.is_none() {
                record.ended_ms = record.ended_ms.or_else(|| Some(self.jobs.clock.now_ms()));
            }
            let tool = part.steps.get(step).map(|step| step.tool.clone()).unwrap_or_default();
            self.update(|run| run.parts[place].note_end(step, &tool, record)).await?;
        }
        Ok(())
    }

    /// Decides about steps that had started when an earlier worker ended.
    async fn settle_interrupted(&self, place: usize, caller: &Caller) -> Result<Option<WorkEnd>, Problem> {
        let part = self.run.lock().await.parts[place].clone();
        let names: Vec<String> = part.interrupted().map(|(_, step)| step.tool.clone()).collect();
        for name in &names {
            self.jobs.catalog.wait_for_tool(name, caller).await;
        }
        for (id, step) in part.interrupted() {
            if self.jobs.is_safe(&step.tool, caller) {
                self.update(|run| {
                    run.parts[place].steps.remove(id);
                })
                .await?;
                continue;
            }
            return Ok(Some(WorkEnd::Held(StepError {
                code: "job.interrupted".into(),
                message: format!(
                    "the gateway ended while step `{id}` of `{}` called `{}`, which may have happened",
                    part.id, step.tool
                ),
                hint: Some(
                    "check what it was meant to change; then continue with `toolbooth jobs decide NAME RUN repeat` or `skip`"
                        .into(),
                ),
            })));
        }
        Ok(None)
    }

    /// Waits for a task that a person completes.
    async fn work_on_task(&self, place: usize) -> Result<Option<WorkEnd>, Problem> {
        let part = self.run.lock().await.parts[place].clone();
        let waits = WorkEnd::Waits(self.jobs.clock.now_ms() + WAIT_MS);
        let Some(task) = part.task else {
            let caller = match self.caller().await? {
                Ok(caller) => caller,
                Err(end) => return Ok(Some(end)),
            };
            let mut tasks = self.jobs.task_finder(&caller);
            let Some(definition) = tasks.definition(&part.id).await? else {
                return Err(fault(&JobFault::UnknownTask { name: part.id }));
            };
            self.add_task(place, definition.clone()).await?;
            return Ok(Some(waits));
        };
        let outcome = match self.jobs.task_state(task).await? {
            Some(TaskStatus::Done) => PartOutcome::Succeeded,
            Some(TaskStatus::Cancelled) | None => PartOutcome::Failed,
            Some(_) => return Ok(Some(waits)),
        };
        self.update(|run| run.parts[place].outcome = Some(outcome)).await?;
        Ok(None)
    }
}

impl RunWorker {
    /// Creates the task that a person completes, together with the note in the run.
    async fn add_task(&self, place: usize, definition: TaskDefinition) -> Result<(), Problem> {
        let mut run = self.run.lock().await;
        let now = self.jobs.clock.now_ms();
        let task = TaskRecord {
            id: Uuid::now_v7(),
            manifest: None,
            definition,
            owner: run.owner.clone(),
            state: TaskStatus::Ready,
            run: Some(run.id),
            escalations: Vec::new(),
            ready_ms: Some(now),
            created_ms: now,
            updated_ms: now,
        };
        let mut next = run.clone();
        next.parts[place].task = Some(task.id);
        next.lease_until_ms = Some(now + LEASE_MS);
        next.touch(now);
        let changes = vec![replaced(&*run, &next)?, added(&task)?];
        match self.jobs.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => *run = next,
            WorkUpdate::Lost(_) => return Err(lease_lost(&run.name)),
        }
        drop(run);
        self.jobs.note_due(task.overdue_ms());
        self.jobs.emit_task(&task);
        Ok(())
    }
}

/// Whether the parts that a part depends on let it start.
enum Blocked {
    Never,
    Waits,
    Forever,
}

fn blocked(run: &RunRecord, place: usize) -> Blocked {
    let before = run.parts.iter().filter(|part| run.parts[place].after.contains(&part.id));
    let mut found = Blocked::Never;
    for part in before {
        match part.outcome {
            Some(PartOutcome::Succeeded) => {}
            Some(_) => return Blocked::Forever,
            None => found = Blocked::Waits,
        }
    }
    found
}

/// The outcome of a held call; `None` while it is open. The step keeps the id of its call.
fn decided(held: Option<&HeldCall>, id: Uuid) -> Option<StepRecord> {
    let failed = |code: &str, message: String| StepRecord {
        error: Some(StepError { code: code.to_owned(), message, hint: None }),
        ..StepRecord::of_state(StepState::Failed)
    };
    let Some(held) = held else { return Some(failed("call.unknown", format!("held call {id} was deleted"))) };
    let outcome = held.outcome.as_ref();
    let results = outcome.and_then(|outcome| outcome.result.as_ref()).map(results_of);
    let record = match held.state {
        HeldState::Pending | HeldState::Approved => return None,
        HeldState::Done => match outcome.and_then(next_held) {
            Some(next) => {
                return Some(StepRecord { held: Some(next), ..StepRecord::of_state(StepState::Held) });
            }
            None => StepRecord::succeeded(None, results.unwrap_or_default()),
        },
        HeldState::Rejected => failed("call.rejected", rejected(held)),
        HeldState::Expired => {
            failed("call.approval-timeout", format!("`{}` was not approved in time", held.exposed))
        }
        HeldState::Failed => {
            let code = match outcome.map(|outcome| (outcome.kind, outcome.code.as_deref())) {
                Some((_, Some(code))) => code,
                Some((OutcomeKind::ToolError, None)) => "skill.step-failed",
                _ => "job.interrupted",
            };
            let text = results.as_ref().and_then(Value::as_str).unwrap_or_default();
            let text: String = text.chars().take(MAX_ERROR_TEXT).collect();
            let colon = if text.is_empty() { "" } else { ": " };
            failed(code, format!("`{}` failed after it was approved{colon}{text}", held.exposed))
        }
    };
    let ended_ms = outcome.map(|outcome| outcome.at_ms).or(held.decided_ms);
    Some(StepRecord { ended_ms, ..record })
}

/// Who rejected a held call, and why.
fn rejected(held: &HeldCall) -> String {
    let name = &held.exposed;
    if let Some(reason) = held.withdrawn() {
        return format!("`{name}` was withdrawn: {reason}");
    }
    let by = held.decided_by.as_deref().unwrap_or("an approver");
    match held.decision_note.as_deref().filter(|note| !note.is_empty()) {
        Some(reason) => format!("`{name}` was rejected by {by}: {reason}"),
        None => format!("`{name}` was rejected by {by}"),
    }
}

/// The held call that an approved call led to, if the tool behind the called one needs its own approval.
fn next_held(outcome: &HeldOutcome) -> Option<Uuid> {
    if outcome.code.as_deref() != Some("call.held") {
        return None;
    }
    outcome.result.as_ref()?.member("held")?.string()?.parse().ok()
}

fn lease_lost(name: &str) -> Problem {
    Problem {
        code: LEASE_LOST,
        blame: Blame::Gateway,
        message: format!("another gateway process works on the run of `{name}`"),
        hint: None,
    }
}

fn broken_plan(part: &str) -> Problem {
    Problem {
        code: "job.bad-definition",
        blame: Blame::Gateway,
        message: format!("the plan of `{part}` is not valid"),
        hint: None,
    }
}

/// Writes each step of a part, and checks the rights of the owner before it starts.
struct PartObserver<'a> {
    worker: &'a RunWorker,
    place: usize,
    caller: Arc<Caller>,
}

impl StepObserver for PartObserver<'_> {
    fn starts<'a>(&'a self, step: &'a SkillStep, call: Uuid) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let jobs = &self.worker.jobs;
            if jobs.stopping.load(Ordering::Relaxed) {
                return Err(Problem {
                    code: STOPPING,
                    blame: Blame::Gateway,
                    message: "the gateway is stopping".into(),
                    hint: None,
                });
            }
            let owner = self.worker.run.lock().await.owner.clone();
            match jobs.rights_of(&owner).await {
                Rights::Known(caller) if caller == self.caller => {}
                Rights::Gone => return Err(rights_gone(&step.tool, &owner.user)),
                Rights::Known(_) | Rights::Unknown(_) => {
                    return Err(Problem {
                        code: RIGHTS_CHANGED,
                        blame: Blame::Gateway,
                        message: "the rights of the job's owner changed".into(),
                        hint: None,
                    });
                }
            }
            let now = jobs.clock.now_ms();
            let place = self.place;
            self.worker.update(|run| run.parts[place].note_start(&step.id, &step.tool, call, now)).await
        })
    }

    fn ended<'a>(
        &'a self,
        step: &'a SkillStep,
        record: &'a StepRecord,
    ) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(async move {
            let place = self.place;
            self.worker.update(|run| run.parts[place].note_end(&step.id, &step.tool, record.clone())).await
        })
    }
}
