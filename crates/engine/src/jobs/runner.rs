//! Claims runs, has a worker work on them, and stores how they ended.

use super::rows::{WorkRecord, record, replaced};
use super::run_slots::NoRunSlot;
use super::work_end::{LEASE_MS, WorkEnd};
use super::worker::RunWorker;
use super::{Jobs, MAX_TRIES, busy};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::AbortHandle;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Lookup;
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldState};
use toolbooth_core::job::{
    EscalationActs, EscalationPolicy, EscalationTrigger, JobDefinition, JobRecord, JobRunState, JobState,
    PartOutcome, RunPart, RunRecord, RunSample, TaskRecord, TaskStatus,
};
use toolbooth_core::retry::Repeat;
use toolbooth_core::skill::StepError;
use toolbooth_store::{WorkKind, WorkUpdate};
use uuid::Uuid;

/// The actor of ends that no person decided.
const GATEWAY: &str = "(gateway)";
/// When a run without a free slot is looked at again.
const PUT_OFF_MS: i64 = 1_000;

impl Jobs {
    /// Claims a run and works on it in a task of its own, if there is a free slot.
    pub(super) async fn start_run(self: &Arc<Self>, run: RunRecord) -> Result<(), Problem> {
        let now = self.clock.now_ms();
        let slot = match self.slots.take(&run.owner.user) {
            Ok(slot) => slot,
            Err(NoRunSlot::OfAll) => {
                self.note_due(Some(now + PUT_OFF_MS));
                return Ok(());
            }
            Err(NoRunSlot::OfUser) => return self.put_off(&run, now).await,
        };
        let is_new = run.started_ms.is_none();
        let mut claimed = run.clone();
        claimed.state = JobRunState::Running;
        claimed.worker = Some(self.worker.clone());
        claimed.lease_until_ms = Some(now + LEASE_MS);
        claimed.started_ms = run.started_ms.or(Some(now));
        claimed.attempts = run.attempts.saturating_add(1);
        claimed.error = None;
        claimed.touch(now);
        let changes = vec![replaced(&run, &claimed)?];
        let end = self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
        if end != WorkUpdate::Won {
            return Ok(());
        }
        if is_new {
            self.emit_run(EventKind::JobStarted, &claimed, |event| {
                event.with("trigger", claimed.trigger.as_str())
            });
        }
        let (jobs, id) = (self.clone(), claimed.id);
        // The task starts after its handle is in the table, so that it can always be cancelled.
        let (begin, begun) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let _ = begun.await;
            jobs.work_on(claimed).await;
            jobs.running().remove(&id);
            drop(slot);
        });
        self.running().insert(id, task.abort_handle());
        let _ = begin.send(());
        Ok(())
    }

    /// Looks at a run again later. Its row says so, because a look handles a limited number of rows: those of one user
    /// must not always be the first ones.
    async fn put_off(&self, run: &RunRecord, now_ms: i64) -> Result<(), Problem> {
        let until_ms = Some(now_ms + PUT_OFF_MS);
        self.note_due(until_ms);
        let mut later = RunRecord { lease_until_ms: until_ms, ..run.clone() };
        later.touch(now_ms);
        let changes = vec![replaced(run, &later)?];
        self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
        Ok(())
    }

    /// Stops working on a run whose row says that it has ended.
    pub(super) fn abort_run(&self, id: Uuid) {
        if let Some(task) = self.running().remove(&id) {
            task.abort();
        }
    }

    /// Stops all work: steps that run now may end, and no further ones start.
    pub(crate) async fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        for _ in 0..50 {
            if self.running().values().all(AbortHandle::is_finished) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for (_, task) in self.running().drain() {
            task.abort();
        }
    }

    async fn work_on(self: &Arc<Self>, run: RunRecord) {
        let (id, name) = (run.id, run.name.clone());
        let worker = RunWorker::new(self.clone(), run);
        let end = tokio::select! {
            end = worker.work() => end,
            () = worker.keep_lease() => WorkEnd::Lost,
        };
        if let Err(problem) = self.settle(id, &end).await {
            tracing::error!(job = %name, run = %id, "the end of a run could not be stored: {}", problem.message);
        }
    }

    /// Stores how the work on a run ended. If the lease was being renewed at the same moment, it is tried again.
    async fn settle(self: &Arc<Self>, id: Uuid, end: &WorkEnd) -> Result<(), Problem> {
        for _ in 0..MAX_TRIES {
            let is_ours = |run: &RunRecord| {
                run.worker.as_ref() == Some(&self.worker) && run.state == JobRunState::Running
            };
            let Some(run) = self.run_record(id).await?.filter(is_ours) else { return Ok(()) };
            if self.settle_once(run, end).await? == WorkUpdate::Won {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(busy("run"))
    }

    async fn settle_once(self: &Arc<Self>, run: RunRecord, end: &WorkEnd) -> Result<WorkUpdate, Problem> {
        let definition = self.definition_of_run(&run).await;
        match end {
            WorkEnd::Lost => Ok(WorkUpdate::Won),
            WorkEnd::Stopped => {
                self.release(&run, &run, JobRunState::Pending, Some(self.clock.now_ms())).await
            }
            WorkEnd::Waits(until_ms) => {
                self.release_waiting(run, JobRunState::Waiting, Some(*until_ms), definition).await
            }
            // No person can decide about the steps of a skill, whose caller can run it again.
            WorkEnd::Held(error) if run.is_of_skill() => {
                let error = StepError { hint: None, ..error.clone() };
                self.end_run(&run, JobRunState::Failed, Some(error), definition, GATEWAY).await
            }
            WorkEnd::Held(error) => {
                let run = RunRecord { error: Some(error.clone()), ..run };
                self.release_waiting(run, JobRunState::Held, None, definition).await
            }
            WorkEnd::Failed(error) => {
                self.end_run(&run, JobRunState::Failed, Some(error.clone()), definition, GATEWAY).await
            }
            WorkEnd::Ended => {
                let failed = run.parts.iter().any(|part| part.outcome != Some(PartOutcome::Succeeded));
                let (state, error) = match failed {
                    true => (JobRunState::Failed, first_error(&run)),
                    false => (JobRunState::Succeeded, None),
                };
                self.end_run(&run, state, error, definition, GATEWAY).await
            }
        }
    }

    /// Gives back a run that waits for a person.
    async fn release_waiting(
        self: &Arc<Self>,
        run: RunRecord,
        state: JobRunState,
        until_ms: Option<i64>,
        definition: Option<JobDefinition>,
    ) -> Result<WorkUpdate, Problem> {
        let policy = definition.map(|definition| definition.escalation_policy).unwrap_or_default();
        let mut changed = run.clone();
        let acts = Self::escalate(&mut changed, &policy, EscalationTrigger::Held);
        let acts = acts.and(Self::escalate_tasks(&mut changed, EscalationTrigger::Held));
        let until_ms = until_ms.or_else(|| Self::overdue_ms(&changed, &policy));
        let update = self.release(&run, &changed, state, until_ms).await?;
        if update == WorkUpdate::Won {
            self.announce_escalations(run.escalations.len(), &changed, &policy);
            if acts.pause {
                self.pause_by_policy(&run.job).await?;
            }
            self.note_due(until_ms);
            let held = run.parts.iter().flat_map(RunPart::held).map(|(_, held)| held).next();
            self.emit_run(EventKind::JobHeld, &run, |event| {
                let event = event.outcome(state.as_str());
                match held {
                    Some(held) => event.call(held),
                    None => event,
                }
            });
        }
        Ok(update)
    }

    /// Gives a run back, in a state in which it can be taken up again.
    async fn release(
        &self,
        stored: &RunRecord,
        run: &RunRecord,
        state: JobRunState,
        until_ms: Option<i64>,
    ) -> Result<WorkUpdate, Problem> {
        let mut released = RunRecord { state, worker: None, lease_until_ms: until_ms, ..run.clone() };
        released.touch(self.clock.now_ms());
        let changes = vec![replaced(stored, &released)?];
        self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))
    }

    /// Ends a run, and changes its job in the same transaction; `by` is the actor in the audit. `Lost` if the run was
    /// changed meanwhile.
    pub(super) async fn end_run(
        self: &Arc<Self>,
        run: &RunRecord,
        state: JobRunState,
        error: Option<StepError>,
        definition: Option<JobDefinition>,
        by: &str,
    ) -> Result<WorkUpdate, Problem> {
        let now = self.clock.now_ms();
        let mut ended = RunRecord { state, error, ..run.clone() };
        let policy = definition.as_ref().map(|definition| definition.escalation_policy.clone());
        let policy = policy.unwrap_or_default();
        let acts = Self::judge_end(&mut ended, definition.as_ref(), &policy, now);
        if acts.hold && ended.state == JobRunState::Failed {
            if acts.pause {
                self.pause_by_policy(&run.job).await?;
            }
            let update = self.release(run, &ended, JobRunState::Held, None).await?;
            if update == WorkUpdate::Won {
                self.announce_escalations(run.escalations.len(), &ended, &policy);
                self.emit_run(EventKind::JobHeld, &ended, |event| event.outcome("held"));
            }
            return Ok(update);
        }
        (ended.worker, ended.lease_until_ms, ended.ended_ms) = (None, None, Some(now));
        ended.touch(now);
        for _ in 0..MAX_TRIES {
            let mut changes = vec![replaced(run, &ended)?];
            let job = self.job_record(&run.job).await?;
            if let Some(job) = &job {
                let mut changed = after_run(job, &ended);
                changed.paused |= acts.pause;
                changed.touch(now);
                changes.push(replaced(job, &changed)?);
            }
            let audit = self.audit_run(by, &ended, ended.state.as_str());
            match self.store.change_work(changes, Some(audit)).await.map_err(|error| Problem::of(&error))? {
                WorkUpdate::Won => {
                    self.announce_escalations(run.escalations.len(), &ended, &policy);
                    self.announce_end(&ended);
                    return Ok(WorkUpdate::Won);
                }
                WorkUpdate::Lost(Some(row)) if row.kind == WorkKind::Job => {}
                lost => return Ok(lost),
            }
        }
        Err(busy(&run.name))
    }

    /// Checks the acceptance criteria of a run that has ended, and escalates it if it failed.
    fn judge_end(
        ended: &mut RunRecord,
        definition: Option<&JobDefinition>,
        policy: &EscalationPolicy,
        now_ms: i64,
    ) -> EscalationActs {
        if ended.state == JobRunState::Succeeded
            && let Some(definition) = definition
            && let Some(unmet) = judge_criteria(ended, definition, now_ms)
        {
            ended.state = JobRunState::Failed;
            ended.error = Some(unmet);
            return Self::escalate(ended, policy, EscalationTrigger::Criteria);
        }
        if ended.state != JobRunState::Failed {
            return EscalationActs::default();
        }
        let acts = Self::escalate(ended, policy, EscalationTrigger::Failed);
        // Without a definition, a person ended the run.
        match definition {
            Some(_) => acts.and(Self::escalate_tasks(ended, EscalationTrigger::Failed)),
            None => acts,
        }
    }

    fn announce_end(&self, run: &RunRecord) {
        let kind = match run.state {
            JobRunState::Succeeded => EventKind::JobSucceeded,
            JobRunState::Cancelled => EventKind::JobCancelled,
            _ => EventKind::JobFailed,
        };
        let took = run.ended_ms.zip(run.started_ms).map(|(end, start)| end.saturating_sub(start));
        self.emit_run(kind, run, |mut event| {
            if let Some(took) = took {
                event = event.took(Duration::from_millis(took.unsigned_abs()));
            }
            match &run.error {
                Some(error) => event.code(error.code.clone()),
                None => event,
            }
        });
    }

    /// Whether a waiting run can go on: a held call was decided and ran, or a task has ended.
    pub(super) async fn may_continue(&self, run: &RunRecord) -> Result<bool, Problem> {
        let mut waits = false;
        for part in run.parts.iter().filter(|part| part.outcome.is_none()) {
            for (_, id) in part.held() {
                waits = true;
                let held = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
                if held.is_none_or(|held| !is_open(&held)) {
                    return Ok(true);
                }
            }
            if let Some(task) = part.task {
                waits = true;
                if self.task_state(task).await?.is_none_or(TaskStatus::is_final) {
                    return Ok(true);
                }
            }
        }
        Ok(!waits)
    }

    pub(super) async fn task_state(&self, id: Uuid) -> Result<Option<TaskStatus>, Problem> {
        let row =
            self.store.work(WorkKind::Task, &id.to_string()).await.map_err(|error| Problem::of(&error))?;
        Ok(row.as_ref().map(record::<TaskRecord>).transpose()?.map(|task| task.state))
    }

    /// Whether repeating a call of this tool does no harm, by the rule of retries and replays.
    pub(super) fn is_safe(&self, tool: &str, caller: &Caller) -> bool {
        match self.catalog.load().tool(tool, caller) {
            Lookup::Found(tool) => matches!(Repeat::of(tool), Repeat::Harmless),
            Lookup::Ambiguous(_) | Lookup::Unknown => false,
        }
    }
}

/// Whether a held call has not been decided, or was approved and has not ended.
fn is_open(held: &HeldCall) -> bool {
    matches!(held.state, HeldState::Pending | HeldState::Approved)
}

/// The job after a run of it has ended.
fn after_run(job: &JobRecord, run: &RunRecord) -> JobRecord {
    let mut changed = job.clone();
    if job.active_run != Some(run.id) {
        return changed;
    }
    changed.active_run = None;
    changed.is_trial = false;
    changed.last_run = Some(run.id);
    changed.open_criteria = run.open_criteria();
    changed.state = match run.state {
        _ if job.next_run_ms.is_some() && job.state == JobState::Running => JobState::Scheduled,
        // It can still be scheduled.
        _ if job.is_trial => JobState::Draft,
        JobRunState::Succeeded => JobState::Succeeded,
        JobRunState::Cancelled => JobState::Cancelled,
        _ => JobState::Failed,
    };
    if let (Some(start), Some(end)) = (run.started_ms, run.ended_ms)
        && run.state != JobRunState::Cancelled
    {
        changed.add_sample(RunSample {
            at_ms: end,
            duration_ms: end.saturating_sub(start).unsigned_abs(),
            ok: run.state == JobRunState::Succeeded,
        });
    }
    changed
}

/// Checks the criteria that the gateway can check. The error names the first one that is not met; a person may have
/// said so while the run was not over.
fn judge_criteria(run: &mut RunRecord, definition: &JobDefinition, now_ms: i64) -> Option<StepError> {
    for (place, criterion) in definition.acceptance_criteria.iter().enumerate() {
        let Some(met) = criterion.is_met(run) else { continue };
        // A run that started before the definition changed has other criteria.
        if let Some(record) =
            run.criteria.get_mut(place).filter(|record| record.criterion == criterion.sentence())
        {
            (record.met, record.at_ms) = (Some(met), Some(now_ms));
        }
    }
    run.unmet_criterion()
}

fn first_error(run: &RunRecord) -> Option<StepError> {
    let steps = run.parts.iter().flat_map(|part| part.steps.values());
    steps.filter_map(|step| step.record.as_ref()?.error.clone()).next().or_else(|| run.error.clone())
}
