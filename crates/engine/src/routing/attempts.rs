//! Attempts to serve a call: one provider after the other, each as often as is safe, all under one deadline.
//!
//! The rule for another attempt is the same within one provider and between two: nothing was sent, or the tool can
//! safely be called twice.

use super::hedge::hedge_after;
use super::value::marked;
use super::{InnerQuestion, Instance, ProviderFault};
use crate::answer::Answer;
use crate::call_record::CallIds;
use crate::client_channel::ClientChannel;
use crate::clock::now_ms;
use crate::dead_letters::Undelivered;
use crate::dispatch::{Deadline, QuestionHandling};
use crate::engine::Engine;
use crate::health::ending_of;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::call::{Approval, Provider, Sealed, ServesPlanStep};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::health::HealthSample;
use toolbooth_core::manifest::Parallel;
use toolbooth_core::provider::{NoProvider, Skip};
use toolbooth_core::retry::Repeat;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::error::SentStatus;
use toolbooth_upstream::peer::ResultReading;
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::codes::INVALID_PARAMS;

/// How to dispatch a call.
#[derive(Debug, Clone)]
pub(crate) struct DispatchOptions {
    /// The ids of the call.
    pub(crate) ids: CallIds,
    /// The client's answers and the request state, if this request continues an earlier one.
    pub(crate) round: Round,
    /// Whether the client wants progress notifications.
    pub(crate) progress: ProgressMode,
    /// How the client answers a server's questions.
    pub(crate) questions: QuestionHandling,
    /// Whether a long result may be passed on in pieces.
    pub(crate) reading: ResultReading,
    /// A person's approval of the called tool.
    pub(crate) approval: Option<Approval>,
    /// Approvals of tools behind the called one.
    pub(crate) inner_approvals: Vec<Approval>,
    /// Whether the call is a step of a plan that a person approved.
    pub(crate) planned: ServesPlanStep,
}

/// A random number from 0 to 1. Without randomness it is 1, which only makes pauses longer.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    if getrandom::fill(&mut bytes).is_err() {
        return 1.0;
    }
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Whether another attempt is safe after a failure.
fn may_repeat(sent: SentStatus, repeat: Repeat) -> bool {
    sent == SentStatus::No || repeat == Repeat::Harmless
}

impl Engine {
    /// Retries a server after a first failure, as often as is safe and the deadline allows.
    pub(crate) async fn retry_server(
        &self,
        (first, mut failed): (UpstreamError, Box<Undelivered>),
        call: &Sealed,
        provider: &Provider<'_>,
        options: &DispatchOptions,
        channel: &ClientChannel<'_>,
        mut deadline: Deadline<'_>,
    ) -> Result<Answer, Box<Undelivered>> {
        let terms = self.terms().routing.retry.clone();
        let repeat = Repeat::of(call.tool());
        let mut error = first;
        for failures in 1..terms.attempts {
            if !may_repeat(error.sent(), repeat) || !super::fault::may_pass(&error, failures) {
                break;
            }
            let asked = super::fault::retry_after(&error).unwrap_or_default();
            let pause = terms.pause(failures, random_fraction()).max(asked);
            if asked > terms.max || !deadline.leaves(pause) {
                break;
            }
            tracing::debug!(tool = %call.tool().exposed, failures, "retrying a call in {pause:?}: {error}");
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let attempt = pin!(self.attempt(call, provider.server, options, channel));
            match deadline.hold(attempt).await {
                Ok(answer) => return Ok(marked(answer, None, failures + 1)),
                Err(other) => {
                    failed = Undelivered::on_server(Some(failed), provider.server, &other, began);
                    error = other;
                }
            }
        }
        Err(failed)
    }

    /// Serves a call with one of its tool's providers.
    pub(crate) async fn serve_by_providers(
        &self,
        call: &Sealed,
        options: DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, Box<Undelivered>> {
        let tool = call.tool();
        // Questions are answered during the call, because another round might reach another provider. The result must
        // be read, because the provider's id is added to it.
        let options = DispatchOptions {
            questions: QuestionHandling::DuringCall,
            reading: ResultReading::Whole,
            ..options
        };
        let repeat = Repeat::of(tool);
        let deadline = Deadline::of(tool, self.options().max_call, link);
        let mut budget = AttemptBudget { repeat, deadline, attempts: 0, failed: None };
        let mut skipped = Vec::new();
        let candidates = self.candidates(call, &mut skipped);
        let mut last: Option<(String, ProviderFault)> = None;
        let mut done: Vec<usize> = Vec::new();
        for (position, (index, one)) in candidates.iter().enumerate() {
            if done.contains(index) {
                continue;
            }
            let others = &candidates[position + 1..];
            let next =
                match others.iter().any(|(_, other)| other.skip_reason(self.routing().now_ms()).is_none()) {
                    true => NextProvider::Ready,
                    false => NextProvider::Absent,
                };
            let hedge = hedge_after(call, repeat).filter(|_| next == NextProvider::Ready);
            let (tried, other) = match (hedge, others.first()) {
                (Some(after), Some(second)) if !done.contains(&second.0) => {
                    let pair = [&candidates[position], second];
                    let race = Box::pin(self.try_two(call, pair, after, &options, &mut budget, link)).await;
                    (race.first, race.second.map(|tried| (second, tried)))
                }
                _ => (
                    Some(self.try_provider(call, *index, one, &options, next, &mut budget, link).await),
                    None,
                ),
            };
            let both = tried.map(|tried| (&candidates[position], tried)).into_iter().chain(other);
            let mut goes_on = true;
            let mut question = None;
            for ((index, one), tried) in both {
                done.push(*index);
                match tried {
                    AttemptOutcome::Served(answer) => {
                        return Ok(marked(answer, Some(&one.spec.id), budget.attempts));
                    }
                    AttemptOutcome::Asks(asked) => question = Some(asked),
                    AttemptOutcome::Skipped(skip) => skipped.push((one.spec.id.clone(), skip)),
                    AttemptOutcome::Failed(fault) => {
                        goes_on &= may_repeat(fault.sent(), repeat) && budget.deadline.leaves(Duration::ZERO);
                        let code = fault.problem(&one.spec.id).code;
                        tracing::info!(
                            tool = %tool.exposed, provider = %one.spec.id, attempts = budget.attempts,
                            "provider `{}` did not serve `{}`: {code}", one.spec.id, tool.exposed
                        );
                        skipped.push((one.spec.id.clone(), Skip::Failed { code: code.to_owned() }));
                        last = Some((one.spec.id.clone(), fault));
                    }
                }
            }
            // Failing over to the next provider must not bypass the question of this one.
            if let Some(question) = question {
                return Err(Undelivered::asking(question));
            }
            if !goes_on {
                break;
            }
        }
        match last {
            Some((_, ProviderFault::Rpc(error))) => Ok(Answer::Error(error)),
            Some((id, fault)) => {
                Err(budget.failed.take().unwrap_or_else(|| Undelivered::untried(fault.problem(&id))))
            }
            None => {
                let skipped = skipped.into_iter().map(|(id, skip)| (id, skip.visible_to(call.caller())));
                let no_provider = NoProvider { tool: tool.exposed.to_string(), skipped: skipped.collect() };
                Err(Undelivered::untried(Problem::of(&no_provider)))
            }
        }
    }

    /// Returns the providers to try, best first and those that are still connecting last, and collects why the others
    /// are skipped.
    fn candidates(&self, call: &Sealed, skipped: &mut Vec<(String, Skip)>) -> Vec<(usize, Arc<Instance>)> {
        let tool = call.tool();
        let providers = self.routing().of(tool);
        let (mut ready, mut connecting) = (Vec::new(), Vec::new());
        for (index, one) in &providers.ordered {
            match self.skip(tool, *index, one, call) {
                Some(skip) => skipped.push((one.spec.id.clone(), skip)),
                None if self.is_connecting(one) => connecting.push((*index, one.clone())),
                None => ready.push((*index, one.clone())),
            }
        }
        ready.append(&mut connecting);
        ready
    }

    fn skip(&self, tool: &Arc<Tool>, index: usize, one: &Instance, call: &Sealed) -> Option<Skip> {
        let hidden = self.target_of(tool, index, one, call.caller()).err();
        hidden
            .or_else(|| {
                let missing = self.missing(&tool.terms, one);
                (!missing.is_empty()).then_some(Skip::NoCredentials { missing })
            })
            .or_else(|| self.down(one))
            .or_else(|| one.skip_reason(self.routing().now_ms()))
    }

    /// Tries one provider: once if another is ready, else as often as is safe.
    #[allow(clippy::too_many_arguments, reason = "the values of the stages, all of different types")]
    pub(super) async fn try_provider(
        &self,
        call: &Sealed,
        index: usize,
        one: &Arc<Instance>,
        options: &DispatchOptions,
        next: NextProvider,
        budget: &mut AttemptBudget<'_>,
        link: &CallLink,
    ) -> AttemptOutcome {
        let terms = self.terms().routing.retry.clone();
        let mut failures = 0;
        loop {
            let trial = match one.admit(self.routing().now_ms()) {
                Ok(trial) => trial,
                Err(skip) => return AttemptOutcome::Skipped(skip),
            };
            budget.attempts += 1;
            // If the next provider can safely be asked as well, this one gets half of the remaining time.
            let share = match (next, budget.repeat) {
                (NextProvider::Ready, Repeat::Harmless) => Some(budget.deadline.left() / 2),
                _ => None,
            };
            let began = Instant::now();
            let serving = pin!(self.serve_in_turn(call, index, one, options, link));
            let served = budget.deadline.hold_for(share, serving).await;
            let fault = match served {
                Ok(Answer::Error(error)) if error.code != INVALID_PARAMS => ProviderFault::Rpc(error),
                Ok(answer) => {
                    trial.succeeded();
                    self.note_attempt(call, one, Ok(&answer), began);
                    return AttemptOutcome::Served(answer);
                }
                Err(ProviderFault::Asks(question)) => return AttemptOutcome::Asks(question),
                Err(fault) => fault,
            };
            let problem = fault.problem(&one.spec.id);
            self.note_attempt(call, one, Err(&problem), began);
            let failed =
                Undelivered::then(budget.failed.take(), one.spec.id.clone(), problem, fault.sent(), began);
            budget.failed = Some(failed);
            match fault.is_the_providers() {
                true => trial.failed(self.routing().now_ms()),
                false => drop(trial),
            }
            failures += 1;
            let may = may_repeat(fault.sent(), budget.repeat) && fault.may_pass(failures);
            let asked = fault.retry_after().unwrap_or_default();
            let pause = terms.pause(failures, random_fraction()).max(asked);
            let again = may && next == NextProvider::Absent && failures < terms.attempts;
            if !again || asked > terms.max || !budget.deadline.leaves(pause) {
                return AttemptOutcome::Failed(fault);
            }
            tokio::time::sleep(pause).await;
            if one.skip_reason(self.routing().now_ms()).is_some() {
                return AttemptOutcome::Failed(fault);
            }
        }
    }

    /// Records the outcome of an attempt for the provider's health.
    fn note_attempt(&self, call: &Sealed, one: &Instance, answer: Result<&Answer, &Problem>, began: Instant) {
        let Some((ending, error_code)) = ending_of(answer) else { return };
        let provider = instance_key(call.tool(), &one.spec.id);
        let took = began.elapsed();
        let persona = call.caller().persona_name();
        let at_ms = now_ms();
        self.health().record_attempt(&HealthSample {
            at_ms,
            took,
            ending,
            error_code,
            provider: &provider,
            persona,
        });
    }

    /// Serves a call, after waiting in the tool's queue if its calls may not overlap.
    async fn serve_in_turn(
        &self,
        call: &Sealed,
        index: usize,
        one: &Arc<Instance>,
        options: &DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, ProviderFault> {
        let tool = call.tool();
        let _turn = match tool.terms.parallel {
            Parallel::OneAtATime => {
                let max_waiting = self.terms().routing.queue;
                Some(one.queue.wait(&tool.exposed, max_waiting).await.map_err(ProviderFault::Other)?)
            }
            Parallel::Allowed | Parallel::Unspecified => None,
        };
        self.serve(call, index, one, options, link).await
    }
}

/// The key of a provider's health window: provider ids are unique only within their tool.
pub fn instance_key(tool: &Tool, provider: &str) -> String {
    format!("{}/{provider}", tool.canonical())
}

/// Whether another provider is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextProvider {
    Ready,
    Absent,
}

/// The remaining time of a call, and its attempts so far.
pub(super) struct AttemptBudget<'a> {
    repeat: Repeat,
    deadline: Deadline<'a>,
    attempts: u32,
    /// The failures so far.
    failed: Option<Box<Undelivered>>,
}

impl AttemptBudget<'_> {
    /// A budget with the same deadline, for a concurrent attempt.
    pub(super) fn fork(&self) -> Self {
        Self { repeat: self.repeat, deadline: self.deadline, attempts: 0, failed: None }
    }

    /// Adds the attempts of a concurrent budget.
    pub(super) fn join(&mut self, other: Self) {
        self.attempts += other.attempts;
        if let Some(more) = other.failed {
            self.failed = Some(more.after(self.failed.take()));
        }
    }
}

/// The outcome of one provider.
pub(super) enum AttemptOutcome {
    Served(Answer),
    Asks(Box<InnerQuestion>),
    Skipped(Skip),
    Failed(ProviderFault),
}

/// Errors that can be made from an expired deadline.
pub(crate) trait FromTimeout {
    /// The error for a server that took longer than `after`.
    fn timed_out(server: &str, after: Duration) -> Self;
}

impl FromTimeout for UpstreamError {
    fn timed_out(server: &str, after: Duration) -> Self {
        Self::Timeout { server: server.to_owned(), after }
    }
}

impl FromTimeout for ProviderFault {
    /// Names the provider instead of the server: the server of a manifest tool is an internal detail.
    fn timed_out(_server: &str, after: Duration) -> Self {
        Self::Timeout(after)
    }
}

impl FromTimeout for Problem {
    fn timed_out(server: &str, after: Duration) -> Self {
        let error: &dyn Fault = &UpstreamError::timed_out(server, after);
        Self::of(error)
    }
}
