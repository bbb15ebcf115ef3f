//! Attempts: one provider after the other, each as often as is safe, all under one deadline.
//!
//! The rule for going on is the same inside a provider and between two: nothing was sent, or nobody would
//! notice a second time.

use super::hedge::hedge_after;
use super::value::marked;
use super::{InnerQuestion, Instance, ProviderFault};
use crate::answer::Answer;
use crate::clock::now_ms;
use crate::dead_letters::Undelivered;
use crate::dispatch::{Deadline, Rounds};
use crate::engine::Engine;
use crate::health::ending_of;
use crate::run::CallIds;
use crate::sampling::Line;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolbooth_core::call::{Licence, Planned, Provider, Sealed};
use toolbooth_core::catalog::Tool;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::health::Sample;
use toolbooth_core::manifest::Parallel;
use toolbooth_core::provider::{NoProvider, Skip};
use toolbooth_core::retry::Repeat;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::error::Sent;
use toolbooth_upstream::peer::Reading;
use toolbooth_upstream::{CallLink, UpstreamError};
use toolbooth_wire::codes::INVALID_PARAMS;

/// How a call is to be made.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    /// What the call is known by.
    pub(crate) ids: CallIds,
    /// Answers and state, when this is a later round of an earlier call.
    pub(crate) round: Round,
    /// Whether the client wants progress.
    pub(crate) progress: Progress,
    /// Who answers a server's questions.
    pub(crate) rounds: Rounds,
    /// Whether a long result may stay in pieces.
    pub(crate) reading: Reading,
    /// What a person agreed to for the called tool.
    pub(crate) licence: Option<Licence>,
    /// What people agreed to for tools behind the called one.
    pub(crate) licences: Vec<Licence>,
    /// Whether the call is a step of a plan that a person approved.
    pub(crate) planned: Planned,
}

/// A number from 0 to 1. Without randomness it is 1: slower, never wrong.
pub(crate) fn dice() -> f64 {
    let mut bytes = [0_u8; 4];
    if getrandom::fill(&mut bytes).is_err() {
        return 1.0;
    }
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Whether a call may be made again after a failure.
fn may_repeat(sent: Sent, repeat: Repeat) -> bool {
    sent == Sent::No || repeat == Repeat::Harmless
}

impl Engine {
    /// Tries a server again after a first failure, as often as is safe and there is time for.
    pub(crate) async fn try_again(
        &self,
        (first, mut failed): (UpstreamError, Box<Undelivered>),
        call: &Sealed,
        provider: &Provider<'_>,
        manner: &Manner,
        line: &Line<'_>,
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
            let pause = terms.pause(failures, dice()).max(asked);
            if asked > terms.max || !deadline.leaves(pause) {
                break;
            }
            tracing::debug!(tool = %call.tool().exposed, failures, "a call is tried again in {pause:?}: {error}");
            tokio::time::sleep(pause).await;
            let began = Instant::now();
            let attempt = pin!(self.attempt(call, provider.server, manner, line));
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

    /// Has a call served by one of its tool's providers.
    pub(crate) async fn through_providers(
        &self,
        call: &Sealed,
        manner: Manner,
        link: &CallLink,
    ) -> Result<Answer, Box<Undelivered>> {
        let tool = call.tool();
        // What a server asks is answered during the call: another round might come to another provider. And
        // what is to say who served it must be read.
        let manner = Manner { rounds: Rounds::Driven, reading: Reading::Whole, ..manner };
        let repeat = Repeat::of(tool);
        let deadline = Deadline::of(tool, self.options().max_call, link);
        let mut effort = Effort { repeat, deadline, attempts: 0, failed: None };
        let mut skipped = Vec::new();
        let candidates = self.candidates(call, &mut skipped);
        let mut last: Option<(String, ProviderFault)> = None;
        let mut done: Vec<usize> = Vec::new();
        for (position, (index, one)) in candidates.iter().enumerate() {
            if done.contains(index) {
                continue;
            }
            let others = &candidates[position + 1..];
            let next = match others.iter().any(|(_, other)| other.standing(self.routing().now_ms()).is_none())
            {
                true => Next::Another,
                false => Next::Nothing,
            };
            let hedge = hedge_after(call, repeat).filter(|_| next == Next::Another);
            let (tried, other) = match (hedge, others.first()) {
                (Some(after), Some(second)) if !done.contains(&second.0) => {
                    let pair = [&candidates[position], second];
                    let race = Box::pin(self.try_two(call, pair, after, &manner, &mut effort, link)).await;
                    (race.first, race.second.map(|tried| (second, tried)))
                }
                _ => {
                    (Some(self.try_provider(call, *index, one, &manner, next, &mut effort, link).await), None)
                }
            };
            let both = tried.map(|tried| (&candidates[position], tried)).into_iter().chain(other);
            let mut goes_on = true;
            let mut question = None;
            for ((index, one), tried) in both {
                done.push(*index);
                match tried {
                    Tried::Served(answer) => return Ok(marked(answer, Some(&one.spec.id), effort.attempts)),
                    Tried::Asks(asked) => question = Some(asked),
                    Tried::Skipped(skip) => skipped.push((one.spec.id.clone(), skip)),
                    Tried::Failed(fault) => {
                        goes_on &= may_repeat(fault.sent(), repeat) && effort.deadline.leaves(Duration::ZERO);
                        let code = fault.problem(&one.spec.id).code;
                        tracing::info!(
                            tool = %tool.exposed, provider = %one.spec.id, attempts = effort.attempts,
                            "provider `{}` did not serve `{}`: {code}", one.spec.id, tool.exposed
                        );
                        skipped.push((one.spec.id.clone(), Skip::Failed { code: code.to_owned() }));
                        last = Some((one.spec.id.clone(), fault));
                    }
                }
            }
            // Failing over must not bypass the question of this provider.
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
                Err(effort.failed.take().unwrap_or_else(|| Undelivered::untried(fault.problem(&id))))
            }
            None => {
                let skipped = skipped.into_iter().map(|(id, skip)| (id, skip.told_to(call.caller())));
                let nobody = NoProvider { tool: tool.exposed.to_string(), skipped: skipped.collect() };
                Err(Undelivered::untried(Problem::of(&nobody)))
            }
        }
    }

    /// The providers to try, best first; why each of the others is not. Those still on their way come last.
    fn candidates(&self, call: &Sealed, skipped: &mut Vec<(String, Skip)>) -> Vec<(usize, Arc<Instance>)> {
        let tool = call.tool();
        let providers = self.routing().of(tool);
        let (mut ready, mut warming) = (Vec::new(), Vec::new());
        for (index, one) in &providers.ordered {
            match self.skip(tool, *index, one, call) {
                Some(skip) => skipped.push((one.spec.id.clone(), skip)),
                None if self.is_warming(one) => warming.push((*index, one.clone())),
                None => ready.push((*index, one.clone())),
            }
        }
        ready.append(&mut warming);
        ready
    }

    fn skip(&self, tool: &Arc<Tool>, index: usize, one: &Instance, call: &Sealed) -> Option<Skip> {
        let hidden = self.backing(tool, index, one, call.caller()).err();
        hidden
            .or_else(|| {
                let missing = self.missing(&tool.terms, one);
                (!missing.is_empty()).then_some(Skip::NoCredentials { missing })
            })
            .or_else(|| self.down(one))
            .or_else(|| one.standing(self.routing().now_ms()))
    }

    /// Tries one provider: once where another stands ready, else as often as is safe.
    #[allow(clippy::too_many_arguments, reason = "the stages' values, each of a type of its own")]
    pub(super) async fn try_provider(
        &self,
        call: &Sealed,
        index: usize,
        one: &Arc<Instance>,
        manner: &Manner,
        next: Next,
        effort: &mut Effort<'_>,
        link: &CallLink,
    ) -> Tried {
        let terms = self.terms().routing.retry.clone();
        let mut failures = 0;
        loop {
            let trial = match one.admit(self.routing().now_ms()) {
                Ok(trial) => trial,
                Err(skip) => return Tried::Skipped(skip),
            };
            effort.attempts += 1;
            // Where the next may be asked the same without harm, this one gets half of the time that is left.
            let share = match (next, effort.repeat) {
                (Next::Another, Repeat::Harmless) => Some(effort.deadline.left() / 2),
                _ => None,
            };
            let began = Instant::now();
            let serving = pin!(self.in_turn(call, index, one, manner, link));
            let served = effort.deadline.hold_for(share, serving).await;
            let fault = match served {
                Ok(Answer::Error(error)) if error.code != INVALID_PARAMS => ProviderFault::Rpc(error),
                Ok(answer) => {
                    trial.succeeded();
                    self.note_attempt(call, one, Ok(&answer), began);
                    return Tried::Served(answer);
                }
                Err(ProviderFault::Asks(question)) => return Tried::Asks(question),
                Err(fault) => fault,
            };
            let told = fault.problem(&one.spec.id);
            self.note_attempt(call, one, Err(&told), began);
            let failed =
                Undelivered::then(effort.failed.take(), one.spec.id.clone(), told, fault.sent(), began);
            effort.failed = Some(failed);
            match fault.is_the_providers() {
                true => trial.failed(self.routing().now_ms()),
                false => drop(trial),
            }
            failures += 1;
            let may = may_repeat(fault.sent(), effort.repeat) && fault.may_pass(failures);
            let asked = fault.retry_after().unwrap_or_default();
            let pause = terms.pause(failures, dice()).max(asked);
            let again = may && next == Next::Nothing && failures < terms.attempts;
            if !again || asked > terms.max || !effort.deadline.leaves(pause) {
                return Tried::Failed(fault);
            }
            tokio::time::sleep(pause).await;
            if one.standing(self.routing().now_ms()).is_some() {
                return Tried::Failed(fault);
            }
        }
    }

    /// Notes how a provider did, for its health.
    fn note_attempt(&self, call: &Sealed, one: &Instance, answer: Result<&Answer, &Problem>, began: Instant) {
        let Some((ending, error_code)) = ending_of(answer) else { return };
        let provider = instance_key(call.tool(), &one.spec.id);
        let took = began.elapsed();
        let persona = call.caller().persona_name();
        let at_ms = now_ms();
        self.health().record_attempt(&Sample {
            at_ms,
            took,
            ending,
            error_code,
            provider: &provider,
            persona,
        });
    }

    /// Serves a call when its turn has come, where calls of the tool may not overlap.
    async fn in_turn(
        &self,
        call: &Sealed,
        index: usize,
        one: &Arc<Instance>,
        manner: &Manner,
        link: &CallLink,
    ) -> Result<Answer, ProviderFault> {
        let tool = call.tool();
        let _turn = match tool.terms.parallel {
            Parallel::OneAtATime => {
                let room = self.terms().routing.queue;
                Some(one.turns.take(&tool.exposed, room).await.map_err(ProviderFault::Other)?)
            }
            Parallel::Allowed | Parallel::Unsaid => None,
        };
        self.serve(call, index, one, manner, link).await
    }
}

/// What the health of one tool's provider is kept under: ids are their tool's own.
pub fn instance_key(tool: &Tool, provider: &str) -> String {
    format!("{}/{provider}", tool.canonical())
}

/// Whether another provider stands ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Another,
    Nothing,
}

/// What is left of a call's time and luck.
pub(super) struct Effort<'a> {
    repeat: Repeat,
    deadline: Deadline<'a>,
    attempts: u32,
    /// What went wrong so far.
    failed: Option<Box<Undelivered>>,
}

impl Effort<'_> {
    /// The same time and luck, for somebody who tries at the same time.
    pub(super) fn apart(&self) -> Self {
        Self { repeat: self.repeat, deadline: self.deadline, attempts: 0, failed: None }
    }

    /// Takes in what another tried.
    pub(super) fn join(&mut self, other: Self) {
        self.attempts += other.attempts;
        if let Some(more) = other.failed {
            self.failed = Some(more.after(self.failed.take()));
        }
    }
}

/// What came of a provider.
pub(super) enum Tried {
    Served(Answer),
    Asks(Box<InnerQuestion>),
    Skipped(Skip),
    Failed(ProviderFault),
}

/// A timeout, for whoever waits under a deadline.
pub(crate) trait Overdue {
    /// It took too long.
    fn overdue(server: &str, after: Duration) -> Self;
}

impl Overdue for UpstreamError {
    fn overdue(server: &str, after: Duration) -> Self {
        Self::Timeout { server: server.to_owned(), after }
    }
}

impl Overdue for ProviderFault {
    /// The tool may be a manifest's: its server is the gateway's own affair, and people know the provider.
    fn overdue(_server: &str, after: Duration) -> Self {
        Self::Overdue(after)
    }
}

impl Overdue for Problem {
    fn overdue(server: &str, after: Duration) -> Self {
        let error: &dyn Fault = &UpstreamError::overdue(server, after);
        Self::of(error)
    }
}
