//! Parked calls: calls that wait for their client to answer a question.
//!
//! A legacy server asks during a call, but a modern client answers with a new request. Until then the call waits
//! here, under a handle that only the sealed request state contains.
//!
//! In the other three cases nothing is parked: a legacy client is asked on the stream of its call, and a modern
//! server's `input_required` is passed to a modern client, or answered for a legacy client in further rounds
//! (`call/dispatch.rs`).

use crate::answer::Answer;
use crate::request_state::LIFETIME;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::{ClientQuestion, LinkEvents};
use uuid::Uuid;

/// The maximum number of parked calls.
const MAX_PARKED: usize = 4096;
/// The maximum number of parked calls of one user.
const MAX_OF_USER: usize = MAX_PARKED / 8;

/// A call in progress, and the messages of its server.
pub struct OngoingCall {
    /// Returns the answer. Dropping it cancels the call.
    pub work: Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>,
    /// Progress, log messages and questions.
    pub events: LinkEvents,
}

impl std::fmt::Debug for OngoingCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OngoingCall")
    }
}

/// A parked call, and the questions that it waits for, by key.
#[derive(Debug)]
pub struct ParkedCall {
    /// The call.
    pub ongoing: OngoingCall,
    /// The open questions.
    pub questions: Vec<(String, ClientQuestion)>,
    /// The id and the tool of a call that can become a task.
    pub task: Option<(Uuid, String)>,
}

/// The parked calls.
#[derive(Debug, Clone, Default)]
pub struct ParkingLot {
    parked_calls: Arc<Mutex<ParkedCalls>>,
}

#[derive(Debug, Default)]
struct ParkedCalls {
    calls: HashMap<String, ParkedEntry>,
    of_user: HashMap<Arc<str>, usize>,
    /// The number of calls that were parked so far.
    parked_so_far: u64,
}

/// A parked call with its owner.
#[derive(Debug)]
struct ParkedEntry {
    user: Arc<str>,
    call: ParkedCall,
    /// Distinguishes this entry from later ones with the same handle.
    number: u64,
}

impl ParkedCalls {
    fn remove(&mut self, handle: &str) -> Option<ParkedCall> {
        let ParkedEntry { user, call, .. } = self.calls.remove(handle)?;
        match self.of_user.get_mut(&user) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(self.of_user.remove(&user)),
        }
        Some(call)
    }
}

impl ParkingLot {
    /// Parks a call, and returns its handle. If the limit of all users or of this user is reached, returns `None` and
    /// cancels the call.
    pub fn park(&self, user: &Arc<str>, parked: ParkedCall) -> Option<String> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        self.park_as(toolbooth_core::hex::encode(&bytes), user, parked)
    }

    /// The same with a handle that is not secret: only [`Self::take_of`] with the same user may return the call.
    pub fn park_as(&self, handle: String, user: &Arc<str>, parked: ParkedCall) -> Option<String> {
        let number = {
            let mut parked_calls = self.lock();
            let mine = parked_calls.of_user.get(user).copied().unwrap_or_default();
            let is_full = parked_calls.calls.len() >= MAX_PARKED || mine >= MAX_OF_USER;
            if is_full || parked_calls.calls.contains_key(&handle) {
                return None;
            }
            parked_calls.parked_so_far += 1;
            let number = parked_calls.parked_so_far;
            parked_calls
                .calls
                .insert(handle.clone(), ParkedEntry { user: user.clone(), call: parked, number });
            parked_calls.of_user.insert(user.clone(), mine + 1);
            number
        };
        let (lot, expired) = (self.clone(), handle.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LIFETIME).await;
            let overdue = {
                let mut parked_calls = lot.lock();
                let is_same = parked_calls.calls.get(&expired).is_some_and(|entry| entry.number == number);
                if is_same { parked_calls.remove(&expired) } else { None }
            };
            drop(overdue); // Dropping it cancels the call at the server.
        });
        Some(handle)
    }

    fn lock(&self) -> MutexGuard<'_, ParkedCalls> {
        self.parked_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a call of this user and returns it.
    pub fn take_of(&self, user: &str, handle: &str) -> Option<ParkedCall> {
        let mut parked_calls = self.lock();
        let is_own = parked_calls.calls.get(handle).is_some_and(|entry| &*entry.user == user);
        if is_own { parked_calls.remove(handle) } else { None }
    }

    /// Removes a call and returns it.
    pub fn take(&self, handle: &str) -> Option<ParkedCall> {
        self.lock().remove(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_upstream::CallLink;

    fn parked() -> ParkedCall {
        let ongoing = OngoingCall { work: Box::pin(std::future::pending()), events: CallLink::new().1 };
        ParkedCall { ongoing, questions: Vec::new(), task: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_returned_to_its_user_only_and_its_next_question_has_its_own_time() {
        let lot = ParkingLot::default();
        let ann: Arc<str> = "ann".into();
        assert!(lot.park_as("call".into(), &ann, parked()).is_some());
        assert!(lot.park_as("call".into(), &ann, parked()).is_none(), "the handle is in use");
        assert!(lot.take_of("bob", "call").is_none());
        let call = lot.take_of("ann", "call").expect("hers");
        tokio::time::sleep(LIFETIME / 2).await;
        assert!(lot.park_as("call".into(), &ann, call).is_some());
        tokio::time::sleep(LIFETIME * 3 / 4).await;
        assert!(lot.take_of("ann", "call").is_some(), "the first timer does not end the second question");
        assert!(lot.park_as("call".into(), &ann, parked()).is_some());
        tokio::time::sleep(LIFETIME * 2).await;
        assert!(lot.take_of("ann", "call").is_none(), "it has expired");
    }

    #[tokio::test]
    async fn one_user_cannot_take_all_places() {
        let lot = ParkingLot::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let hers: Vec<String> = (0..MAX_PARKED).filter_map(|_| lot.park(&ann, parked())).collect();
        assert_eq!(hers.len(), MAX_OF_USER);
        assert!(lot.park(&bob, parked()).is_some());
        assert!(lot.take(&hers[0]).is_some() && lot.take(&hers[0]).is_none());
        assert!(lot.park(&ann, parked()).is_some(), "a place is free again");
    }
}
