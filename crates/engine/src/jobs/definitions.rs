//! The definitions in force: those of manifests, and those that requests created.

use super::Jobs;
use super::rows::{WorkRecord, record, replaced};
use std::sync::Arc;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    JobDefinition, JobFault, JobManifest, JobRecord, JobState, RunRecord, TaskDefinition, TaskManifest,
    TaskRecord, manifest_key, persona_of, user_key,
};
use toolbooth_core::permission::{Permission, on_job, on_owned_work, on_task};
use toolbooth_store::{WorkContest, WorkFilter, WorkKind};

/// The jobs and tasks of manifests. A reload replaces them as a whole.
#[derive(Debug, Clone, Default)]
pub struct WorkManifests {
    /// The jobs.
    pub jobs: Arc<[JobManifest]>,
    /// The tasks.
    pub tasks: Arc<[TaskManifest]>,
}

/// Where a job comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSource {
    /// A manifest: the persona whose folder it is in, and the place.
    Manifest {
        /// The persona.
        persona: Option<String>,
        /// The file and position.
        origin: String,
    },
    /// A request.
    Request,
}

/// A job: its definition, and its state if it was ever scheduled or run.
#[derive(Debug, Clone)]
pub struct KnownJob {
    /// The key in the store.
    pub key: String,
    /// Where it comes from.
    pub source: JobSource,
    /// Its definition.
    pub definition: JobDefinition,
    /// Its state; absent for a manifest job that was never scheduled or run.
    pub record: Option<JobRecord>,
}

impl KnownJob {
    /// Its state.
    pub fn state(&self) -> JobState {
        self.record.as_ref().map_or(JobState::Draft, |record| record.state)
    }

    fn permission(&self, caller: &Caller) -> Permission {
        let owner = self.record.as_ref().map(|record| record.owner.user.as_str());
        match &self.source {
            JobSource::Manifest { persona, .. } => {
                on_job(caller, persona.as_deref(), &self.definition, owner)
            }
            JobSource::Request => owner.map_or(Permission::Hidden, |owner| on_owned_work(caller, owner)),
        }
    }
}

/// A task: its definition, and its state if it has one.
#[derive(Debug, Clone)]
pub struct KnownTask {
    /// The id: that of the record, or the name of a manifest task.
    pub id: String,
    /// The persona of a manifest task.
    pub persona: Option<String>,
    /// The place of a manifest task.
    pub origin: Option<String>,
    /// The key of a manifest task.
    pub manifest: Option<String>,
    /// Its definition.
    pub definition: TaskDefinition,
    /// Its state; absent for a manifest task in its first state.
    pub record: Option<TaskRecord>,
}

impl Jobs {
    /// Replaces the manifests, and adapts the schedules of their jobs.
    pub async fn set_manifests(&self, manifests: WorkManifests) {
        self.manifests.store(Arc::new(manifests));
        if let Err(problem) = self.adapt_schedules().await {
            tracing::error!("the schedules of jobs could not be adapted: {}", problem.message);
        }
    }

    /// Computes the next times of scheduled jobs again, because their definitions may have changed.
    async fn adapt_schedules(&self) -> Result<(), Problem> {
        let now = self.clock.now_ms();
        let states = [JobState::Scheduled, JobState::Running].map(|state| state.as_str().to_owned());
        let filter = WorkFilter { states: states.to_vec(), ..WorkFilter::of(WorkKind::Job) };
        for row in self.all_rows(filter).await? {
            let Ok(job) = record::<JobRecord>(&row) else { continue };
            // A time that has passed is decided when it is looked at.
            if job.definition.is_some() || job.next_run_ms.is_some_and(|due| due <= now) {
                continue;
            }
            let definition = self.definition_of(&job);
            let schedule = definition.and_then(|definition| definition.recurrence?.compile().ok());
            let next_run_ms = schedule.and_then(|schedule| schedule.next_ms(now));
            if next_run_ms == job.next_run_ms {
                continue;
            }
            let mut changed = JobRecord { next_run_ms, ..job.clone() };
            changed.touch(now);
            let changes = vec![replaced(&job, &changed)?];
            if self.store.change_work(changes, None).await.is_ok_and(|end| end == WorkContest::Won) {
                self.note_due(changed.next_run_ms);
            }
        }
        Ok(())
    }

    /// The definition of a job with a record; `None` if its manifest is gone.
    pub(super) fn definition_of(&self, job: &JobRecord) -> Option<JobDefinition> {
        job.definition.clone().or_else(|| self.manifest_definition(&job.key))
    }

    /// The definition of the job of a run.
    pub(super) async fn definition_of_run(&self, run: &RunRecord) -> Option<JobDefinition> {
        match self.job_record(&run.job).await {
            Ok(Some(job)) => self.definition_of(&job),
            _ => self.manifest_definition(&run.job),
        }
    }

    fn manifest_definition(&self, key: &str) -> Option<JobDefinition> {
        let manifests = self.manifests.load();
        let found = manifests
            .jobs
            .iter()
            .find(|job| manifest_key(persona_of(&job.scope), &job.definition.name) == key);
        found.map(|job| job.definition.clone())
    }

    /// All jobs that a caller may see, sorted by name.
    pub(super) async fn visible_jobs(&self, caller: &Caller) -> Result<Vec<KnownJob>, Problem> {
        let manifests = self.manifests.load_full();
        let seen = manifests.jobs.iter().filter_map(|job| {
            let (persona, definition) = (persona_of(&job.scope), &job.definition);
            let is_seen = on_job(caller, persona, definition, None) == Permission::Granted;
            is_seen.then(|| manifest_key(persona, &definition.name))
        });
        let records: Vec<JobRecord> = self.visible_records(caller, WorkKind::Job, seen.collect()).await?;
        let mut jobs = manifest_jobs(&manifests, &records);
        for job in records {
            if let Some(definition) = job.definition.clone() {
                let (key, source) = (job.key.clone(), JobSource::Request);
                jobs.push(KnownJob { key, source, definition, record: Some(job) });
            }
        }
        jobs.retain(|job| job.permission(caller) == Permission::Granted);
        jobs.sort_by(|one, other| {
            (&one.definition.name, &one.key).cmp(&(&other.definition.name, &other.key))
        });
        // A persona's own job shadows the shared one of the same name.
        let own: Vec<String> = jobs
            .iter()
            .filter(|job| matches!(&job.source, JobSource::Manifest { persona: Some(_), .. }))
            .map(|job| job.definition.name.clone())
            .collect();
        jobs.retain(|job| {
            let is_shared = matches!(&job.source, JobSource::Manifest { persona: None, .. });
            !is_shared || caller.persona.is_none() || !own.contains(&job.definition.name)
        });
        Ok(jobs)
    }

    /// The records of a kind that a caller may see: an administrator all, other users their own and those of these
    /// manifests.
    async fn visible_records<T: WorkRecord>(
        &self,
        caller: &Caller,
        kind: WorkKind,
        manifests: Vec<String>,
    ) -> Result<Vec<T>, Problem> {
        let user = (caller.admin != Admin::Yes).then(|| caller.user.to_string());
        let others = if user.is_some() { manifests } else { Vec::new() };
        let mut rows = self.all_rows(WorkFilter { user, ..WorkFilter::of(kind) }).await?;
        for key in others {
            if !rows.iter().any(|row| row.id == key) {
                rows.extend(self.store.work(kind, &key).await.map_err(|error| Problem::of(&error))?);
            }
        }
        Ok(rows.iter().filter_map(|row| record(row).ok()).collect())
    }

    /// A job by its name: the caller's own, one of a manifest, or (for administrators) one of another user.
    pub(super) async fn visible_job(&self, caller: &Caller, name: &str) -> Result<KnownJob, Problem> {
        let own = user_key(&caller.user, name);
        let mut found: Vec<KnownJob> = self.visible_jobs(caller).await?;
        found.retain(|job| job.definition.name == name);
        let rank = |job: &KnownJob| match &job.source {
            _ if job.key == own => 0,
            JobSource::Manifest { persona: Some(_), .. } => 1,
            JobSource::Manifest { persona: None, .. } => 2,
            JobSource::Request => 3,
        };
        found.sort_by_key(rank);
        let shown: String = name.chars().take(128).collect();
        found.into_iter().next().ok_or_else(|| super::fault(&JobFault::UnknownJob { name: shown }))
    }

    /// All tasks that a caller may see, newest records first, then those of manifests by name.
    pub(super) async fn visible_tasks(&self, caller: &Caller) -> Result<Vec<KnownTask>, Problem> {
        let manifests = self.manifests.load_full();
        let seen = manifests.tasks.iter().filter_map(|task| {
            let (persona, definition) = (persona_of(&task.scope), &task.definition);
            let is_seen = on_task(caller, persona, definition) == Permission::Granted;
            is_seen.then(|| manifest_key(persona, &definition.name))
        });
        let records: Vec<TaskRecord> = self.visible_records(caller, WorkKind::Task, seen.collect()).await?;
        let mut tasks: Vec<KnownTask> = Vec::new();
        for manifest in manifests.tasks.iter() {
            let persona = persona_of(&manifest.scope);
            if on_task(caller, persona, &manifest.definition) == Permission::Hidden {
                continue;
            }
            let key = manifest_key(persona, &manifest.definition.name);
            let own = records.iter().find(|task| task.manifest.as_deref() == Some(key.as_str())).cloned();
            tasks.push(KnownTask {
                id: manifest.definition.name.clone(),
                persona: persona.map(str::to_owned),
                origin: Some(manifest.origin.clone()),
                manifest: Some(key),
                definition: manifest.definition.clone(),
                record: own,
            });
        }
        tasks.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        let own = records.into_iter().filter(|task| {
            task.manifest.is_none() && on_owned_work(caller, &task.owner.user) == Permission::Granted
        });
        tasks.extend(own.map(|task| KnownTask {
            id: task.id.to_string(),
            persona: task.definition.persona.clone(),
            origin: None,
            manifest: None,
            definition: task.definition.clone(),
            record: Some(task),
        }));
        Ok(tasks)
    }

    /// The definition of a task in the graph of a job: the caller's own task, then that of the persona, then a shared
    /// one.
    pub(super) async fn task_definition(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<TaskDefinition>, Problem> {
        let mut found = self.visible_tasks(caller).await?;
        found.retain(|task| {
            // An administrator sees the tasks of other users, but their steps must not run with the rights of this
            // caller.
            let is_own = |record: &TaskRecord| record.owner.user == *caller.user;
            let is_usable = task.manifest.is_some() || task.record.as_ref().is_some_and(is_own);
            // The task that a run created for a person is not a definition.
            let is_definition = task.record.as_ref().is_none_or(|record| record.run.is_none());
            task.definition.name == name && is_usable && is_definition
        });
        let rank = |task: &KnownTask| match (&task.manifest, &task.persona) {
            (None, _) => 0,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
        };
        found.sort_by_key(rank);
        Ok(found.into_iter().next().map(|task| task.definition))
    }
}

fn manifest_jobs(manifests: &WorkManifests, records: &[JobRecord]) -> Vec<KnownJob> {
    let known = manifests.jobs.iter().map(|job| {
        let persona = persona_of(&job.scope).map(str::to_owned);
        let key = manifest_key(persona.as_deref(), &job.definition.name);
        let record = records.iter().find(|record| record.key == key).cloned();
        let source = JobSource::Manifest { persona, origin: job.origin.clone() };
        KnownJob { key, source, definition: job.definition.clone(), record }
    });
    known.collect()
}
