//! Replays of dead letters: the call passes all stages again as its original caller, with the rights that caller has
//! now.

use super::call_copy::CallCopy;
use super::{AttemptTimes, DeadLetters, FailedCall, ReplayOutcome, ReplayRequest, letter_event};
use crate::answer::{Answer, UNRECORDED};
use crate::rights_source::{AbsentCaller, Rights, rights_gone};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tokio::time::Instant;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::dead_letter::{
    DeadLetter, LetterFault, LetterState, LetterStep, Settlement, deserves_letter,
};
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::permission::{Permission, on_tool};
use toolbooth_store::{LetterUpdate, StoreError};

/// A call that was replayed and answered.
#[derive(Debug)]
pub struct ReplayedCall {
    /// The letter as it is now.
    pub letter: DeadLetter,
    /// The answer of the replayed call.
    pub answer: Answer,
}

impl DeadLetters {
    /// Replays the letters that are due, a few at a time. Costs one atomic read if none is due.
    pub async fn replay_due(self: &Arc<Self>) {
        let now = self.clock.now_ms();
        let free = self.replay_slots.available_permits();
        if free == 0 || self.next_due_ms.load(Ordering::Relaxed) > now {
            return;
        }
        // Reset first, so that letters written from now on lower it again.
        self.next_due_ms.store(i64::MAX, Ordering::Relaxed);
        let due = self.store.due_letters(now, u32::try_from(free).unwrap_or(u32::MAX)).await;
        let next = self.store.next_letter_ms().await;
        match (due, next) {
            (Ok(due), Ok(next)) => {
                self.note_due(next);
                for letter in due {
                    let Ok(slot) = self.replay_slots.clone().try_acquire_owned() else { return };
                    let letters = self.clone();
                    tokio::spawn(async move {
                        let id = letter.id;
                        match letters.replay_now(letter, None).await {
                            Ok(_) => tracing::info!(letter = %id, "a dead letter was replayed"),
                            Err(problem) => {
                                tracing::warn!(letter = %id, "the replay of a dead letter failed: {}", problem.message)
                            }
                        }
                        drop(slot);
                    });
                }
            }
            // The gateway is stopping.
            (Err(StoreError::Closed), _) | (_, Err(StoreError::Closed)) => {}
            (Err(error), _) | (_, Err(error)) => {
                self.note_due(Some(now));
                tracing::error!("dead letters could not be read: {error}");
            }
        }
    }

    /// When a letter that failed now is replayed for the first time.
    pub(crate) fn first_replay_ms(&self, now_ms: i64) -> i64 {
        let first = self.terms.load().letters.schedule_seconds.first().copied().unwrap_or(60);
        now_ms + i64::from(first) * 1000
    }

    /// Releases letters whose replay was interrupted when the gateway ended.
    pub(crate) async fn take_over(&self) {
        let now = self.clock.now_ms();
        match self.store.interrupted_letters(now, self.first_replay_ms(now)).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                tracing::warn!(
                    "the replays of {} dead letters were interrupted when the gateway ended",
                    found.len()
                )
            }
            Err(error) => tracing::error!("interrupted dead letters could not be released: {error}"),
        }
    }

    /// Replays a letter, at a person's request or automatically.
    pub(super) async fn replay_now(
        &self,
        letter: DeadLetter,
        by: Option<&Caller>,
    ) -> Result<ReplayedCall, Problem> {
        let copy = self.open_letter(&letter).await;
        if let (Some(_), Err(fault)) = (by, &copy) {
            return Err(Problem::of(fault));
        }
        let requested_by = by.map(|by| &*by.user);
        let audit = letter.audit_entry(self.clock.now_ms(), requested_by, "replayed");
        let claimed =
            self.store.move_letter(letter.id, LetterStep::Claim, self.clock.now_ms(), Some(audit)).await;
        let letter = match claimed.map_err(|error| Problem::of(&error))? {
            LetterUpdate::Won(letter) => *letter,
            LetterUpdate::Lost(letter) => return Err(Problem::of(&lost_to(&letter))),
            LetterUpdate::Missing => return Err(Problem::of(&LetterFault::Unknown { id: letter.id })),
        };
        self.events.emit(letter_event(EventKind::DeadLetterRetrying, &letter));
        let began = Instant::now();
        let ReplayOutcome { answer, failed } = match copy {
            Ok(copy) => self.make_call(&letter, copy, by.map(|by| &by.user)).await,
            Err(fault) => ReplayOutcome { answer: Err(Problem::of(&fault)), failed: None },
        };
        let settlement = self.settlement(&letter, &answer, failed.as_deref(), began);
        if let Settlement::Failed { next_retry_ms, .. } = &settlement {
            self.note_due(*next_retry_ms);
        }
        let settled = self
            .store
            .move_letter(letter.id, LetterStep::Settle(settlement), self.clock.now_ms(), None)
            .await;
        let letter = match settled {
            Ok(LetterUpdate::Won(settled)) => {
                if settled.state == LetterState::Resolved {
                    self.events.emit(letter_event(EventKind::DeadLetterResolved, &settled));
                }
                *settled
            }
            Ok(_) => letter,
            Err(error) => {
                tracing::error!(letter = %letter.id, "the outcome of a replay could not be recorded: {error}");
                letter
            }
        };
        answer.map(|answer| ReplayedCall { letter, answer })
    }

    async fn make_call(&self, letter: &DeadLetter, copy: CallCopy, by: Option<&Arc<str>>) -> ReplayOutcome {
        let refused = |problem| ReplayOutcome { answer: Err(problem), failed: None };
        let caller = match self.rights_source.rights(AbsentCaller::of_letter(letter)).await {
            Rights::Known(caller) if self.may_still_use(&caller, letter) => caller,
            Rights::Known(_) | Rights::Gone => return refused(rights_gone(&letter.exposed, &letter.user)),
            Rights::Unknown(why) => return refused(rights_unknown(letter, &why)),
        };
        let incoming = IncomingCall {
            caller,
            // Rules about the client that made the call still apply.
            client: Arc::new(ClientFacts::remembered(&copy.client)),
            name: self.catalog.stable_name_of(&letter.server, &letter.tool),
            arguments: Some(copy.arguments),
            meta: Vec::new(),
        };
        let request =
            ReplayRequest { incoming, letter: letter.id, first_call: letter.call_id, by: by.cloned() };
        match self.runner.get().and_then(Weak::upgrade) {
            Some(runner) => runner.replay(request).await,
            // The gateway is ending; the next start releases the letter.
            None => refused(Problem::of(&StoreError::Closed)),
        }
    }

    /// Whether a caller may still use a letter's tool. True for a tool that is gone: then the call itself fails.
    fn may_still_use(&self, caller: &Caller, letter: &DeadLetter) -> bool {
        let tools = self.catalog.tools_named(&letter.server, &letter.tool);
        tools.is_empty() || tools.iter().any(|tool| on_tool(caller, tool) == Permission::Granted)
    }

    fn settlement(
        &self,
        letter: &DeadLetter,
        answer: &Result<Answer, Problem>,
        failed: Option<&FailedCall>,
        began: Instant,
    ) -> Settlement {
        let times = AttemptTimes::until_now(&self.clock, began.elapsed());
        let tried = |code: &str| super::attempt(format!("mcp:{}", letter.server), code, times);
        let settle_failed = |code: &str, text: &str, next_retry_ms| Settlement::Failed {
            attempt: tried(code),
            text: text.chars().take(super::MAX_TEXT).collect(),
            next_retry_ms,
            may_have_happened: failed.is_some_and(FailedCall::may_have_happened),
        };
        match answer {
            Ok(Answer::Result { facts, .. }) if facts.is_error => Settlement::Resolved(tried("tool_error")),
            Ok(Answer::Result { .. } | Answer::Long { .. }) => Settlement::Resolved(tried("done")),
            // From here on it is a held call; the letter must not run it a second time.
            Ok(Answer::Held { .. }) => Settlement::Resolved(tried("call.held")),
            Ok(Answer::Error(error)) => settle_failed("call.server-error", &error.message, None),
            Ok(Answer::InputRequired { .. }) => {
                settle_failed("call.needs-client", "the server asked a question", None)
            }
            // The call was made, so only a person may decide to repeat it.
            Err(problem) if problem.code == UNRECORDED => Settlement::Resolved(tried(UNRECORDED)),
            Err(problem) => {
                let next = deserves_letter(problem).then(|| self.next_replay_ms(letter)).flatten();
                settle_failed(problem.code, &problem.message, next.filter(|_| failed.is_some()))
            }
        }
    }
}

pub(super) fn lost_to(letter: &DeadLetter) -> LetterFault {
    let id = letter.id;
    match letter.state {
        LetterState::Retrying | LetterState::Pending => LetterFault::Retrying { id },
        state => LetterFault::Over { id, state },
    }
}

/// The rights of the letter's caller cannot be looked up now.
fn rights_unknown(letter: &DeadLetter, why: &str) -> Problem {
    Problem {
        code: "call.rights-unknown",
        blame: Blame::Gateway,
        message: format!("`{}` was not called: {why}", letter.exposed),
        hint: Some("replay it after the user has signed in again".into()),
    }
}
