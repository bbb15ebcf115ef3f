//! Requests about the runs of jobs: their history, and decisions about them.

use super::rows::{WorkRecord, record, replaced};
use super::work_list::WorkList;
use super::{Jobs, MAX_TRIES, busy, fault};
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    EscalationActs, EscalationTrigger, JobFault, JobRecord, JobRunState, JobState, PartOutcome, RunRecord,
};
use toolbooth_core::skill::StepRecord;
use toolbooth_store::{RowBodies, WorkFilter, WorkKind, WorkUpdate};
use uuid::Uuid;

/// A page of runs, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunPage {
    /// Runs before the one with this id.
    pub before: Option<String>,
    /// The page size.
    pub limit: u32,
}

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTitle {
    /// `job` or `skill`.
    pub kind: &'static str,
    /// The name of the job or skill.
    pub name: String,
    /// The state of the run.
    pub state: JobRunState,
}

/// What to do about the steps that a crash interrupted, and about those that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptedStep {
    /// Call the tool again.
    Repeat,
    /// Go on as if it had succeeded, without results.
    Skip,
}

impl Jobs {
    /// The runs of a job, newest first.
    pub async fn runs(
        &self,
        caller: &Caller,
        name: &str,
        page: RunPage,
    ) -> Result<WorkList<RunRecord>, Problem> {
        let known = self.visible_job(caller, name).await?;
        let Some(job) = &known.record else { return Ok(WorkList::new(0)) };
        // Runs contain arguments and results of their owner.
        self.check_owner(caller, job)?;
        self.run_list(WorkFilter { parent: Some(known.key), ..WorkFilter::of(WorkKind::Run) }, page).await
    }

    /// A page of runs. Each record is read on its own, because runs contain the results of their steps.
    pub(super) async fn run_list(
        &self,
        filter: WorkFilter,
        page: RunPage,
    ) -> Result<WorkList<RunRecord>, Problem> {
        let filter = WorkFilter {
            before: page.before,
            // One more than the page, which shows whether there is another page.
            limit: Some(page.limit.saturating_add(1)),
            bodies: RowBodies::LeftOut,
            ..filter
        };
        let heads = self.store.work_rows(filter).await.map_err(|error| Problem::of(&error))?;
        let mut list = WorkList::new(page.limit as usize);
        for head in heads {
            if list.is_full() {
                return Ok(list);
            }
            let row = self.store.work(WorkKind::Run, &head.id).await.map_err(|error| Problem::of(&error))?;
            list.pass(head.id);
            if let Some(row) = row
                && let Ok(run) = record(&row)
            {
                list.add(row.body.len(), run);
            }
        }
        list.next = None;
        Ok(list)
    }

    /// A run of a job.
    pub async fn show_run(&self, caller: &Caller, name: &str, id: &str) -> Result<RunRecord, Problem> {
        let known = self.visible_job(caller, name).await?;
        let shown: String = id.chars().take(64).collect();
        let unknown = || fault(&JobFault::UnknownRun { id: shown.clone() });
        let id: Uuid = id.parse().map_err(|_| unknown())?;
        let job = known.record.as_ref().ok_or_else(unknown)?;
        self.check_owner(caller, job)?;
        self.run_record(id).await?.filter(|run| run.job == known.key).ok_or_else(unknown)
    }

    /// What a run is of, `job` or `skill` with its name, and its state. For what the caller may see anyway: a held call of
    /// the run, or the call that started it.
    pub async fn run_title(&self, id: Uuid) -> Result<Option<RunTitle>, Problem> {
        let run = self.run_record(id).await?;
        Ok(run.map(|run| RunTitle {
            kind: if run.is_of_skill() { "skill" } else { "job" },
            state: run.state,
            name: run.name,
        }))
    }

    /// Continues a held run after a person's decision about its interrupted or failed steps.
    pub async fn decide_run(
        self: &Arc<Self>,
        caller: &Caller,
        name: &str,
        id: &str,
        decision: InterruptedStep,
    ) -> Result<RunRecord, Problem> {
        for _ in 0..MAX_TRIES {
            let run = self.show_run(caller, name, id).await?;
            let Some(job) = self.job_record(&run.job).await? else {
                return Err(fault(&JobFault::UnknownJob { name: name.to_owned() }));
            };
            self.check_owner(caller, &job)?;
            if run.state != JobRunState::Held {
                return Err(fault(&JobFault::NotHeld { id: run.id.to_string(), state: run.state }));
            }
            let now = self.clock.now_ms();
            let mut next = run.clone();
            apply(&mut next, decision);
            next.state = JobRunState::Pending;
            next.error = None;
            next.lease_until_ms = Some(now);
            next.touch(now);
            let outcome = match decision {
                InterruptedStep::Repeat => "repeated",
                InterruptedStep::Skip => "skipped",
            };
            let audit = self.audit_run(&caller.user, &next, outcome);
            let changes = vec![replaced(&run, &next)?];
            let update = self.store.change_work(changes, Some(audit)).await;
            if update.map_err(|error| Problem::of(&error))? == WorkUpdate::Won {
                self.emit_run(EventKind::JobResumed, &next, |event| event.outcome(outcome));
                self.start_run(next).await?;
                return self.show_run(caller, name, id).await;
            }
        }
        Err(busy(name))
    }

    /// Records a person's answer whether a run meets a criterion, by its number from 0. A run that has ended succeeds or
    /// fails by its criteria.
    pub async fn confirm(
        &self,
        caller: &Caller,
        name: &str,
        id: &str,
        (place, met): (usize, bool),
    ) -> Result<RunRecord, Problem> {
        for _ in 0..MAX_TRIES {
            let run = self.show_run(caller, name, id).await?;
            let now = self.clock.now_ms();
            let mut next = run.clone();
            let Some(criterion) = next.criteria.get_mut(place) else {
                return Err(fault(&JobFault::UnknownCriterion { place }));
            };
            (criterion.met, criterion.at_ms) = (Some(met), Some(now));
            criterion.by = Some(caller.user.to_string());
            next.apply_criteria();
            let policy = self.definition_of_run(&run).await.map(|definition| definition.escalation_policy);
            let policy = policy.unwrap_or_default();
            let mut acts = EscalationActs::default();
            if next.state == JobRunState::Failed && !met {
                acts = Self::escalate(&mut next, &policy, EscalationTrigger::Criteria);
            }
            next.touch(now);
            let mut changes = vec![replaced(&run, &next)?];
            if let Some(job) = self.job_record(&run.job).await?.filter(|job| job.last_run == Some(run.id)) {
                let mut changed = JobRecord { open_criteria: next.open_criteria(), ..job.clone() };
                changed.paused |= acts.pause;
                changed.state = match (job.state, next.state) {
                    (JobState::Succeeded, JobRunState::Failed) => JobState::Failed,
                    (JobState::Failed, JobRunState::Succeeded) => JobState::Succeeded,
                    (state, _) => state,
                };
                changed.touch(now);
                changes.push(replaced(&job, &changed)?);
            }
            let outcome = if met { "criterion met" } else { "criterion not met" };
            let audit = self.audit_run(&caller.user, &next, outcome);
            let update = self.store.change_work(changes, Some(audit)).await;
            if update.map_err(|error| Problem::of(&error))? == WorkUpdate::Won {
                self.announce_escalations(run.escalations.len(), &next, &policy);
                return Ok(next);
            }
        }
        Err(busy(name))
    }
}

/// Clears the way for a held run.
fn apply(run: &mut RunRecord, decision: InterruptedStep) {
    for part in &mut run.parts {
        let is_open = |record: Option<&StepRecord>| record.is_none_or(|record| record.error.is_some());
        let open: Vec<String> = part
            .steps
            .iter()
            .filter(|(_, step)| is_open(step.record.as_ref()))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &open {
            match decision {
                InterruptedStep::Repeat => {
                    part.steps.remove(id);
                }
                InterruptedStep::Skip => {
                    if let Some(step) = part.steps.get_mut(id) {
                        step.record = Some(StepRecord::succeeded(step.call, serde_json::Value::Null));
                    }
                }
            }
        }
        if part.outcome != Some(PartOutcome::Succeeded) {
            part.outcome = None;
        }
    }
}
