//! Making a letter's call again: the whole way of a call, as the first caller, with the rights they have now.

use super::copy::CallCopy;
use super::{Lost, letter_event};
use crate::answer::Answer;
use crate::call::CallRequest;
use crate::clock::now_ms;
use crate::dispatch::Rounds;
use crate::engine::Engine;
use crate::rights::rights_gone;
use crate::roster::{Absentee, Rights};
use crate::run::Run;
use crate::unrecorded::UNRECORDED;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use toolbooth_core::call::Incoming;
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::dead_letter::{
    Letter, LetterFault, LetterState, LetterStep, Settlement, deserves_letter,
};
use toolbooth_core::event::EventKind;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::permission::{Permission, on_tool};
use toolbooth_store::LetterContest;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;

/// A call that was made again and answered.
#[derive(Debug)]
pub struct Replayed {
    /// The letter as it is now.
    pub letter: Letter,
    /// What came back.
    pub answer: Answer,
}

impl Engine {
    /// Makes again what is due, a few at a time; a glance at a number when nothing is.
    pub async fn replay_due(self: &Arc<Self>) {
        let (room, now) = (self.letters(), now_ms());
        let free = room.turns.available_permits();
        if free == 0 || room.next_due_ms.load(Ordering::Relaxed) > now {
            return;
        }
        // From here on, whatever is written meanwhile is counted anew.
        room.next_due_ms.store(i64::MAX, Ordering::Relaxed);
        let due = self.store().due_letters(now, u32::try_from(free).unwrap_or(u32::MAX)).await;
        let next = self.store().next_letter_ms().await;
        match (due, next) {
            (Ok(due), Ok(next)) => {
                room.expect_at(next);
                for letter in due {
                    let Ok(turn) = room.turns.clone().try_acquire_owned() else { return };
                    let engine = self.clone();
                    tokio::spawn(async move {
                        let id = letter.id;
                        match engine.replay(letter, None).await {
                            Ok(_) => tracing::info!(letter = %id, "the call of a dead letter was made again"),
                            Err(problem) => {
                                tracing::warn!(letter = %id, "a dead letter was not resolved: {}", problem.message)
                            }
                        }
                        drop(turn);
                    });
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                room.expect_at(Some(now));
                tracing::error!("dead letters could not be looked through: {error}");
            }
        }
    }

    /// Finds letters again whose call was being made when the gateway ended.
    pub(crate) async fn take_over_letters(&self) {
        let now = now_ms();
        let first = self.terms().letters.schedule_seconds.first().copied().unwrap_or(60);
        match self.store().interrupted_letters(now, now + i64::from(first) * 1000).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => {
                tracing::warn!("{} dead letters were cut off while their call was made again", found.len())
            }
            Err(error) => tracing::error!("dead letters of before could not be looked through: {error}"),
        }
    }

    /// Makes a letter's call again, at somebody's request or by itself.
    pub(super) async fn replay(
        self: &Arc<Self>,
        letter: Letter,
        by: Option<&Caller>,
    ) -> Result<Replayed, Problem> {
        let copy = self.open_letter(&letter).await;
        if let (Some(_), Err(fault)) = (by, &copy) {
            return Err(Problem::of(fault));
        }
        let asked_by = by.map(|by| &*by.user);
        let audit = letter.trace(now_ms(), asked_by, "replayed");
        let claimed = self.store().move_letter(letter.id, LetterStep::Claim, now_ms(), Some(audit)).await;
        let letter = match claimed.map_err(|error| Problem::of(&error))? {
            LetterContest::Won(letter) => *letter,
            LetterContest::Lost(letter) => return Err(Problem::of(&lost_to(&letter))),
            LetterContest::Missing => return Err(Problem::of(&LetterFault::Unknown { id: letter.id })),
        };
        self.emit(letter_event(EventKind::DeadLetterRetrying, &letter));
        let began = Instant::now();
        let (answer, lost) = match copy {
            Ok(copy) => self.make_again(&letter, copy, asked_by).await,
            Err(fault) => (Err(Problem::of(&fault)), None),
        };
        let settlement = self.settlement(&letter, &answer, lost.as_deref(), began);
        if let Settlement::Failed { next_retry_ms, .. } = &settlement {
            self.letters().expect_at(*next_retry_ms);
        }
        let settled =
            self.store().move_letter(letter.id, LetterStep::Settle(settlement), now_ms(), None).await;
        let letter = match settled {
            Ok(LetterContest::Won(settled)) => {
                if settled.state == LetterState::Resolved {
                    self.emit(letter_event(EventKind::DeadLetterResolved, &settled));
                }
                *settled
            }
            Ok(_) => letter,
            Err(error) => {
                tracing::error!(letter = %letter.id, "the end of a replay was not written down: {error}");
                letter
            }
        };
        answer.map(|answer| Replayed { letter, answer })
    }

    async fn make_again(
        self: &Arc<Self>,
        letter: &Letter,
        copy: CallCopy,
        by: Option<&str>,
    ) -> (Result<Answer, Problem>, Option<Box<Lost>>) {
        let gone = || (Err(rights_gone(&letter.exposed, &letter.user)), None);
        let caller = match self.rights(Absentee::of_letter(letter)).await {
            Rights::Known(caller) if self.may_still_use(&caller, letter) => caller,
            Rights::Known(_) | Rights::Gone => return gone(),
            Rights::Unknown(why) => return (Err(rights_unknown(letter, &why)), None),
        };
        let name = self.address_of(&letter.server, &letter.tool);
        let mut incoming = Incoming {
            caller,
            // Rules about the client that made the call hold for it still.
            client: Arc::new(ClientFacts::remembered(&copy.client)),
            name,
            arguments: Some(copy.arguments),
            meta: Vec::new(),
        };
        let mut run = Run::open(self, &mut incoming);
        run.replays(letter, by);
        let request = CallRequest {
            incoming,
            round: Round::default(),
            progress: Progress::Unwanted,
            rounds: Rounds::Driven,
            reading: Reading::Whole,
            // Whoever must be asked is asked as for any call; nobody waits here meanwhile.
            patience: Some(Duration::ZERO),
        };
        let answer = self.walk_unattended(request, &mut run).await;
        // One letter is enough for one call.
        let lost = run.take_lost();
        (run.close(answer).await, lost)
    }

    /// Whether somebody may use a letter's tool; one that is gone is for the call itself to miss.
    fn may_still_use(&self, caller: &Caller, letter: &Letter) -> bool {
        let tools = self.tools_named(&letter.server, &letter.tool);
        tools.is_empty() || tools.iter().any(|tool| on_tool(caller, tool) == Permission::Granted)
    }

    fn settlement(
        &self,
        letter: &Letter,
        answer: &Result<Answer, Problem>,
        lost: Option<&Lost>,
        began: Instant,
    ) -> Settlement {
        let tried = |code: &str| super::attempt(format!("mcp:{}", letter.server), code, began.elapsed());
        let failed = |code: &str, text: &str, next_retry_ms| Settlement::Failed {
            attempt: tried(code),
            text: text.chars().take(super::MAX_TEXT).collect(),
            next_retry_ms,
            may_have_happened: lost.is_some_and(Lost::may_have_happened),
        };
        match answer {
            Ok(Answer::Result { facts, .. }) if facts.is_error => Settlement::Resolved(tried("tool_error")),
            Ok(Answer::Result { .. } | Answer::Long { .. }) => Settlement::Resolved(tried("done")),
            // It goes on, or not, as a held call: two ways to run it would be one too many.
            Ok(Answer::Held { .. }) => Settlement::Resolved(tried("call.held")),
            Ok(Answer::Error(error)) => failed("call.server-error", &error.message, None),
            Ok(Answer::InputRequired { .. }) => {
                failed("call.needs-client", "the server asks something", None)
            }
            // It was made: to make it again is for a person to decide.
            Err(problem) if problem.code == UNRECORDED => Settlement::Resolved(tried(UNRECORDED)),
            Err(problem) => {
                let next = deserves_letter(problem).then(|| self.next_replay_ms(letter)).flatten();
                failed(problem.code, &problem.message, next.filter(|_| lost.is_some()))
            }
        }
    }
}

pub(super) fn lost_to(letter: &Letter) -> LetterFault {
    let id = letter.id;
    match letter.state {
        LetterState::Retrying | LetterState::Pending => LetterFault::Retrying { id },
        state => LetterFault::Over { id, state },
    }
}

/// It cannot be told now what the letter's caller may do.
fn rights_unknown(letter: &Letter, why: &str) -> Problem {
    Problem {
        code: "call.rights-unknown",
        blame: Blame::Gateway,
        message: format!("`{}` was not called: {why}", letter.exposed),
        hint: Some("replay it once they have signed in again".into()),
    }
}
