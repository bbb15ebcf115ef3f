//! The stored state of jobs, runs and tasks.

use super::criteria::CriterionRecord;
use super::definition::{JobDefinition, TaskDefinition};
use super::state::{JobRunState, JobState, RunTrigger, TaskStatus};
use crate::caller::{Caller, IdentifiedBy};
use crate::health::{Latency, Slice};
use crate::skill::{StepError, StepRecord, StepRecords};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

/// The number of runs in the health of a job.
const MAX_SAMPLES: usize = 100;
/// The largest result of a step that is stored, as JSON.
const MAX_RESULT_BYTES: usize = 256 * 1024;

/// The user a job or task belongs to, as the gateway identified them. It contains no rights: these are looked up for
/// each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkOwner {
    /// The user.
    pub user: String,
    /// The persona they had chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Their compliance level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The kind of credential that identified them.
    pub identified_by: String,
}

impl WorkOwner {
    /// The caller as an owner.
    pub fn of(caller: &Caller) -> Self {
        Self {
            user: caller.user.to_string(),
            persona: caller.persona_name().map(str::to_owned),
            level: caller.compliance_level.as_ref().map(|level| level.name.to_string()),
            identified_by: caller.identified_by.to_string(),
        }
    }

    /// The kind of credential.
    pub fn identified_by(&self) -> IdentifiedBy {
        let Ok(read) = self.identified_by.parse();
        read
    }
}

/// A job: its schedule and its last run. The definition is stored only if a request created the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The key in the store: unique for manifest jobs, and per user for others.
    pub key: String,
    /// Its name.
    pub name: String,
    /// The definition, if a request created the job; otherwise it is in a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<JobDefinition>,
    /// Who it runs as.
    pub owner: WorkOwner,
    /// Its state.
    pub state: JobState,
    /// Whether its schedule is paused.
    #[serde(default)]
    pub paused: bool,
    /// Whether it is a draft again after its run, because it was tried before it was scheduled.
    #[serde(default)]
    pub is_trial: bool,
    /// When it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run_ms: Option<i64>,
    /// The run that has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run: Option<Uuid>,
    /// The latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Uuid>,
    /// Its recent runs.
    #[serde(default)]
    pub samples: VecDeque<RunSample>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was changed; grows with each change.
    pub updated_ms: i64,
}

/// One run in the health of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSample {
    /// When it ended.
    pub at_ms: i64,
    /// How long it took.
    pub duration_ms: u64,
    /// Whether it succeeded.
    pub ok: bool,
}

/// The key of a manifest job or task.
pub fn manifest_key(persona: Option<&str>, name: &str) -> String {
    format!("manifest:{}:{name}", persona.unwrap_or_default().to_lowercase())
}

/// The key of a user's own job.
pub fn user_key(user: &str, name: &str) -> String {
    // A length in front, because names of users may contain any character.
    format!("user:{}:{user}:{name}", user.len())
}

impl JobRecord {
    /// Adds a run that has ended to the health of the job.
    pub fn add_sample(&mut self, sample: RunSample) {
        if self.samples.len() >= MAX_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The recent runs: their number, the share that succeeded, and how long they took.
    pub fn health(&self) -> Slice {
        let count = self.samples.len();
        if count == 0 {
            return Slice::default();
        }
        let good = self.samples.iter().filter(|sample| sample.ok).count();
        let mut times: Vec<u64> = self.samples.iter().map(|sample| sample.duration_ms).collect();
        times.sort_unstable();
        let rank = |percent: usize| times[(count * percent).div_ceil(100).max(1) - 1] as f64;
        let sum: u64 = times.iter().sum();
        let latency = Latency { avg: sum as f64 / count as f64, p50: rank(50), p95: rank(95) };
        Slice { calls: count, success_rate: Some(good as f64 / count as f64), latency_ms: Some(latency) }
    }
}

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: Uuid,
    /// The key of the job.
    pub job: String,
    /// The name of the job.
    pub name: String,
    /// Who it runs as.
    pub owner: WorkOwner,
    /// Its state.
    pub state: JobRunState,
    /// Why it was started.
    pub trigger: RunTrigger,
    /// Who started it, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// The occurrence, if it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
    /// The arguments of its steps.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Its parts, each after those it depends on.
    #[serde(default)]
    pub parts: Vec<RunPart>,
    /// The acceptance criteria.
    #[serde(default)]
    pub criteria: Vec<CriterionRecord>,
    /// Why it failed or is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
    /// The triggers for which it was escalated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalations: Vec<String>,
    /// The gateway process that works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Until when that process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until_ms: Option<i64>,
    /// How often a gateway took it up.
    #[serde(default)]
    pub attempts: u32,
    /// When it was created.
    pub created_ms: i64,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
    /// When it was changed; grows with each change.
    pub updated_ms: i64,
}

/// A part of a run: the job's own plan, a skill of a task, or a task for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPart {
    /// Its id: the name of the task, with the skill if it has several; `plan` for the job's own plan.
    pub id: String,
    /// Parts that must succeed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The steps; a part without steps is a task for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The id of the task that a person completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Uuid>,
    /// The arguments of the steps.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Whether it has ended, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PartOutcome>,
    /// The steps that have started.
    #[serde(default)]
    pub steps: BTreeMap<String, RunStep>,
}

/// How a part ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOutcome {
    /// Every step succeeded.
    Succeeded,
    /// A step failed.
    Failed,
    /// A part that it depends on did not succeed.
    Cancelled,
}

/// A step of a part. Without a record it was started and has not ended, as far as the store knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStep {
    /// The name of the tool.
    pub tool: String,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// When it started.
    pub started_ms: i64,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<StepRecord>,
    /// Whether its results were too large to store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results_omitted: bool,
}

impl RunPart {
    /// The outcomes that are kept when the part continues.
    pub fn kept(&self) -> StepRecords {
        let kept = self.steps.iter().filter_map(|(id, step)| {
            let record = step.record.as_ref().filter(|record| record.is_kept())?;
            Some((id.clone(), record.clone()))
        });
        kept.collect()
    }

    /// The steps that started and have not ended.
    pub fn interrupted(&self) -> impl Iterator<Item = (&String, &RunStep)> {
        self.steps.iter().filter(|(_, step)| step.record.is_none())
    }

    /// The steps that wait for a person, with the held call.
    pub fn held(&self) -> impl Iterator<Item = (&String, Uuid)> {
        self.steps.iter().filter_map(|(id, step)| Some((id, step.record.as_ref()?.held?)))
    }

    /// Notes that a step starts.
    pub fn note_start(&mut self, step: &str, tool: &str, call: Uuid, at_ms: i64) {
        let started = RunStep {
            tool: tool.to_owned(),
            call: Some(call),
            started_ms: at_ms,
            record: None,
            results_omitted: false,
        };
        self.steps.insert(step.to_owned(), started);
    }

    /// Notes how a step ended. A result that is too large is not stored.
    pub fn note_end(&mut self, step: &str, tool: &str, mut record: StepRecord) {
        let size = record.results.as_ref().map_or(0, |results| results.to_string().len());
        let results_omitted = size > MAX_RESULT_BYTES;
        if results_omitted {
            record.results = None;
        }
        let earlier = self.steps.get(step);
        let ended = RunStep {
            tool: tool.to_owned(),
            call: record.call.or(earlier.and_then(|earlier| earlier.call)),
            started_ms: record.started_ms.or(earlier.map(|earlier| earlier.started_ms)).unwrap_or_default(),
            record: Some(record),
            results_omitted,
        };
        self.steps.insert(step.to_owned(), ended);
    }
}

/// A task with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its id.
    pub id: Uuid,
    /// The key of its manifest, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The definition as it was when the task was created.
    pub definition: TaskDefinition,
    /// Who created it.
    pub owner: WorkOwner,
    /// Its state.
    pub state: TaskStatus,
    /// The run that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was changed; grows with each change.
    pub updated_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_different_users_differ() {
        assert_ne!(user_key("a:b", "c"), user_key("a", "b:c"));
        assert_ne!(manifest_key(None, "c"), manifest_key(Some("Atlas"), "c"));
    }
}
