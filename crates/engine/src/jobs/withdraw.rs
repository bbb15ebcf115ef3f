//! Withdraws the held calls of runs that a person ended, and of jobs that a person deletes.

use super::Jobs;
use crate::approvals::Cancellation;
use std::collections::BTreeSet;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldState};
use toolbooth_core::job::{JobRecord, JobRunState, RunPart, RunRecord};
use toolbooth_store::{HeldFilter, WorkKind};
use uuid::Uuid;

impl Jobs {
    /// Withdraws the held calls of a run that a person has ended.
    pub(super) async fn withdraw_held_of_run(&self, run: &RunRecord, state: JobRunState, by: &str) {
        let end = if state == JobRunState::Cancelled { "cancelled" } else { "ended" };
        let reason = format!("the run of `{}` was {end}", run.name);
        // Not all held calls say which run they belong to: those that an earlier version stored, and those of a tool behind
        // the called one.
        let known: Vec<Uuid> = run.parts.iter().flat_map(RunPart::held).map(|(_, held)| held).collect();
        let cancellation = Cancellation { call: run.id, by: by.to_owned(), reason };
        // The run has ended, so a failure is only logged. A call of a cancelled run is withdrawn at the latest when it is
        // approved.
        let _ = self.approvals.withdraw_or_retry(cancellation, known).await;
    }

    /// The runs of a job with held calls that are open. The rows of the runs are deleted with the job, so this is asked
    /// before.
    pub(super) async fn runs_with_held(&self, job: &JobRecord) -> Result<Vec<Uuid>, Problem> {
        let mut filter = HeldFilter {
            user: Some(job.owner.user.clone()),
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Pending, HeldState::Approved],
            ..HeldFilter::default()
        };
        let mut runs: BTreeSet<Uuid> = BTreeSet::new();
        loop {
            let open = self.store.held_calls(filter.clone()).await.map_err(|error| Problem::of(&error))?;
            // A page may be short because its calls are large, so only an empty one is the end.
            let Some(last) = open.last() else { break };
            filter.before = Some(last.id);
            runs.extend(open.iter().filter_map(HeldCall::run));
        }
        let mut of_job = Vec::new();
        for run in runs {
            let row = self.store.work(WorkKind::Run, &run.to_string()).await;
            let row = row.map_err(|error| Problem::of(&error))?;
            if row.is_some_and(|row| row.parent.as_deref() == Some(job.key.as_str())) {
                of_job.push(run);
            }
        }
        Ok(of_job)
    }

    /// Withdraws the held calls of these runs of a job that a person has deleted.
    pub(super) async fn withdraw_held_of_job(&self, job: &JobRecord, runs: Vec<Uuid>, by: &str) {
        for run in runs {
            let reason = format!("the job `{}` was deleted", job.name);
            let cancellation = Cancellation { call: run, by: by.to_owned(), reason };
            // The job is gone, so a failure is only logged. A call of a run without a row is withdrawn at the latest when
            // it is approved.
            let _ = self.approvals.withdraw_or_retry(cancellation, Vec::new()).await;
        }
    }
}
