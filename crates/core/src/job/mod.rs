//! Jobs and tasks: definitions, states, recurrence, acceptance criteria and escalation.
//!
//! A job is a definition (from a manifest or a request) with a state, a schedule and an owner. Its runs execute step
//! plans as the owner. A task is a unit of work with a life cycle; in a job, its plan or the plans of its skills are
//! run, and a task without any is completed by a person. Times are parameters: nothing here reads a clock.

mod criteria;
mod criteria_check;
mod definition;
mod escalation;
mod fault;
mod fields;
mod record;
mod recurrence;
mod state;

pub use criteria::{Criterion, CriterionCheck, CriterionRecord};
pub use definition::{
    ANY_PERSONA, GraphNode, JobDefinition, ReadDefinition, TaskDefinition, extended, in_order,
};
pub use escalation::{EscalationActs, EscalationPolicy, EscalationTrigger};
pub use fault::JobFault;
pub use fields::{DefinitionFault, DefinitionSource};
pub use record::{
    JobRecord, PartOutcome, RunPart, RunRecord, RunSample, RunStep, TaskRecord, WorkOwner, is_user_key,
    manifest_key, skill_key, user_key,
};
pub use recurrence::{DEFAULT_GRACE_SECONDS, DueDecision, Frequency, Recurrence, Schedule};
pub use state::{JobRunState, JobState, RunTrigger, TaskStatus};

use crate::manifest::ManifestScope;

/// The maximum length of the name of a job or task.
pub const MAX_NAME: usize = 128;

/// A job or task in a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkManifest<D> {
    /// The persona folder it is in, if any.
    pub scope: ManifestScope,
    /// The file and position, for people.
    pub origin: String,
    /// The definition.
    pub definition: D,
}

/// A job in a manifest.
pub type JobManifest = WorkManifest<JobDefinition>;

/// A task in a manifest.
pub type TaskManifest = WorkManifest<TaskDefinition>;

/// The persona of a scope.
pub fn persona_of(scope: &ManifestScope) -> Option<&str> {
    match scope {
        ManifestScope::Shared => None,
        ManifestScope::Persona(name) => Some(name),
    }
}
