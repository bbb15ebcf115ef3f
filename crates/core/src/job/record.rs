//! The stored state of jobs, runs and tasks.

use super::criteria::CriterionRecord;
use super::definition::{JobDefinition, TaskDefinition};
use super::escalation::{EscalationPolicy, EscalationTrigger};
use super::state::{JobRunState, JobState, RunTrigger, TaskStatus};
use crate::caller::{Caller, IdentifiedBy};
use crate::health::{Latency, Slice};
use crate::skill::{StepError, StepPlan, StepRecord, StepRecords};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

/// The number of runs in the health of a job.
const MAX_SAMPLES: usize = 100;
/// The largest result of a step that is stored, as JSON.
const MAX_RESULT_BYTES: usize = 256 * 1024;
/// The code of the error of a run that does not meet a criterion.
const CRITERION_NOT_MET: &str = "job.criterion-not-met";
/// The beginning of the keys of users' own jobs.
const USER_PREFIX: &str = "user:";
/// The beginning of the keys of runs of skills.
const SKILL_PREFIX: &str = "skill:";

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
    /// Whether it is a draft again after its run, because it can be scheduled and was not when the run started.
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
    /// The number of criteria of the latest run that wait for a person.
    #[serde(default)]
    pub open_criteria: usize,
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
    format!("{USER_PREFIX}{}:{user}:{name}", user.len())
}

/// Whether a key is that of a user's own job.
pub fn is_user_key(key: &str) -> bool {
    key.starts_with(USER_PREFIX)
}

/// The key of the runs of a skill, instead of that of a job.
pub fn skill_key(name: &str) -> String {
    format!("{SKILL_PREFIX}{name}")
}

impl JobRecord {
    /// A draft that has not run.
    pub fn new(key: String, name: String, owner: WorkOwner, now_ms: i64) -> Self {
        Self {
            key,
            name,
            definition: None,
            owner,
            state: JobState::Draft,
            paused: false,
            is_trial: false,
            next_run_ms: None,
            active_run: None,
            last_run: None,
            open_criteria: 0,
            samples: VecDeque::new(),
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }

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
    /// The key of the job, or [`skill_key`].
    pub job: String,
    /// The name of the job or skill.
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
    /// The client of the caller who ran the skill; rules about its name apply to further steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
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
    /// Who ended it, if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// When it was changed; grows with each change.
    pub updated_ms: i64,
}

impl RunRecord {
    /// A run of a job or skill, with its key and name, that has not started.
    pub fn new(
        id: Uuid,
        (job, name): (String, String),
        owner: WorkOwner,
        trigger: RunTrigger,
        now_ms: i64,
    ) -> Self {
        Self {
            id,
            job,
            name,
            owner,
            state: JobRunState::Pending,
            trigger,
            started_by: None,
            due_ms: None,
            client: None,
            arguments: Map::new(),
            parts: Vec::new(),
            criteria: Vec::new(),
            error: None,
            escalations: Vec::new(),
            worker: None,
            lease_until_ms: Some(now_ms),
            attempts: 0,
            created_ms: now_ms,
            started_ms: None,
            ended_ms: None,
            ended_by: None,
            updated_ms: now_ms,
        }
    }

    /// Whether a person has ended it, so that its held calls never run. A run cannot succeed while a step is held, but it
    /// may fail without a person, and its other steps can still be approved then.
    pub fn is_ended_by_person(&self) -> bool {
        matches!(self.state, JobRunState::Cancelled | JobRunState::Succeeded)
            || (self.state.is_final() && self.ended_by.is_some())
    }

    /// Whether it continues a skill that a caller ran, after a step of it was held.
    pub fn is_of_skill(&self) -> bool {
        self.job.starts_with(SKILL_PREFIX)
    }

    /// The error of the first criterion that is not met.
    pub fn unmet_criterion(&self) -> Option<StepError> {
        let unmet = self.criteria.iter().find(|criterion| criterion.met == Some(false))?;
        Some(StepError {
            code: CRITERION_NOT_MET.into(),
            message: format!("an acceptance criterion is not met: {}", unmet.criterion),
            hint: None,
        })
    }

    /// Changes the state of a run that has ended to that which its criteria say.
    pub fn apply_criteria(&mut self) {
        let failed_by_criteria = self.error.as_ref().is_some_and(|error| error.code == CRITERION_NOT_MET);
        match (self.state, self.unmet_criterion()) {
            (JobRunState::Succeeded, Some(unmet)) => {
                self.state = JobRunState::Failed;
                self.error = Some(unmet);
            }
            (JobRunState::Failed, Some(unmet)) if failed_by_criteria => self.error = Some(unmet),
            (JobRunState::Failed, None) if failed_by_criteria => {
                self.state = JobRunState::Succeeded;
                self.error = None;
            }
            _ => {}
        }
    }

    /// The number of criteria that wait for a person.
    pub fn open_criteria(&self) -> usize {
        self.criteria.iter().filter(|criterion| criterion.met.is_none()).count()
    }
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
    /// The escalation policy of its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation_policy: Option<EscalationPolicy>,
    /// The time for its steps, if it is a part of a skill's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
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
    /// A part that has not started.
    pub fn new(id: String, after: Vec<String>, plan: Option<Value>, arguments: Map<String, Value>) -> Self {
        Self {
            id,
            after,
            plan,
            task: None,
            arguments,
            escalation_policy: None,
            limit_ms: None,
            outcome: None,
            steps: BTreeMap::new(),
        }
    }

    /// The part with the escalation policy of its task.
    pub fn with_policy(mut self, policy: &EscalationPolicy) -> Self {
        self.escalation_policy = policy.auto_escalate.then(|| policy.clone());
        self
    }

    /// The name of its task: the id of the part without the skill.
    pub fn task_name(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

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

    /// The steps that have started, in the order in which the plan runs them.
    pub fn steps_in_order(&self) -> Vec<(&String, &RunStep)> {
        let plan = self.plan.as_ref().and_then(|plan| StepPlan::read(plan).ok());
        let order: Vec<&str> =
            plan.iter().flat_map(|plan| plan.steps()).map(|step| step.id.as_str()).collect();
        let mut steps: Vec<(&String, &RunStep)> = self.steps.iter().collect();
        steps.sort_by_key(|(id, _)| {
            order.iter().position(|known| *known == id.as_str()).unwrap_or(usize::MAX)
        });
        steps
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
    /// The triggers that escalated it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalations: Vec<String>,
    /// When it left the draft; the timeframe of its policy begins then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ms: Option<i64>,
    /// When it was created.
    pub created_ms: i64,
    /// When it was changed; grows with each change.
    pub updated_ms: i64,
}

impl TaskRecord {
    /// When it becomes overdue; `None` if it is a draft or has ended, if its policy has no timeframe, or if it was
    /// escalated for that.
    pub fn overdue_ms(&self) -> Option<i64> {
        let policy = &self.definition.escalation_policy;
        let word = EscalationTrigger::Overdue.as_str();
        if self.state == TaskStatus::Draft
            || self.state.is_final()
            || self.escalations.iter().any(|known| known == word)
            || policy.on(EscalationTrigger::Overdue).is_none()
        {
            return None;
        }
        Some(self.ready_ms.unwrap_or(self.created_ms).saturating_add(policy.timeframe_ms()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_in_the_order_of_the_plan() {
        let plan = serde_json::json!([
            { "id": "write", "tool": "t", "after": ["read"] }, { "id": "read", "tool": "t" }, { "id": "a", "tool": "t" }
        ]);
        let mut part: RunPart =
            serde_json::from_value(serde_json::json!({ "id": "plan", "plan": plan })).expect("a part");
        for step in ["a", "read", "write"] {
            part.note_start(step, "t", Uuid::nil(), 0);
        }
        let order: Vec<&str> = part.steps_in_order().into_iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(order, ["read", "write", "a"]);
    }

    #[test]
    fn a_task_is_overdue_a_while_after_it_left_the_draft() {
        let policy = serde_json::json!({ "triggers": ["overdue"], "timeframe": "2s" });
        let mut task: TaskRecord = serde_json::from_value(serde_json::json!({
            "id": Uuid::nil(),
            "definition": { "name": "check", "summary": "Checks it", "escalation_policy": policy },
            "owner": { "user": "ann", "identified_by": "local" },
            "state": "draft",
            "created_ms": 10,
            "updated_ms": 10,
        }))
        .expect("a task");
        assert_eq!(task.overdue_ms(), None, "a draft");
        (task.state, task.ready_ms) = (TaskStatus::Ready, Some(100));
        assert_eq!(task.overdue_ms(), Some(2_100));
        task.escalations.push("overdue".into());
        assert_eq!(task.overdue_ms(), None, "once");
        (task.escalations, task.state) = (Vec::new(), TaskStatus::Done);
        assert_eq!(task.overdue_ms(), None, "it has ended");
    }

    #[test]
    fn keys_of_different_users_differ() {
        assert_ne!(user_key("a:b", "c"), user_key("a", "b:c"));
        assert_ne!(manifest_key(None, "c"), manifest_key(Some("Atlas"), "c"));
    }
}
