//! Runs the steps of a plan: ready steps concurrently, each as a call of the same caller.

use super::observer::StepObserver;
use super::{Skills, StepCall, StepCaller};
use crate::answer::Answer;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::skill::{
    MissingValue, Readiness, RunState, SkillFault, SkillStep, StepError, StepPlan, StepRecord, StepRecords,
    StepState, StepValues, is_within_limit, results_of,
};
use toolbooth_upstream::CallLink;
use uuid::Uuid;

/// The maximum number of steps of one run that run at the same time.
const MAX_CONCURRENT: usize = 8;
/// The maximum length of a tool's error text in the record of a step.
const MAX_ERROR_TEXT: usize = 1000;
/// How often a run whose time is over checks whether a question to the client is still open.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A run of a plan.
#[derive(Debug)]
pub struct PlanRun {
    /// The plan.
    pub plan: Arc<StepPlan>,
    /// The caller: all steps run as this caller, with no other rights.
    pub caller: Arc<Caller>,
    /// What the caller's client declared about itself.
    pub client: Arc<ClientFacts>,
    /// The values of `${arguments.NAME}`.
    pub arguments: Map<String, Value>,
    /// The outcomes of steps that ran before. Those that are kept (`StepRecord::is_kept`) are not run again.
    pub finished: StepRecords,
    /// The time for all steps. The time in which the client is asked does not count.
    pub limit: Duration,
    /// How long a step waits for a person's approval; `None` for the configured `approval.wait_seconds`.
    pub approval_wait: Option<Duration>,
    /// What runs, for events and the audit.
    pub label: RunLabel,
}

/// What runs, for events and the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLabel {
    /// `skill` or `job`.
    pub kind: &'static str,
    /// The name of the skill or job.
    pub name: String,
    /// The id of the run.
    pub run: Uuid,
    /// The part of a job's run that the steps are in; empty for a skill that its caller runs.
    pub part: String,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOutcome {
    /// The state of the whole run.
    pub state: RunState,
    /// The outcome of every step.
    pub steps: StepRecords,
}

impl Skills {
    /// Checks a plan for its caller and runs it. The error means that nothing was run, or that the observer failed.
    /// Dropping the future cancels the calls that are running.
    pub async fn run_plan(
        &self,
        run: &PlanRun,
        observer: &dyn StepObserver,
        link: &CallLink,
    ) -> Result<PlanOutcome, Problem> {
        let names: Vec<&str> = run.plan.tools().collect();
        for name in names {
            self.catalog.wait_for_tool(name, &run.caller).await;
        }
        let problems = self.check_plan(&run.plan, &run.caller);
        if !problems.is_empty() {
            let faults = problems.into_iter().map(|problem| problem.message).collect();
            return Err(Problem::of(&SkillFault::Refused { faults }));
        }
        let runner = self.runner()?;
        let started = Instant::now();
        self.emit_run(run, EventKind::SkillStarted, None);
        let execution = Execution {
            skills: self,
            run,
            runner,
            observer,
            link,
            started,
            asked_before: link.time_with_client(),
        };
        let steps = execution.run().await?;
        let outcome = PlanOutcome { state: RunState::of(&steps), steps };
        let kind = match outcome.state {
            RunState::Failed => EventKind::SkillFailed,
            RunState::Held => EventKind::SkillHeld,
            RunState::Succeeded => EventKind::SkillSucceeded,
        };
        self.emit_run(run, kind, Some((outcome.state, started.elapsed())));
        Ok(outcome)
    }

    /// Emits the start or end of a skill. Jobs have their own events.
    fn emit_run(&self, run: &PlanRun, kind: EventKind, end: Option<(RunState, Duration)>) {
        // The end of a run that continues is announced by the part of the engine that stores it.
        if run.label.kind != "skill" || !run.finished.is_empty() {
            return;
        }
        self.events.emit_with(|| {
            let mut event = Event::new(kind)
                .user(run.caller.user.clone())
                .call(run.label.run)
                .with("skill", run.label.name.as_str())
                .with("steps", run.plan.steps().len());
            if let Some((state, took)) = end {
                event = event.took(took).with("state", state.as_str());
            }
            event
        });
    }
}

/// The end of a step's future: its id and its record, or the observer's error.
type StepEnd<'a> = (&'a SkillStep, Result<StepRecord, Problem>);

/// A run in progress.
struct Execution<'a> {
    skills: &'a Skills,
    run: &'a PlanRun,
    runner: Arc<dyn StepCaller>,
    observer: &'a dyn StepObserver,
    link: &'a CallLink,
    started: Instant,
    /// The time in which the client had been asked before the run began.
    asked_before: Duration,
}

impl<'a> Execution<'a> {
    async fn run(&self) -> Result<StepRecords, Problem> {
        let kept = self.run.finished.iter().filter(|(_, record)| record.is_kept());
        let is_of_plan = |id: &String| self.run.plan.step(id).is_some();
        let kept = kept.filter(|(id, _)| is_of_plan(id));
        let mut records: StepRecords = kept.map(|(id, record)| (id.clone(), record.clone())).collect();
        let mut running: BTreeMap<&'a str, Uuid> = BTreeMap::new();
        let mut calls: FuturesUnordered<BoxFuture<'_, StepEnd<'a>>> = FuturesUnordered::new();
        let mut failure: Option<Problem> = None;
        loop {
            if failure.is_none() {
                failure = self.start_ready(&mut records, &mut running, &mut calls).await.err();
            }
            if calls.is_empty() {
                break;
            }
            match self.next_end(&mut calls).await {
                Some((step, ended)) => {
                    running.remove(step.id.as_str());
                    let noted = match ended {
                        Ok(record) => self.note(step, record, &mut records).await,
                        Err(problem) => Err(problem),
                    };
                    failure = failure.or(noted.err());
                }
                None => {
                    // The time is over: the calls are cancelled at their servers.
                    calls.clear();
                    self.time_out(&running, &mut records).await?;
                    break;
                }
            }
        }
        match failure {
            Some(problem) => Err(problem),
            None => Ok(records),
        }
    }

    /// Starts the steps that are ready. Steps that are skipped or can no longer start may make others ready.
    async fn start_ready<'f>(
        &'f self,
        records: &mut StepRecords,
        running: &mut BTreeMap<&'a str, Uuid>,
        calls: &mut FuturesUnordered<BoxFuture<'f, StepEnd<'a>>>,
    ) -> Result<(), Problem> {
        // The steps are sorted, so one pass reaches every step whose predecessors end in it.
        for step in self.run.plan.steps() {
            if records.contains_key(&step.id) || running.contains_key(step.id.as_str()) {
                continue;
            }
            match step.readiness(records) {
                Readiness::NotYet => {}
                Readiness::Never(state) => self.note(step, StepRecord::of_state(state), records).await?,
                Readiness::Ready if running.len() >= MAX_CONCURRENT => {}
                Readiness::Ready => {
                    let values = StepValues { arguments: &self.run.arguments, steps: records };
                    if step.when.as_ref().is_some_and(|condition| !condition.holds(&values)) {
                        self.note(step, StepRecord::of_state(StepState::Skipped), records).await?;
                        continue;
                    }
                    match values.fill(&step.arguments) {
                        Err(missing) => {
                            let problem = Problem::of(&missing_value(step, missing));
                            self.note(step, StepRecord::failed(None, &problem), records).await?;
                        }
                        Ok(arguments) => {
                            let id = Uuid::now_v7();
                            running.insert(&step.id, id);
                            calls.push(Box::pin(self.call(step, id, arguments)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn call(&self, step: &'a SkillStep, id: Uuid, arguments: Map<String, Value>) -> StepEnd<'a> {
        if let Err(problem) = self.observer.starts(step, id).await {
            return (step, Err(problem));
        }
        let incoming = IncomingCall {
            caller: self.run.caller.clone(),
            client: self.run.client.clone(),
            name: step.tool.clone(),
            arguments: Some(RawJson::from_value(&arguments)),
            meta: Vec::new(),
        };
        let started_ms = self.skills.clock.now_ms();
        let call = StepCall {
            incoming,
            id,
            step: step.id.clone(),
            approval_wait: self.run.approval_wait,
            timeout: step.timeout,
            label: self.run.label.clone(),
        };
        let answer = self.runner.clone().call_step(call, self.link).await;
        let record = record_of(step, id, answer);
        // A held step ends when it was decided and has run.
        let ended_ms = (record.state != StepState::Held).then(|| self.skills.clock.now_ms());
        (step, Ok(StepRecord { started_ms: Some(started_ms), ended_ms, ..record }))
    }

    /// The next step that ends; `None` when the time is over.
    async fn next_end(
        &self,
        calls: &mut FuturesUnordered<BoxFuture<'_, StepEnd<'a>>>,
    ) -> Option<StepEnd<'a>> {
        let end = || {
            let asked = self.link.time_with_client().saturating_sub(self.asked_before);
            self.started + self.run.limit + asked
        };
        let mut wake = end();
        loop {
            match tokio::time::timeout_at(wake, calls.next()).await {
                Ok(ended) => return ended,
                Err(_) if self.link.waits_for_client() => wake = Instant::now() + LOOK_AGAIN,
                Err(_) if end() > Instant::now() => wake = end(),
                Err(_) => return None,
            }
        }
    }

    /// Records the steps that were running as failed, and the others as cancelled.
    async fn time_out(
        &self,
        running: &BTreeMap<&'a str, Uuid>,
        records: &mut StepRecords,
    ) -> Result<(), Problem> {
        let problem = Problem::of(&SkillFault::TimedOut { seconds: self.run.limit.as_secs() });
        for step in self.run.plan.steps() {
            if records.contains_key(&step.id) {
                continue;
            }
            let record = match running.get(step.id.as_str()) {
                Some(call) => StepRecord::failed(Some(*call), &problem),
                None => StepRecord::of_state(StepState::Cancelled),
            };
            self.note(step, record, records).await?;
        }
        Ok(())
    }

    /// Adds the outcome of a step, and tells the observer.
    async fn note(
        &self,
        step: &SkillStep,
        record: StepRecord,
        records: &mut StepRecords,
    ) -> Result<(), Problem> {
        let label = &self.run.label;
        let kind = if label.kind == "job" { EventKind::JobStep } else { EventKind::SkillStep };
        self.skills.events.emit_with(|| {
            let mut event = Event::new(kind)
                .user(self.run.caller.user.clone())
                .call(record.call.unwrap_or(label.run))
                .with(label.kind, label.name.as_str())
                .with("step", step.id.as_str())
                .with("state", record.state.as_str());
            if let Some(error) = &record.error {
                event = event.code(error.code.clone());
            }
            event
        });
        let noted = self.observer.ended(step, &record).await;
        records.insert(step.id.clone(), record);
        noted
    }
}

fn missing_value(step: &SkillStep, missing: MissingValue) -> SkillFault {
    match missing {
        MissingValue::Reference(reference) => SkillFault::NoValue { step: step.id.clone(), reference },
        MissingValue::TooLarge => SkillFault::LargeArguments { step: step.id.clone() },
    }
}

/// The record of a step from the answer to its call.
fn record_of(step: &SkillStep, id: Uuid, answer: Result<Answer, Problem>) -> StepRecord {
    let (result, facts) = match answer {
        Ok(Answer::Result { result, facts, .. }) => (result, facts),
        Ok(Answer::Long { long, facts, .. }) => (long.whole(), facts),
        Ok(Answer::Held { id: held, .. }) => {
            return StepRecord { call: Some(id), held: Some(held), ..StepRecord::of_state(StepState::Held) };
        }
        Ok(Answer::Error(error)) => return StepRecord::failed(Some(id), &tool_error(step, &error.message)),
        Ok(Answer::InputRequired { server, .. }) => {
            let text = format!("server `{server}` asked a question that could not be answered");
            return StepRecord::failed(Some(id), &tool_error(step, &text));
        }
        Err(problem) => return StepRecord::failed(Some(id), &problem),
    };
    let results = results_of(&result);
    if facts.is_error {
        let text = results.as_str().map_or_else(|| results.to_string(), str::to_owned);
        return StepRecord::failed(Some(id), &tool_error(step, &text));
    }
    if is_within_limit(&results) {
        return StepRecord::succeeded(Some(id), results);
    }
    let error = StepError {
        code: "skill.large-result".to_owned(),
        message: "the result is too large for later steps".to_owned(),
        hint: None,
    };
    StepRecord { call: Some(id), error: Some(error), ..StepRecord::of_state(StepState::Succeeded) }
}

/// The problem of a step whose tool reported an error.
fn tool_error(step: &SkillStep, text: &str) -> Problem {
    let shown: String = text.chars().take(MAX_ERROR_TEXT).collect();
    Problem {
        code: "skill.step-failed",
        blame: Blame::Upstream,
        message: format!("step `{}`: {shown}", step.id),
        hint: None,
    }
}
