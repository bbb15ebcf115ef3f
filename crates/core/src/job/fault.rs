//! Errors of requests about jobs and tasks.

use super::fields::DefinitionFault;
use super::state::{JobState, TaskStatus};
use crate::fault::{Blame, Fault};

/// A request about a job or task failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFault {
    /// There is no such job, or the caller may not see it.
    #[error("there is no job `{name}`")]
    UnknownJob {
        /// The name.
        name: String,
    },
    /// There is no such run.
    #[error("there is no run `{id}`")]
    UnknownRun {
        /// The id.
        id: String,
    },
    /// There is no such task, or the caller may not see it.
    #[error("there is no task `{name}`")]
    UnknownTask {
        /// The id or name.
        name: String,
    },
    /// The definition is wrong.
    #[error("the definition is not valid: {}", sentence(.faults))]
    BadDefinition {
        /// All faults.
        faults: Vec<DefinitionFault>,
    },
    /// Another job has this name.
    #[error("there is already a job `{name}`")]
    Taken {
        /// The name.
        name: String,
    },
    /// The state does not allow the change.
    #[error("job `{name}` is {from} and cannot become {to}")]
    JobTransition {
        /// The job.
        name: String,
        /// Its state.
        from: JobState,
        /// The wanted state.
        to: JobState,
    },
    /// The state does not allow the change.
    #[error("task `{name}` is {from} and cannot become {to}")]
    TaskTransition {
        /// The task.
        name: String,
        /// Its state.
        from: TaskStatus,
        /// The wanted state.
        to: TaskStatus,
    },
    /// A dependency of the task is not done.
    #[error("task `{name}` waits for `{dependency}`, which is {state}")]
    DependencyOpen {
        /// The task.
        name: String,
        /// The other task.
        dependency: String,
        /// Its state.
        state: TaskStatus,
    },
    /// It was changed meanwhile.
    #[error("`{name}` was changed at {updated_ms}, after {expected_ms}")]
    Changed {
        /// The job or task.
        name: String,
        /// The expected time of the last change.
        expected_ms: i64,
        /// The actual time.
        updated_ms: i64,
    },
    /// Only its owner or an administrator may do this.
    #[error("job `{name}` belongs to another user")]
    NotOwner {
        /// The job.
        name: String,
    },
    /// It has no schedule, or no further time.
    #[error("job `{name}` has no recurrence, or its `end_date` has passed")]
    NoSchedule {
        /// The job.
        name: String,
    },
    /// It has a recurrence, but is not scheduled.
    #[error("job `{name}` is {state} and not scheduled, so its schedule cannot be paused or resumed")]
    NotScheduled {
        /// The job.
        name: String,
        /// Its state.
        state: JobState,
    },
    /// Its definition is in a manifest and cannot be changed by a request.
    #[error("`{name}` is defined in a manifest")]
    InManifest {
        /// The job or task.
        name: String,
    },
    /// A run of a job waits for the task.
    #[error("run {run} waits for task `{name}`")]
    TaskOfRun {
        /// The task.
        name: String,
        /// The run.
        run: String,
    },
    /// A run has not ended.
    #[error("job `{name}` is already running")]
    Running {
        /// The job.
        name: String,
    },
    /// The run is not held.
    #[error("run {id} is {state}, not held")]
    NotHeld {
        /// The run.
        id: String,
        /// Its state.
        state: super::JobRunState,
    },
    /// The run has no such criterion.
    #[error("the run has no criterion {place}")]
    UnknownCriterion {
        /// The number, from 0.
        place: usize,
    },
    /// Something that it needs is missing.
    #[error("job `{name}` cannot run: {}", reasons.join("; "))]
    NotReady {
        /// The job.
        name: String,
        /// What is missing.
        reasons: Vec<String>,
    },
    /// The signature of an external request is missing or wrong.
    #[error("the request is not signed with the job's key")]
    BadSignature,
}

fn sentence(faults: &[DefinitionFault]) -> String {
    let shown = faults.iter().take(5).map(|fault| match fault.pointer.as_str() {
        "" => fault.message.clone(),
        pointer => format!("{pointer}: {}", fault.message),
    });
    shown.collect::<Vec<_>>().join("; ")
}

impl Fault for JobFault {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownJob { .. } => "job.unknown",
            Self::UnknownRun { .. } => "job.unknown-run",
            Self::UnknownTask { .. } => "task.unknown",
            Self::BadDefinition { .. } => "job.bad-definition",
            Self::Taken { .. } => "job.taken",
            Self::JobTransition { .. } => "job.bad-transition",
            Self::TaskTransition { .. } => "task.bad-transition",
            Self::DependencyOpen { .. } => "task.dependency-open",
            Self::Changed { .. } => "job.changed",
            Self::NotOwner { .. } => "job.not-owner",
            Self::NoSchedule { .. } | Self::NotScheduled { .. } => "job.no-schedule",
            Self::InManifest { .. } => "job.in-manifest",
            Self::TaskOfRun { .. } => "task.of-run",
            Self::Running { .. } => "job.running",
            Self::NotHeld { .. } => "job.not-held",
            Self::UnknownCriterion { .. } => "job.unknown-criterion",
            Self::NotReady { .. } => "job.not-ready",
            Self::BadSignature => "job.bad-signature",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownJob { .. } => {
                "`toolbooth jobs` lists those that you may see; `toolbooth config check` shows the errors of manifests"
            }
            Self::UnknownRun { .. } => {
                "`toolbooth jobs history NAME` and `toolbooth skills runs NAME` list the runs"
            }
            Self::UnknownTask { .. } => "`toolbooth tasks` lists those that you may see",
            Self::BadDefinition { .. } => "docs/guide/jobs.md describes the fields",
            Self::Taken { .. } => "choose another name, or change the job with `toolbooth jobs edit`",
            Self::JobTransition { from, .. } => match from {
                JobState::Succeeded | JobState::Failed => {
                    "the state is final; `toolbooth jobs run NAME --again` runs it again"
                }
                JobState::Cancelled => {
                    "`toolbooth jobs resume NAME` schedules it again, and `toolbooth jobs run NAME --again` runs it"
                }
                _ => return None,
            },
            Self::TaskTransition { .. } => {
                "a task goes from draft to ready, in_progress, review and done; it can be cancelled before"
            }
            Self::DependencyOpen { .. } => "complete or cancel that task first",
            Self::Changed { .. } => "read it again, and repeat the change with its `updated_at`",
            Self::NotOwner { .. } => "its owner or an administrator can do this",
            Self::NoSchedule { .. } => "give it a `recurrence` whose `end_date` has not passed",
            Self::NotScheduled { .. } => "schedule it first: `toolbooth jobs schedule NAME`",
            Self::InManifest { .. } => "change the manifest file; the gateway reads it again",
            Self::TaskOfRun { .. } => {
                "complete or cancel the task instead: `toolbooth tasks move ID cancelled`"
            }
            Self::Running { .. } => "wait until the run has ended, or cancel it",
            Self::NotHeld { .. } => "only a held run needs a decision",
            Self::UnknownCriterion { .. } => "criteria are numbered from 0, as `jobs show` lists them",
            Self::NotReady { .. } => {
                "`toolbooth jobs show NAME` lists what the job needs; add what is missing, or change the job"
            }
            Self::BadSignature => "sign the body with the webhook key, as docs/guide/jobs.md describes",
        };
        Some(hint.into())
    }
}
