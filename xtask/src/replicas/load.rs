//! Many clients call through the proxy, in both eras and by REST, while something happens to the replicas.

use super::asking::{QuestionCase, QuestionClient, QuestionNote};
use super::caller::{CallReply, CallWay, ReplicaCaller, ended};
use super::http::ReplicaUser;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The number of clients that call at the same time.
pub const CALLERS: usize = 12;
/// A load that waits for the end of the faults makes at most this many times its calls.
const MOST_ROUNDS: usize = 6;
/// How long the approver goes on after the last call.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The tool of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A tool that only reads.
    Read,
    /// A tool that writes to the file.
    Write,
    /// A tool that writes to the file after an approval.
    Held,
    /// A tool that does not answer in time, which leaves a dead letter.
    Late,
}

impl CallKind {
    /// The kinds in their proportions: 10 % writes, 2 % approvals, 2 % dead letters.
    fn of(number: usize) -> Self {
        match number % 50 {
            3 | 13 | 23 | 33 | 43 => Self::Write,
            7 => Self::Held,
            29 => Self::Late,
            _ => Self::Read,
        }
    }
}

/// One call and its end.
#[derive(Debug)]
pub struct CallNote {
    /// Identifies the call: it is one of its arguments.
    pub text: String,
    /// All its arguments, as they were sent.
    pub arguments: String,
    pub kind: CallKind,
    pub end: CallReply,
    /// The id of the dead letter in the reply.
    pub letter: Option<String>,
}

/// The calls of a load.
#[derive(Debug, Default)]
pub struct LoadOutcome {
    pub notes: Vec<CallNote>,
    /// The calls whose server asked a question.
    pub questions: Vec<QuestionNote>,
    /// The held calls whose approval was acknowledged.
    pub approved: BTreeSet<String>,
    /// How often a replica did not know the session of a legacy client.
    pub lost_sessions: usize,
    pub took: Duration,
}

impl LoadOutcome {
    /// The number of calls with this end.
    pub fn count(&self, wanted: impl Fn(&CallReply) -> bool) -> usize {
        let ends = self.notes.iter().map(|note| &note.end);
        ends.chain(self.questions.iter().map(|note| &note.end)).filter(|&end| wanted(end)).count()
    }

    /// The number of calls.
    pub fn calls(&self) -> usize {
        self.notes.len() + self.questions.len()
    }
}

/// The progress of a load, which the faults follow.
#[derive(Debug, Default)]
pub struct LoadProgress {
    begun: AtomicUsize,
    faults_over: AtomicBool,
    calls_over: AtomicBool,
}

impl LoadProgress {
    /// The number of calls that have begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

/// Clients and an approver at the proxy.
#[derive(Debug)]
pub struct MixedLoad {
    /// Begins the text of each call.
    pub name: &'static str,
    pub calls: usize,
    /// The user who calls.
    pub ann: ReplicaUser,
    /// The user who approves.
    pub bob: ReplicaUser,
    /// The user who calls tools that ask; without one, no tool asks.
    pub asked: Option<QuestionClient>,
}

impl MixedLoad {
    /// Makes the calls while `faults` runs, and goes on until it has ended.
    pub fn run<T>(&self, faults: impl FnOnce(&LoadProgress) -> Result<T>) -> Result<(LoadOutcome, T)> {
        let (started, progress) = (Instant::now(), LoadProgress::default());
        let (mut outcome, caused) = thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(|| self.make_calls(&progress))).collect();
            let approver = scope.spawn(|| self.approve(&progress));
            let caused = faults(&progress);
            progress.faults_over.store(true, Ordering::Relaxed);
            let joined: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
            let mut outcome = LoadOutcome { took: started.elapsed(), ..LoadOutcome::default() };
            // The approver ends, too, if a client has failed.
            progress.calls_over.store(true, Ordering::Relaxed);
            for calls in joined {
                let calls = calls.map_err(|_| anyhow!("a client panicked"))?;
                outcome.notes.extend(calls.notes);
                outcome.questions.extend(calls.questions);
                outcome.lost_sessions += calls.lost_sessions;
            }
            outcome.approved = approver.join().map_err(|_| anyhow!("the approver panicked"))?;
            Ok::<_, anyhow::Error>((outcome, caused))
        })?;
        outcome.notes.sort_by(|one, other| one.text.cmp(&other.text));
        Ok((outcome, caused?))
    }

    /// The calls of one client.
    fn make_calls(&self, progress: &LoadProgress) -> LoadOutcome {
        let mut caller = ReplicaCaller::new(self.ann.clone());
        let mut calls = LoadOutcome::default();
        loop {
            let number = progress.begun.fetch_add(1, Ordering::Relaxed);
            let is_enough = number >= self.calls && progress.faults_over.load(Ordering::Relaxed);
            if is_enough || number >= self.calls * MOST_ROUNDS {
                calls.lost_sessions = caller.lost_sessions;
                return calls;
            }
            match (&self.asked, QuestionCase::of(number)) {
                (Some(asked), Some(case)) => {
                    calls.questions.push(asked.call(case, number, format!("{}-{number}", self.name)));
                }
                _ => calls.notes.push(self.make_call(&mut caller, number)),
            }
        }
    }

    fn make_call(&self, caller: &mut ReplicaCaller, number: usize) -> CallNote {
        let (kind, way) = (CallKind::of(number), CallWay::ALL[number % CallWay::ALL.len()]);
        let text = format!("{}-{number}", self.name);
        let mut letter = None;
        let arguments = match kind {
            CallKind::Read => json!({ "message": text }),
            CallKind::Write | CallKind::Held => json!({ "text": text }),
            CallKind::Late => json!({ "seconds": 1, "label": text }),
        };
        let end = match kind {
            CallKind::Read => caller.call(way, "fix_echo", &arguments),
            CallKind::Write => caller.call(way, "led_write_entry", &arguments),
            CallKind::Held => caller.call(CallWay::Rest, "held_write_entry", &arguments),
            CallKind::Late => {
                let body = json!({ "arguments": arguments, "timeout_ms": 50 });
                match caller.by_rest("late_slow_compute", &body) {
                    Ok(answer) => {
                        letter = answer.json().ok().as_ref().and_then(dead_letter);
                        ended(&answer)
                    }
                    Err(_) => CallReply::Unanswered,
                }
            }
        };
        CallNote { text, arguments: arguments.to_string(), kind, end, letter }
    }

    /// Approves all held calls until the load is over; returns those whose approval was acknowledged.
    fn approve(&self, progress: &LoadProgress) -> BTreeSet<String> {
        let mut approved = BTreeSet::new();
        let mut deadline = None;
        loop {
            let is_last = progress.calls_over.load(Ordering::Relaxed);
            let pending = self.bob.get("/approvals?state=pending&limit=100").ok();
            let pending = pending.as_ref().and_then(|answer| answer["approvals"].as_array());
            let ids: Vec<&str> =
                pending.into_iter().flatten().filter_map(|held| held["id"].as_str()).collect();
            for id in &ids {
                if let Ok((200, _)) = self.bob.post(&format!("/approvals/{id}/approve"), &json!({})) {
                    approved.insert((*id).to_owned());
                }
            }
            if is_last {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + APPROVAL_TIMEOUT);
                if (pending.is_some() && ids.is_empty()) || Instant::now() > deadline {
                    return approved;
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The id of the dead letter in the hint of a problem.
fn dead_letter(problem: &Value) -> Option<String> {
    let (_, after) = problem["hint"].as_str()?.split_once("dead letter ")?;
    Some(after.split(':').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_calls_have_their_proportions() {
        let count = |kind| (0..1000).filter(|number| CallKind::of(*number) == kind).count();
        assert_eq!(
            [CallKind::Read, CallKind::Write, CallKind::Held, CallKind::Late].map(count),
            [860, 100, 20, 20]
        );
    }

    #[test]
    fn the_dead_letter_is_read_from_the_hint() {
        let hint = "raise `timeout`; the call is kept as dead letter 01a1-7: `toolbooth …` retries it";
        assert_eq!(dead_letter(&json!({ "hint": hint })).as_deref(), Some("01a1-7"));
        assert_eq!(dead_letter(&json!({ "hint": "call again" })), None);
    }
}
