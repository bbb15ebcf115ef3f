//! Requests about jobs: listing, creating, changing and scheduling them.

use super::job_heads::JobHead;
use super::rows::{WorkRecord, added, replaced};
use super::schedule::new_run;
use super::work_list::{WorkList, has_persona, size_of_json};
use super::{JobSource, Jobs, KnownJob, MAX_TRIES, busy, check_size, fault};
use crate::audit::Act;
use crate::rights_source::Rights;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::caller::Caller;
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    ANY_PERSONA, DefinitionSource, JobDefinition, JobFault, JobRecord, JobRunState, JobState, RunRecord,
    RunTrigger, WorkOwner, extended, user_key,
};
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_core::persona::is_same_name;
use toolbooth_core::registry::SharedTools;
use toolbooth_store::{WorkChange, WorkKind, WorkUpdate};

/// The actor of acts that a signed request of another system causes.
const EXTERNAL: &str = "(external request)";

/// Filters for a list of jobs; all given fields must match.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    /// Jobs in one of these states; empty means any state.
    pub states: Vec<JobState>,
    /// Jobs of this user.
    pub owner: Option<String>,
    /// Whether jobs that do not belong to a persona are listed.
    pub shared: SharedTools,
    /// Jobs after this place, for the next page.
    pub after: Option<String>,
    /// The page size.
    pub limit: usize,
}

/// What to do with the schedule of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleSwitch {
    /// It is not due until it is resumed.
    Pause,
    /// It is due again; times that passed are skipped.
    Resume,
}

impl Jobs {
    /// A page of the jobs that any of these callers may see, sorted by name. They are one user with different personas.
    pub async fn list(
        &self,
        callers: &[Arc<Caller>],
        query: &JobQuery,
    ) -> Result<WorkList<KnownJob>, Problem> {
        let manifests = self.manifests.load_full();
        let mut heads: Vec<JobHead> = Vec::new();
        let mut keys: HashSet<String> = HashSet::new();
        for caller in callers {
            let seen = self.job_heads(caller, &manifests).await?;
            heads.extend(seen.into_iter().filter(|head| keys.insert(head.key.clone())));
        }
        heads.retain(|head| {
            (query.states.is_empty() || query.states.contains(&head.state))
                && query.owner.as_deref().is_none_or(|wanted| head.owner.as_deref() == Some(wanted))
                && (query.shared == SharedTools::Included || head.persona.is_some())
                && query.after.as_ref().is_none_or(|after| head.page_key() > *after)
        });
        heads.sort_by_cached_key(JobHead::page_key);
        let mut list = WorkList::new(query.limit);
        for head in &heads {
            if list.is_full() {
                return Ok(list);
            }
            list.pass(head.page_key());
            let job = self.known_job(&manifests, head).await?;
            if let Some(job) = job.filter(|job| is_of_personas(job, callers)) {
                list.add(size_of_json(&job.definition), job);
            }
        }
        list.next = None;
        Ok(list)
    }

    /// A job that the caller may see.
    pub async fn get(&self, caller: &Caller, name: &str) -> Result<KnownJob, Problem> {
        self.visible_job(caller, name).await
    }

    /// Creates a job that belongs to the caller.
    pub async fn create(&self, caller: &Caller, body: &Value) -> Result<KnownJob, Problem> {
        let definition = read_definition(body, caller)?;
        let name = definition.name.clone();
        if self.visible_job(caller, &name).await.is_ok() {
            return Err(fault(&JobFault::Taken { name }));
        }
        let now = self.clock.now_ms();
        let job = JobRecord {
            definition: Some(definition.clone()),
            ..JobRecord::new(user_key(&caller.user, &name), name.clone(), WorkOwner::of(caller), now)
        };
        let audit = self.audit_of(caller, &job, "created");
        let update = self.store.change_work(vec![added(&job)?], Some(audit)).await;
        match update.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => Ok(KnownJob {
                key: job.key.clone(),
                source: JobSource::Request,
                definition,
                record: Some(job),
            }),
            WorkUpdate::Lost(_) => Err(fault(&JobFault::Taken { name })),
        }
    }

    /// Changes the definition of a job that a request created. `expected_ms` is the time of the last change that the
    /// caller knows.
    pub async fn patch(
        &self,
        caller: &Caller,
        name: &str,
        patch: &Map<String, Value>,
        expected_ms: Option<i64>,
    ) -> Result<KnownJob, Problem> {
        let known = self.visible_job(caller, name).await?;
        let (JobSource::Request, Some(job)) = (&known.source, &known.record) else {
            return Err(fault(&JobFault::InManifest { name: known.definition.name }));
        };
        self.check_owner(caller, job)?;
        let expected_ms = expected_ms.unwrap_or(job.updated_ms);
        if expected_ms != job.updated_ms {
            return Err(changed(job, expected_ms));
        }
        let Ok(Value::Object(base)) = serde_json::to_value(&known.definition) else {
            return Err(busy(name));
        };
        let mut merged = extended(&base, patch);
        // A null removes an optional field; the name is the job's identity.
        merged.retain(|_, value| !value.is_null());
        merged.insert("name".into(), Value::from(known.definition.name.as_str()));
        let definition = read_definition(&Value::Object(merged), caller)?;
        let now = self.clock.now_ms();
        let mut next = JobRecord { definition: Some(definition.clone()), ..job.clone() };
        if matches!(job.state, JobState::Scheduled | JobState::Running) && job.next_run_ms.is_some() {
            next.next_run_ms = next_time(&definition, now);
        }
        next.touch(now);
        let audit = self.audit_of(caller, &next, "changed");
        let changes = vec![replaced(job, &next)?];
        match self.store.change_work(changes, Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => {
                self.note_due(next.next_run_ms);
                Ok(KnownJob { definition, record: Some(next), ..known })
            }
            WorkUpdate::Lost(row) => Err(fault(&JobFault::Changed {
                name: name.to_owned(),
                expected_ms,
                updated_ms: row.map_or(0, |row| row.updated_ms),
            })),
        }
    }

    /// Deletes a job that a request created, and its runs.
    pub async fn delete(&self, caller: &Caller, name: &str) -> Result<KnownJob, Problem> {
        let known = self.visible_job(caller, name).await?;
        let (JobSource::Request, Some(job)) = (&known.source, &known.record) else {
            return Err(fault(&JobFault::InManifest { name: known.definition.name }));
        };
        self.check_owner(caller, job)?;
        if job.active_run.is_some() {
            return Err(fault(&JobFault::Running { name: job.name.clone() }));
        }
        // A run that failed may have left steps that wait for a person.
        let runs = self.runs_with_held(job).await?;
        let audit = self.audit_of(caller, job, "deleted");
        let change =
            WorkChange::Remove { kind: WorkKind::Job, id: job.key.clone(), expected_ms: job.updated_ms };
        match self.store.change_work(vec![change], Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => {
                self.withdraw_held_of_job(job, runs, &caller.user).await;
                Ok(known)
            }
            WorkUpdate::Lost(_) => Err(busy(name)),
        }
    }

    /// Changes the state of a job: schedules it, starts it, ends or cancels it. `expected_ms` is the time of the last
    /// change that the caller knows.
    pub async fn transition(
        self: &Arc<Self>,
        caller: &Caller,
        name: &str,
        to: JobState,
        expected_ms: Option<i64>,
    ) -> Result<KnownJob, Problem> {
        let known = self.visible_job(caller, name).await?;
        // A job of a manifest that was never scheduled has no time of a change.
        let updated_ms = known.record.as_ref().map_or(0, |job| job.updated_ms);
        if let Some(expected_ms) = expected_ms.filter(|expected| *expected != updated_ms) {
            let name = known.definition.name;
            return Err(fault(&JobFault::Changed { name, expected_ms, updated_ms }));
        }
        let from = known.state();
        if !from.may_become(to) {
            let name = known.definition.name;
            return Err(fault(&JobFault::JobTransition { name, from, to }));
        }
        match to {
            JobState::Scheduled => self.schedule(caller, known).await?,
            JobState::Running => {
                self.run_known(caller, known, Map::new(), RunTrigger::Manual).await?;
            }
            JobState::Succeeded => self.end_active(caller, &known, JobRunState::Succeeded).await?,
            JobState::Failed => self.end_active(caller, &known, JobRunState::Failed).await?,
            JobState::Cancelled => self.cancel(caller, known, expected_ms).await?,
            JobState::Draft => {}
        }
        self.visible_job(caller, name).await
    }

    async fn schedule(&self, caller: &Caller, known: KnownJob) -> Result<(), Problem> {
        let name = known.definition.name.clone();
        let now = self.clock.now_ms();
        let Some(next) = next_time(&known.definition, now) else {
            return Err(fault(&JobFault::NoSchedule { name }));
        };
        let (earlier, mut job) = self.adopt(caller, &known).await?;
        job.state = JobState::Scheduled;
        job.next_run_ms = Some(next);
        job.paused = false;
        self.write(caller, earlier, job, "scheduled", EventKind::JobScheduled).await?;
        self.note_due(Some(next));
        Ok(())
    }

    /// Pauses or resumes the schedule of a job.
    pub async fn switch(
        &self,
        caller: &Caller,
        name: &str,
        switch: ScheduleSwitch,
    ) -> Result<KnownJob, Problem> {
        let paused = switch == ScheduleSwitch::Pause;
        let known = self.visible_job(caller, name).await?;
        if !paused && known.state() == JobState::Cancelled {
            self.schedule(caller, known).await?;
            return self.visible_job(caller, name).await;
        }
        let Some(job) = known.record.clone().filter(|job| job.next_run_ms.is_some() || job.paused) else {
            let (state, name) = (known.state(), known.definition.name.clone());
            return Err(fault(&match next_time(&known.definition, self.clock.now_ms()) {
                Some(_) => JobFault::NotScheduled { name, state },
                None => JobFault::NoSchedule { name },
            }));
        };
        self.check_owner(caller, &job)?;
        if job.paused == paused {
            return Ok(known);
        }
        let now = self.clock.now_ms();
        let mut next = JobRecord { paused, ..job.clone() };
        if !paused {
            // Times that passed while it was paused are not missed.
            next.next_run_ms = next_time(&known.definition, now);
        }
        let (outcome, kind) = match paused {
            true => ("paused", EventKind::JobPaused),
            false => ("resumed", EventKind::JobResumed),
        };
        self.note_due(next.next_run_ms);
        self.write(caller, Some(job), next, outcome, kind).await?;
        self.visible_job(caller, name).await
    }

    async fn cancel(
        self: &Arc<Self>,
        caller: &Caller,
        known: KnownJob,
        expected_ms: Option<i64>,
    ) -> Result<(), Problem> {
        // The end of its run changes the job too, so this check cannot distinguish a later change from it.
        let mut expected_ms = expected_ms;
        if known.record.as_ref().is_some_and(|job| job.active_run.is_some()) {
            self.end_active(caller, &known, JobRunState::Cancelled).await?;
            expected_ms = None;
        }
        for _ in 0..MAX_TRIES {
            let known = self.visible_job(caller, &known.definition.name).await?;
            let updated_ms = known.record.as_ref().map_or(0, |job| job.updated_ms);
            if let Some(expected_ms) = expected_ms.filter(|expected| *expected != updated_ms) {
                let name = known.definition.name;
                return Err(fault(&JobFault::Changed { name, expected_ms, updated_ms }));
            }
            let (earlier, mut job) = self.adopt(caller, &known).await?;
            if earlier
                .as_ref()
                .is_some_and(|job| job.state == JobState::Cancelled && job.next_run_ms.is_none())
            {
                return Ok(());
            }
            job.state = JobState::Cancelled;
            job.next_run_ms = None;
            match self.write(caller, earlier, job, "cancelled", EventKind::JobCancelled).await {
                Err(problem) if problem.code == "job.changed" => {}
                other => return other,
            }
        }
        Err(busy(&known.definition.name))
    }

    /// Ends the run of a job that has not ended, as a person decided.
    async fn end_active(
        self: &Arc<Self>,
        caller: &Caller,
        known: &KnownJob,
        state: JobRunState,
    ) -> Result<(), Problem> {
        let Some((job, id)) = known.record.as_ref().and_then(|job| Some((job, job.active_run?))) else {
            return Ok(());
        };
        self.check_owner(caller, job)?;
        for _ in 0..MAX_TRIES {
            let Some(mut run) = self.run_record(id).await?.filter(|run| !run.state.is_final()) else { break };
            run.ended_by = Some(caller.user.to_string());
            // A person's decision is not escalated.
            if self.end_run(&run, state, None, None, &caller.user).await? == WorkUpdate::Won {
                self.abort_run(id);
                self.withdraw_held_of_run(&run, state, &caller.user).await;
                return Ok(());
            }
        }
        match self.run_record(id).await? {
            Some(run) if !run.state.is_final() => Err(busy(&job.name)),
            _ => Ok(()),
        }
    }

    /// Starts a run of a job now.
    pub async fn run(
        self: &Arc<Self>,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
        trigger: RunTrigger,
    ) -> Result<RunRecord, Problem> {
        let known = self.visible_job(caller, name).await?;
        let (from, to) = (known.state(), JobState::Running);
        let allowed = match trigger {
            // A repeated run may start from any state but a running one.
            RunTrigger::Rerun => from != JobState::Running,
            _ => from.may_become(to),
        };
        match allowed {
            true => self.run_known(caller, known, arguments, trigger).await,
            false if from == JobState::Running => {
                Err(fault(&JobFault::Running { name: known.definition.name }))
            }
            false => Err(fault(&JobFault::JobTransition { name: known.definition.name, from, to })),
        }
    }

    pub(super) async fn run_known(
        self: &Arc<Self>,
        caller: &Caller,
        known: KnownJob,
        arguments: Map<String, Value>,
        trigger: RunTrigger,
    ) -> Result<RunRecord, Problem> {
        let name = known.definition.name.clone();
        let (earlier, mut job) = self.adopt(caller, &known).await?;
        if job.active_run.is_some() {
            return Err(fault(&JobFault::Running { name }));
        }
        let owner = self.owner_rights(&job.owner, &name).await?;
        let arguments = match trigger {
            RunTrigger::Rerun if arguments.is_empty() => self.last_arguments(&job).await?,
            _ => arguments,
        };
        // Missing tasks, skills and tools are reported before anything is stored.
        let parts = self.parts_of(&known.definition, &arguments, &owner).await?;
        self.catalog.wait_for_servers(&owner).await;
        let reasons = self.plan_faults(&parts, &owner);
        if !reasons.is_empty() {
            return Err(fault(&JobFault::NotReady { name, reasons }));
        }
        let now = self.clock.now_ms();
        let mut run = new_run(&job, &known.definition, trigger, now);
        run.started_by = (trigger != RunTrigger::External).then(|| caller.user.to_string());
        run.arguments = arguments;
        run.parts = parts;
        job.is_trial = matches!(job.state, JobState::Draft | JobState::Cancelled)
            && next_time(&known.definition, now).is_some();
        job.state = JobState::Running;
        (job.active_run, job.last_run) = (Some(run.id), Some(run.id));
        job.touch(now);
        let by = run.started_by.as_deref().unwrap_or(EXTERNAL);
        let audit = self.audit_run(by, &run, "started");
        let changes = vec![added_or_replaced(earlier.as_ref(), &job)?, added(&run)?];
        match self.store.change_work(changes, Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => {}
            WorkUpdate::Lost(_) => return Err(fault(&JobFault::Running { name })),
        }
        self.note_due(Some(now));
        self.start_run(run.clone()).await?;
        Ok(self.run_record(run.id).await?.unwrap_or(run))
    }

    async fn last_arguments(&self, job: &JobRecord) -> Result<Map<String, Value>, Problem> {
        let Some(last) = job.last_run else { return Ok(Map::new()) };
        Ok(self.run_record(last).await?.map(|run| run.arguments).unwrap_or_default())
    }

    /// The record of a job and a copy to change; a manifest job without a record becomes the caller's.
    async fn adopt(
        &self,
        caller: &Caller,
        known: &KnownJob,
    ) -> Result<(Option<JobRecord>, JobRecord), Problem> {
        if let Some(job) = &known.record {
            self.check_owner(caller, job)?;
            return Ok((Some(job.clone()), job.clone()));
        }
        let mut owner = WorkOwner::of(caller);
        let personas = &known.definition.personas;
        if owner.persona.is_none() && !personas.iter().any(|name| name == ANY_PERSONA) {
            owner.persona = personas.first().cloned();
        }
        // A user may only schedule a job with a persona that they may choose.
        let rights = self.owner_rights(&owner, &known.definition.name).await?;
        owner.persona = rights.persona_name().map(str::to_owned);
        let now = self.clock.now_ms();
        let job = JobRecord::new(known.key.clone(), known.definition.name.clone(), owner, now);
        Ok((None, job))
    }

    async fn owner_rights(&self, owner: &WorkOwner, name: &str) -> Result<Arc<Caller>, Problem> {
        match self.rights_of(owner).await {
            Rights::Known(caller) => Ok(caller),
            Rights::Gone => Err(fault(&JobFault::NotReady {
                name: name.to_owned(),
                reasons: vec![match &owner.persona {
                    Some(persona) => format!("{} may not use the persona `{persona}`", owner.user),
                    None => format!("{} has no rights any more", owner.user),
                }],
            })),
            Rights::Unknown(why) => {
                Err(fault(&JobFault::NotReady { name: name.to_owned(), reasons: vec![why] }))
            }
        }
    }

    async fn write(
        &self,
        caller: &Caller,
        earlier: Option<JobRecord>,
        mut job: JobRecord,
        outcome: &'static str,
        kind: EventKind,
    ) -> Result<(), Problem> {
        job.touch(self.clock.now_ms());
        let audit = self.audit_of(caller, &job, outcome);
        let changes = vec![added_or_replaced(earlier.as_ref(), &job)?];
        match self.store.change_work(changes, Some(audit)).await.map_err(|error| Problem::of(&error))? {
            WorkUpdate::Won => {
                self.emit(kind, &job, |event| match job.next_run_ms {
                    Some(next) => event.with("next_run_ms", next.unsigned_abs()),
                    None => event,
                });
                Ok(())
            }
            WorkUpdate::Lost(_) => Err(changed(&job, job.updated_ms)),
        }
    }

    pub(super) fn check_owner(&self, caller: &Caller, job: &JobRecord) -> Result<(), Problem> {
        match on_owned_work(caller, &job.owner.user) == Permission::Granted {
            true => Ok(()),
            false => Err(fault(&JobFault::NotOwner { name: job.name.clone() })),
        }
    }

    pub(super) fn audit_of(&self, caller: &Caller, job: &JobRecord, outcome: &str) -> AuditEntry {
        let act = Act { user: Some(&job.owner.user), ..Act::new(AuditKind::Job, &caller.user, outcome) };
        act.with(&[("job", job.name.as_str())]).entry(self.clock.wall_ms())
    }

    /// The audit row of an act about a run, by a person or by the gateway.
    pub(super) fn audit_run(&self, by: &str, run: &RunRecord, outcome: &str) -> AuditEntry {
        let act = Act { user: Some(&run.owner.user), ..Act::new(AuditKind::Job, by, outcome) };
        let noun = if run.is_of_skill() { "skill" } else { "job" };
        let id = run.id.to_string();
        let mut details = vec![(noun, run.name.as_str()), ("run", id.as_str())];
        let due = run.due_ms.map(|due| due.to_string());
        details.extend(due.as_deref().map(|due| ("due_ms", due)));
        details.extend(run.error.as_ref().map(|error| ("error", error.code.as_str())));
        act.with(&details).entry(self.clock.wall_ms())
    }
}

/// Whether a job that a request created is for a persona of any of these callers: its list has it, or its owner. Those of
/// manifests were checked before.
fn is_of_personas(job: &KnownJob, callers: &[Arc<Caller>]) -> bool {
    let Some(record) = job.record.as_ref().filter(|_| job.source == JobSource::Request) else { return true };
    let of_owner = record.owner.persona.as_deref();
    has_persona(callers, |name| {
        job.definition.is_for_persona(Some(name)) || of_owner.is_some_and(|own| is_same_name(own, name))
    })
}

/// The next time of a definition after this one.
pub(super) fn next_time(definition: &JobDefinition, now_ms: i64) -> Option<i64> {
    definition.recurrence.as_ref()?.compile().ok()?.next_ms(now_ms)
}

fn added_or_replaced(earlier: Option<&JobRecord>, job: &JobRecord) -> Result<WorkChange, Problem> {
    match earlier {
        Some(earlier) => replaced(earlier, job),
        None => added(job),
    }
}

fn changed(job: &JobRecord, expected_ms: i64) -> Problem {
    fault(&JobFault::Changed { name: job.name.clone(), expected_ms, updated_ms: job.updated_ms })
}

/// Reads the definition of a request. Without personas, it is for the caller's persona or for everyone.
fn read_definition(body: &Value, caller: &Caller) -> Result<JobDefinition, Problem> {
    check_size(body)?;
    let read = JobDefinition::read(body, DefinitionSource::Request);
    let (Some(mut definition), true) = (read.definition, read.faults.is_empty()) else {
        return Err(fault(&JobFault::BadDefinition { faults: read.faults }));
    };
    if definition.personas.is_empty() {
        definition.personas = vec![caller.persona_name().unwrap_or(ANY_PERSONA).to_owned()];
    }
    Ok(definition)
}
