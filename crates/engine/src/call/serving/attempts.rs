//! Attempts to serve a call: one provider after the other, each as often as is safe, all under one deadline.
//!
//! The rule for another attempt is the same within one provider and between two: nothing was sent, or the tool can
//! safely be called twice.

use super::budget::{AttemptBudget, AttemptOutcome, NextProvider};
use super::fault::ProviderFault;
use super::hedge::{Race, hedge_after};
use super::value::marked;
use crate::answer::Answer;
use crate::call::client_channel::ClientChannel;
use crate::call::deadline::Deadline;
use crate::call::dispatch_failure::DispatchFailure;
use crate::call::options::DispatchOptions;
use crate::call::pipeline::CallPipeline;
use crate::dead_letters::AttemptTimes;
use crate::health::ending_of;
use crate::providers::{Instance, random_fraction};
use crate::routing::instance_key;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::call::{Provider, Sealed};
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::health::HealthSample;
use toolbooth_core::manifest::Parallel;
use toolbooth_core::provider::{NoProvider, Skip};
use toolbooth_core::retry::Repeat;
use toolbooth_upstream::error::SentStatus;
use toolbooth_upstream::peer::ResultReading;
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::codes::INVALID_PARAMS;

/// Whether a call may still wait for a reconnect without counting an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReconnectWait {
    Left,
    Used,
}

/// Whether another attempt is safe after a failure.
fn may_repeat(sent: SentStatus, repeat: Repeat) -> bool {
    sent == SentStatus::No || repeat == Repeat::Harmless
}

/// The failure of a call for which no provider was tried.
fn no_provider(call: &Sealed, skipped: Vec<(String, Skip)>) -> Box<DispatchFailure> {
    let skipped = skipped.into_iter().map(|(id, skip)| (id, skip.visible_to(call.caller())));
    let tool = call.tool().exposed.to_string();
    DispatchFailure::untried(Problem::of(&NoProvider { tool, skipped: skipped.collect() }))
}

impl CallPipeline {
    /// Retries a server after a first failure, as often as is safe and the deadline allows.
    pub(in crate::call) async fn retry_server(
        &self,
        (first, mut failed): (UpstreamError, Box<DispatchFailure>),
        call: &Sealed,
        provider: &Provider<'_>,
        options: &DispatchOptions,
        channel: &ClientChannel<'_>,
        mut deadline: Deadline<'_>,
    ) -> Result<Answer, Box<DispatchFailure>> {
        let terms = self.terms.load().routing.retry.clone();
        let repeat = Repeat::of(call.tool());
        let mut error = first;
        let (mut failures, mut tries) = (1, 1);
        let mut reconnect = ReconnectWait::Left;
        while failures < terms.attempts {
            if !may_repeat(error.sent(), repeat) || !super::fault::may_pass(&error) {
                break;
            }
            let asked = super::fault::retry_after(&error).unwrap_or_default();
            let pause = terms.pause(failures, random_fraction()).max(asked);
            if asked > terms.max || !deadline.leaves(pause) {
                break;
            }
            tracing::debug!(tool = %call.tool().exposed, failures, "retrying a call in {pause:?}: {error}");
            self.emit_retry(call, options, (tries + 1, pause), error.code().into());
            tokio::time::sleep(pause).await;
            tries += 1;
            let began = Instant::now();
            let attempt = pin!(self.attempt(call, provider.server, options, channel));
            match deadline.hold(attempt).await {
                Ok(answer) => {
                    options.attempts.add(&failed.attempts);
                    return Ok(marked(answer, None, tries));
                }
                Err(other) => {
                    let times = AttemptTimes::until_now(&self.clock, began.elapsed());
                    failed = DispatchFailure::on_server(Some(failed), provider.server, &other, times);
                    match other {
                        // One attempt that only finds the server reconnecting is not counted: nothing was tried.
                        UpstreamError::NotConnected { retry_in: Some(_), .. }
                            if reconnect == ReconnectWait::Left =>
                        {
                            reconnect = ReconnectWait::Used;
                        }
                        _ => failures += 1,
                    }
                    error = other;
                }
            }
        }
        Err(failed)
    }

    /// Serves a call with one of its tool's providers.
    pub(in crate::call) async fn serve_by_providers(
        &self,
        call: &Sealed,
        options: DispatchOptions,
        link: &CallLink,
    ) -> Result<Answer, Box<DispatchFailure>> {
        let tool = call.tool();
        // Questions are answered during the call, because another round might reach another provider. The result must
        // be read, because the provider's id is added to it.
        let options = DispatchOptions {
            questions: options.questions.during_call(),
            reading: ResultReading::Whole,
            ..options
        };
        let repeat = Repeat::of(tool);
        let deadline = Deadline::of(tool, options.timeout, self.max_call, link);
        let mut budget = AttemptBudget { repeat, deadline, attempts: 0, failed: None };
        let mut skipped = Vec::new();
        let candidates = self.routing.candidates(call, &mut skipped);
        let mut last: Option<(String, ProviderFault)> = None;
        let mut done: Vec<usize> = Vec::new();
        for (position, (index, _)) in candidates.iter().enumerate() {
            if done.contains(index) {
                continue;
            }
            let left = &candidates[position..];
            let race = self.try_next(call, left, &done, &options, &mut budget, link).await;
            let mut goes_on = true;
            let mut question = None;
            for ((index, one), tried) in left.iter().zip([race.first, race.second]) {
                let Some(tried) = tried else { continue };
                done.push(*index);
                match tried {
                    AttemptOutcome::Served(answer) => {
                        if let Some(failed) = &budget.failed {
                            options.attempts.add(&failed.attempts);
                        }
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
                return Err(DispatchFailure::asking(question));
            }
            if !goes_on {
                break;
            }
        }
        match last {
            Some((_, ProviderFault::Rpc(error))) => Ok(Answer::Error(error)),
            Some((id, fault)) => {
                Err(budget.failed.take().unwrap_or_else(|| DispatchFailure::untried(fault.problem(&id))))
            }
            None => Err(no_provider(call, skipped)),
        }
    }

    /// Tries the first of these providers; also the second one, if the first is slow and the tool allows it.
    async fn try_next(
        &self,
        call: &Sealed,
        candidates: &[(usize, Arc<Instance>)],
        done: &[usize],
        options: &DispatchOptions,
        budget: &mut AttemptBudget<'_>,
        link: &CallLink,
    ) -> Race {
        let [first, others @ ..] = candidates else { return Race { first: None, second: None } };
        let now_ms = self.routing.providers().now_ms();
        let next = match others.iter().any(|(_, other)| other.skip_reason(now_ms).is_none()) {
            true => NextProvider::Ready,
            false => NextProvider::Absent,
        };
        let hedge = hedge_after(call, budget.repeat).filter(|_| next == NextProvider::Ready);
        match (hedge, others.first()) {
            (Some(after), Some(second)) if !done.contains(&second.0) => {
                Box::pin(self.try_two(call, [first, second], after, options, budget, link)).await
            }
            _ => {
                let (index, one) = first;
                let tried = self.try_provider(call, *index, one, options, next, budget, link).await;
                Race { first: Some(tried), second: None }
            }
        }
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
        let terms = self.terms.load().routing.retry.clone();
        let mut failures = 0;
        loop {
            let trial = match one.admit(self.routing.providers().now_ms()) {
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
            let times = AttemptTimes::until_now(&self.clock, began.elapsed());
            let failed = DispatchFailure::then(
                budget.failed.take(),
                one.spec.id.clone(),
                problem,
                fault.sent(),
                times,
            );
            budget.failed = Some(failed);
            match fault.is_the_providers() {
                true => trial.failed(self.routing.providers().now_ms()),
                false => drop(trial),
            }
            failures += 1;
            let may = may_repeat(fault.sent(), budget.repeat) && fault.may_pass();
            let asked = fault.retry_after().unwrap_or_default();
            let pause = terms.pause(failures, random_fraction()).max(asked);
            let again = may && next == NextProvider::Absent && failures < terms.attempts;
            if !again || asked > terms.max || !budget.deadline.leaves(pause) {
                return AttemptOutcome::Failed(fault);
            }
            self.emit_retry(call, options, (failures + 1, pause), fault.problem(&one.spec.id).code.into());
            tokio::time::sleep(pause).await;
            if one.skip_reason(self.routing.providers().now_ms()).is_some() {
                return AttemptOutcome::Failed(fault);
            }
        }
    }

    /// Emits that a call is sent again, after a delay.
    fn emit_retry(
        &self,
        call: &Sealed,
        options: &DispatchOptions,
        (attempt, delay): (u32, Duration),
        code: Cow<'static, str>,
    ) {
        self.events.emit_with(|| {
            let tool = call.tool();
            Event::new(EventKind::ToolRetry)
                .user(call.caller().user.clone())
                .server(tool.server_name())
                .tool(tool.name.clone())
                .call(options.ids.call)
                .code(code)
                .with("attempt", attempt)
                .with("delay_ms", u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
        });
    }

    /// Records the outcome of an attempt for the provider's health.
    fn note_attempt(&self, call: &Sealed, one: &Instance, answer: Result<&Answer, &Problem>, began: Instant) {
        let Some((ending, error_code)) = ending_of(answer) else { return };
        let provider = instance_key(call.tool(), &one.spec.id);
        let took = began.elapsed();
        let persona = call.caller().persona_name();
        let at_ms = self.clock.now_ms();
        self.health.record_attempt(&HealthSample {
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
                let max_waiting = self.terms.load().routing.queue;
                Some(one.queue.wait(&tool.exposed, max_waiting).await.map_err(ProviderFault::Other)?)
            }
            Parallel::Allowed | Parallel::Unspecified => None,
        };
        self.serve(call, index, one, options, link).await
    }
}
