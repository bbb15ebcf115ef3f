//! The definitions in force: those of manifests, and those that requests created.

use super::Jobs;
use super::rows::{WorkRecord, record, replaced};
use std::sync::Arc;
use toolbooth_core::fault::Problem;
use toolbooth_core::job::{
    JobDefinition, JobManifest, JobRecord, JobState, RunRecord, TaskDefinition, TaskManifest, TaskRecord,
    manifest_key, persona_of,
};
use toolbooth_store::{WorkFilter, WorkKind, WorkUpdate};

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
            if self.store.change_work(changes, None).await.is_ok_and(|end| end == WorkUpdate::Won) {
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
}
