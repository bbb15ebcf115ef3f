//! Runs of skills that callers started and whose steps wait for a person: they are stored and continue like runs of jobs.

use super::parts::OWN_PLAN;
use super::rows::added;
use super::work_end::WAIT_MS;
use super::work_list::WorkList;
use super::{Jobs, RunPage, fault};
use crate::skills::{HeldRunStore, HeldSkillRun, PlanRun};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{JobFault, JobRunState, RunPart, RunRecord, RunTrigger, WorkOwner, skill_key};
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_store::{WorkFilter, WorkKind};
use uuid::Uuid;

impl HeldRunStore for Jobs {
    fn keep(self: Arc<Self>, held: HeldSkillRun) -> BoxFuture<'static, Result<(), Problem>> {
        Box::pin(async move {
            let now = self.clock.now_ms();
            let run = run_of(held, now);
            self.note_due(run.lease_until_ms);
            let update = self.store.change_work(vec![added(&run)?], None).await;
            update.map_err(|error| Problem::of(&error))?;
            Ok(())
        })
    }
}

/// The stored form of a held run.
fn run_of(held: HeldSkillRun, now_ms: i64) -> RunRecord {
    let HeldSkillRun { run, steps } = held;
    let PlanRun { plan, caller, client, arguments, limit, label, .. } = run;
    let mut part =
        RunPart::new(OWN_PLAN.to_owned(), Vec::new(), Some(plan.written().clone()), arguments.clone());
    part.limit_ms = u64::try_from(limit.as_millis()).ok();
    for step in plan.steps() {
        if let Some(record) = steps.get(&step.id).filter(|record| record.is_kept()) {
            part.note_end(&step.id, &step.tool, record.clone());
        }
    }
    let names = (skill_key(&label.name), label.name);
    RunRecord {
        state: JobRunState::Waiting,
        started_by: Some(caller.user.to_string()),
        client: Some(client.name()),
        arguments,
        parts: vec![part],
        lease_until_ms: Some(now_ms + WAIT_MS),
        started_ms: Some(now_ms),
        ..RunRecord::new(label.run, names, WorkOwner::of(&caller), RunTrigger::Manual, now_ms)
    }
}

impl Jobs {
    /// The runs of a skill that waited for a person, newest first: the caller's own, or those of all users for an
    /// administrator.
    pub async fn skill_runs(
        &self,
        caller: &Caller,
        skill: &str,
        page: RunPage,
    ) -> Result<WorkList<RunRecord>, Problem> {
        let filter = WorkFilter {
            parent: Some(skill_key(skill)),
            user: (caller.admin == Admin::No).then(|| caller.user.to_string()),
            ..WorkFilter::of(WorkKind::Run)
        };
        self.run_list(filter, page).await
    }

    /// A run of a skill that waited for a person.
    pub async fn skill_run(&self, caller: &Caller, skill: &str, id: &str) -> Result<RunRecord, Problem> {
        let shown: String = id.chars().take(64).collect();
        let unknown = || fault(&JobFault::UnknownRun { id: shown.clone() });
        let id: Uuid = id.parse().map_err(|_| unknown())?;
        let run = self.run_record(id).await?.filter(|run| run.job == skill_key(skill));
        let run = run.filter(|run| on_owned_work(caller, &run.owner.user) == Permission::Granted);
        run.ok_or_else(unknown)
    }
}
