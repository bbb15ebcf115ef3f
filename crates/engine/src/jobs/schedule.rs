//! Looks for work that is due: times of jobs, and runs without a living worker.

use super::rows::{WorkRecord, added, record, replaced};
use super::{Jobs, MAX_TRIES, busy};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    DueDecision, EscalationTrigger, JobDefinition, JobRecord, JobRunState, JobState, RunRecord, RunTrigger,
};
use toolbooth_core::skill::StepError;
use toolbooth_store::{StoreError, WorkFilter, WorkKind, WorkRow, WorkUpdate};
use uuid::Uuid;

/// The actor of runs that were due.
const SCHEDULE: &str = "(schedule)";
/// The most rows that one look handles.
const MAX_DUE: u32 = 64;
/// How long after a look another one follows if other processes share the store and may have added work.
const SHARED_LOOK_MS: i64 = 5_000;

impl Jobs {
    /// Starts what is due. Costs a few atomic operations if nothing is.
    pub async fn run_due(self: &Arc<Self>) {
        self.looks.store(true, Ordering::Relaxed);
        let now = self.clock.now_ms();
        if self.stopping.load(Ordering::Relaxed) || self.next_look_ms.load(Ordering::Relaxed) > now {
            return;
        }
        // Reset first, so that work added from now on lowers it again.
        let latest = if self.store.is_shared() { now + SHARED_LOOK_MS } else { i64::MAX };
        self.next_look_ms.store(latest, Ordering::Relaxed);
        let due = match self.store.due_work(now, MAX_DUE).await {
            Ok(due) => due,
            // The gateway is stopping.
            Err(StoreError::Closed) => return,
            Err(error) => {
                self.note_due(Some(now));
                tracing::error!("jobs that are due could not be read: {error}");
                return;
            }
        };
        for row in due {
            let handled = match row.kind {
                WorkKind::Job => self.job_is_due(&row).await,
                WorkKind::Run => self.run_is_due(&row).await,
                WorkKind::Task => self.task_is_due(&row).await,
                WorkKind::CallTask => Ok(()),
            };
            if let Err(problem) = handled {
                tracing::error!(name = %row.name, "work that is due could not be started: {}", problem.message);
            }
        }
        match self.store.next_work_ms().await {
            Ok(next) => self.note_due(next),
            Err(_) => self.note_due(Some(now)),
        }
    }

    /// Continues runs whose worker ended with an earlier process. Processes that share a store wait for the lease.
    pub(crate) async fn take_over(&self) {
        self.note_due(Some(i64::MIN));
        if self.store.is_shared() {
            return;
        }
        let states = vec![JobRunState::Running.as_str().to_owned()];
        let filter = WorkFilter { states, ..WorkFilter::of(WorkKind::Run) };
        let rows = match self.all_rows(filter).await {
            Ok(rows) => rows,
            Err(problem) => {
                tracing::error!("interrupted runs of jobs could not be read: {}", problem.message);
                return;
            }
        };
        for row in rows {
            if let Err(problem) = self.release_lease(&row).await {
                tracing::error!(job = %row.name, "an interrupted run could not be released: {}", problem.message);
            }
        }
    }

    async fn release_lease(&self, row: &WorkRow) -> Result<(), Problem> {
        let run: RunRecord = record(row)?;
        let now = self.clock.now_ms();
        let mut released = RunRecord { worker: None, lease_until_ms: Some(now), ..run.clone() };
        released.touch(now);
        let changes = vec![replaced(&run, &released)?];
        self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
        Ok(())
    }

    /// A time of a job has come.
    async fn job_is_due(self: &Arc<Self>, row: &WorkRow) -> Result<(), Problem> {
        let job: JobRecord = record(row)?;
        let (Some(due_ms), now) = (job.next_run_ms, self.clock.now_ms()) else { return Ok(()) };
        let definition = self.definition_of(&job);
        let schedule =
            definition.as_ref().and_then(|definition| definition.recurrence.as_ref()?.compile().ok());
        let decision = match &schedule {
            Some(schedule) => schedule.decide(due_ms, now),
            // The manifest is gone, or has no recurrence any more.
            None => DueDecision { run_ms: None, missed: 1, next_ms: None },
        };
        let mut changed = JobRecord { next_run_ms: decision.next_ms, ..job.clone() };
        changed.touch(now);
        let still_running = job.active_run.is_some();
        let run_ms = decision.run_ms.filter(|_| !still_running);
        let missed = decision.missed + u32::from(still_running && decision.run_ms.is_some());
        let mut changes = Vec::new();
        let mut run = None;
        if let (Some(run_ms), Some(definition)) = (run_ms, &definition) {
            let mut due = new_run(&changed, definition, RunTrigger::Schedule, now);
            due.due_ms = Some(run_ms);
            changed.state = JobState::Running;
            (changed.active_run, changed.last_run) = (Some(due.id), Some(due.id));
            changes.push(added(&due)?);
            run = Some(due);
        } else if decision.next_ms.is_none() && !still_running && schedule.is_some() {
            // Without a definition it stays scheduled: its manifest may return.
            let is_good = job.samples.back().is_some_and(|sample| sample.ok);
            changed.state = if is_good { JobState::Succeeded } else { JobState::Failed };
        }
        let mut skipped = None;
        if missed > 0 {
            let reason = match (still_running, &definition) {
                (_, None) => "its definition was removed",
                (true, _) => "the run before it had not ended",
                (false, _) => "no gateway was running in time",
            };
            let mut lost = missed_run(&changed, due_ms, missed, reason, now);
            if let Some(definition) = &definition {
                let acts =
                    Self::escalate(&mut lost, &definition.escalation_policy, EscalationTrigger::Missed);
                changed.paused |= acts.pause;
            }
            changes.push(added(&lost)?);
            skipped = Some(lost);
        }
        changes.push(replaced(&job, &changed)?);
        let audit = match (&run, &skipped) {
            (Some(run), _) => Some(self.audit_run(SCHEDULE, run, "started")),
            (None, Some(lost)) => Some(self.audit_run(SCHEDULE, lost, "missed")),
            (None, None) => None,
        };
        let won = self.store.change_work(changes, audit).await.map_err(|error| Problem::of(&error))?;
        if won != WorkUpdate::Won {
            // Another process was first.
            return Ok(());
        }
        if let Some(lost) = skipped {
            self.emit_run(EventKind::JobMissed, &lost, |event| event.with("missed", missed));
            if let Some(definition) = &definition {
                self.announce_escalations(0, &lost, &definition.escalation_policy);
            }
        }
        self.note_due(changed.next_run_ms);
        match run {
            Some(run) => self.start_run(run).await,
            None => Ok(()),
        }
    }

    /// A run has no worker, or the lease of its worker has ended.
    async fn run_is_due(self: &Arc<Self>, row: &WorkRow) -> Result<(), Problem> {
        let run: RunRecord = record(row)?;
        match run.state {
            JobRunState::Pending => self.start_run(run).await,
            JobRunState::Running => {
                if self.running().get(&run.id).is_some_and(|task| !task.is_finished()) {
                    return Ok(());
                }
                tracing::warn!(job = %run.name, run = %run.id, "a run whose worker ended is continued");
                self.start_run(run).await
            }
            JobRunState::Waiting => match self.may_continue(&run).await? {
                true => self.start_run(run).await,
                false => self.wait_longer(run).await,
            },
            JobRunState::Held => self.wait_longer(run).await,
            _ => Ok(()),
        }
    }

    /// Looks at a waiting run again later, and escalates it if it is overdue.
    async fn wait_longer(&self, run: RunRecord) -> Result<(), Problem> {
        let now = self.clock.now_ms();
        let mut later = run.clone();
        let policy = self.definition_of_run(&run).await.map(|definition| definition.escalation_policy);
        let policy = policy.unwrap_or_default();
        let mut overdue = Self::overdue_ms(&later, &policy);
        if overdue.is_some_and(|overdue| overdue <= now) {
            let acts = Self::escalate(&mut later, &policy, EscalationTrigger::Overdue);
            if acts.pause {
                self.pause_by_policy(&run.job).await?;
            }
            overdue = None;
        }
        later.lease_until_ms = match run.state {
            JobRunState::Waiting => Some(now + super::work_end::WAIT_MS),
            _ => overdue,
        };
        later.touch(now);
        let changes = vec![replaced(&run, &later)?];
        let update = self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
        if update == WorkUpdate::Won {
            self.announce_escalations(run.escalations.len(), &later, &policy);
        }
        self.note_due(later.lease_until_ms);
        Ok(())
    }

    /// Pauses the schedule of a job because its escalation policy says so.
    pub(super) async fn pause_by_policy(&self, key: &str) -> Result<(), Problem> {
        for _ in 0..MAX_TRIES {
            let Some(job) = self.job_record(key).await?.filter(|job| !job.paused) else { return Ok(()) };
            let mut paused = JobRecord { paused: true, ..job.clone() };
            paused.touch(self.clock.now_ms());
            let changes = vec![replaced(&job, &paused)?];
            let end = self.store.change_work(changes, None).await.map_err(|error| Problem::of(&error))?;
            if end == WorkUpdate::Won {
                self.emit(EventKind::JobPaused, &paused, |event| event.with("by", "escalation"));
                return Ok(());
            }
        }
        Err(busy(key))
    }
}

/// A new run of a job.
pub(super) fn new_run(
    job: &JobRecord,
    definition: &JobDefinition,
    trigger: RunTrigger,
    now_ms: i64,
) -> RunRecord {
    let mut run = RunRecord::new(
        Uuid::now_v7(),
        (job.key.clone(), job.name.clone()),
        job.owner.clone(),
        trigger,
        now_ms,
    );
    run.criteria = definition.acceptance_criteria.iter().map(|criterion| criterion.unknown()).collect();
    run
}

/// The record of times at which a job did not run.
fn missed_run(job: &JobRecord, due_ms: i64, missed: u32, reason: &str, now_ms: i64) -> RunRecord {
    let message = match missed {
        1 => format!("one time was missed: {reason}"),
        _ => format!("{missed} times were missed: {reason}"),
    };
    let names = (job.key.clone(), job.name.clone());
    RunRecord {
        state: JobRunState::Missed,
        due_ms: Some(due_ms),
        error: Some(StepError { code: "job.missed".into(), message, hint: None }),
        lease_until_ms: None,
        ended_ms: Some(now_ms),
        ..RunRecord::new(Uuid::now_v7(), names, job.owner.clone(), RunTrigger::Schedule, now_ms)
    }
}
