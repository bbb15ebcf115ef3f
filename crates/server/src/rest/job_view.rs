//! The view of a job.

use super::RestState;
use super::job_runs::RunView;
use super::problem::ProblemDocument;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::job::{JobDefinition, in_order};
use toolbooth_core::skill::StepPlan;
use toolbooth_engine::{ExternalAccess, JobSource, KnownJob, TaskFinder};
use utoipa::ToSchema;

/// A job. Times are in milliseconds since 1970.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobView {
    name: String,
    summary: String,
    description: Option<String>,
    /// The persona whose folder it is in; null for a shared job.
    persona: Option<String>,
    /// The personas that may see and schedule it; `*` stands for every caller.
    personas: Vec<String>,
    required_skills: Vec<String>,
    required_tools: Vec<String>,
    /// The capabilities of its tools and skills.
    capability_requirements: BTreeSet<String>,
    /// Its tasks, in the order in which they run. Lists leave out their description and metadata.
    #[schema(value_type = Vec<Object>)]
    task_graph: Value,
    /// Its steps in the order in which they run, if it has no tasks. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Value>,
    /// When it is due.
    #[schema(value_type = Option<Object>)]
    recurrence: Option<Value>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance_criteria: Option<Vec<Value>>,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    escalation_policy: Option<Value>,
    /// The job whose fields it inherits.
    extends: Option<String>,
    accepts_external_requests: bool,
    /// `draft`, `scheduled`, `running`, `succeeded`, `failed` or `cancelled`.
    status: &'static str,
    /// The user whom it runs as; null for a manifest job that was never scheduled, and for other users.
    owner: Option<String>,
    /// Whether its schedule is paused.
    paused: bool,
    /// When it is due next.
    next_run_at: Option<i64>,
    /// The run that has not ended.
    active_run: Option<String>,
    /// The latest run.
    last_run: Option<String>,
    /// The number of criteria of the latest run that wait for a person.
    open_criteria: usize,
    /// Whether everything that it needs is there now.
    ready: bool,
    /// What is missing or unhealthy.
    reasons: Vec<String>,
    health: JobHealthView,
    /// `manifest` or `request`.
    source: &'static str,
    /// The file of a manifest job; for administrators.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    created_at: Option<i64>,
    /// When it was changed; for `expected_updated_at`.
    updated_at: Option<i64>,
    /// The upcoming times, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schedule: Option<JobScheduleView>,
    /// The latest runs, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runs: Option<Vec<RunView>>,
    /// How another system starts it, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) webhook: Option<JobWebhookView>,
    /// The latest events, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) events: Option<Vec<Value>>,
}

/// The health of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobHealthView {
    job: JobHealthSlice,
}

/// The recent runs of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobHealthSlice {
    /// The number of recent runs, at most 100.
    runs: usize,
    /// The share of them that succeeded, from 0 to 1.
    success_rate: Option<f64>,
    /// How long they took: `avg`, `p50` and `p95`.
    #[schema(value_type = Option<Object>)]
    latency_ms: Option<Value>,
}

/// How another system starts a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobWebhookView {
    /// The path of the request.
    path: String,
    /// The key of its signature.
    key: String,
}

/// The address and key of a job.
pub(super) fn webhook(access: ExternalAccess) -> JobWebhookView {
    JobWebhookView { path: format!("/job-requests/{}", access.id), key: access.key }
}

/// The upcoming times of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobScheduleView {
    paused: bool,
    /// The time zone of the recurrence.
    timezone: Option<String>,
    /// The next times, whether the job is scheduled or not.
    upcoming: Vec<i64>,
    /// The same times in the time zone of the recurrence, such as `2026-07-28 09:30 +02:00`.
    upcoming_local: Vec<String>,
    /// The time at which the scheduled job is due next, in that zone.
    next_run_local: Option<String>,
}

impl JobView {
    /// Whether the caller may see the runs of the job.
    pub(super) fn is_own(&self, caller: &Caller) -> bool {
        caller.admin == Admin::Yes || self.owner.as_deref() == Some(&*caller.user)
    }

    /// The entry of a list.
    pub(super) fn without_bodies(mut self) -> Self {
        for node in self.task_graph.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            node.retain(|key, _| matches!(key.as_str(), "task" | "depends_on"));
        }
        Self { plan: None, acceptance_criteria: None, escalation_policy: None, ..self }
    }
}

/// The view of a job for a caller.
pub(super) async fn view(
    rest: &RestState,
    caller: &Caller,
    job: &KnownJob,
) -> Result<JobView, ProblemDocument> {
    let mut tasks = rest.engine().jobs().task_finder(caller);
    view_with(rest, caller, job, &mut tasks).await
}

/// The view of a job for a caller, for whom these tasks were looked up.
pub(super) async fn view_with(
    rest: &RestState,
    caller: &Caller,
    job: &KnownJob,
    tasks: &mut TaskFinder<'_>,
) -> Result<JobView, ProblemDocument> {
    let readiness = rest.engine().jobs().readiness(caller, job, tasks).await?;
    let definition = &job.definition;
    let record = job.record.as_ref();
    let is_admin = caller.admin == Admin::Yes;
    let owner = record.map(|record| record.owner.user.clone());
    let owner = owner.filter(|owner| is_admin || **owner == *caller.user);
    let health = record.map(|record| record.health()).unwrap_or_default();
    let (source, persona, origin) = match &job.source {
        JobSource::Manifest { persona, origin } => ("manifest", persona.clone(), Some(origin.clone())),
        JobSource::Request => ("request", None, None),
    };
    let JobDefinition { name, summary, description, personas, required_skills, required_tools, .. } =
        definition.clone();
    Ok(JobView {
        name,
        summary,
        description,
        persona,
        personas,
        required_skills,
        required_tools,
        capability_requirements: readiness.capabilities,
        task_graph: json(&in_order(&definition.task_graph).unwrap_or_default()),
        plan: definition.plan.as_ref().map(plan_in_order),
        recurrence: definition.recurrence.as_ref().map(json),
        acceptance_criteria: Some(definition.acceptance_criteria.iter().map(json).collect()),
        escalation_policy: Some(json(&definition.escalation_policy)),
        extends: definition.extends.clone(),
        accepts_external_requests: definition.accepts_external_requests,
        status: job.state().as_str(),
        active_run: record
            .and_then(|record| record.active_run)
            .filter(|_| owner.is_some())
            .map(|id| id.to_string()),
        last_run: record
            .and_then(|record| record.last_run)
            .filter(|_| owner.is_some())
            .map(|id| id.to_string()),
        open_criteria: record.filter(|_| owner.is_some()).map_or(0, |record| record.open_criteria),
        owner,
        paused: record.is_some_and(|record| record.paused),
        next_run_at: record.filter(|record| !record.paused).and_then(|record| record.next_run_ms),
        ready: readiness.reasons.is_empty(),
        reasons: readiness.reasons,
        health: JobHealthView {
            job: JobHealthSlice {
                runs: health.calls,
                success_rate: health.success_rate,
                latency_ms: health.latency_ms.as_ref().map(json),
            },
        },
        source,
        origin: origin.filter(|_| is_admin),
        created_at: record.map(|record| record.created_ms),
        updated_at: record.map(|record| record.updated_ms),
        schedule: None,
        runs: None,
        webhook: None,
        events: None,
    })
}

/// The upcoming times of a job.
pub(super) fn schedule(rest: &RestState, job: &KnownJob, count: usize) -> JobScheduleView {
    let recurrence = job.definition.recurrence.as_ref();
    let compiled = recurrence.and_then(|recurrence| recurrence.compile().ok());
    let now = rest.engine().clock().now_ms();
    let upcoming = compiled.as_ref().map(|schedule| schedule.upcoming(now, count)).unwrap_or_default();
    let local = |at_ms: i64| compiled.as_ref().map(|schedule| schedule.local_time(at_ms));
    let scheduled = job.record.as_ref().filter(|record| !record.paused);
    let next_run_ms = scheduled.and_then(|record| record.next_run_ms);
    JobScheduleView {
        paused: job.record.as_ref().is_some_and(|record| record.paused),
        timezone: recurrence.and_then(|recurrence| recurrence.timezone.clone()),
        upcoming_local: upcoming.iter().filter_map(|at_ms| local(*at_ms)).collect(),
        next_run_local: next_run_ms.and_then(local),
        upcoming,
    }
}

/// The steps of a plan in the order in which they run.
pub(super) fn plan_in_order(written: &Value) -> Value {
    StepPlan::read(written).map_or_else(|_| written.clone(), |plan| plan.in_order())
}

fn json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
