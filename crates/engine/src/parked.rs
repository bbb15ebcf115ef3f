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
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::{ClientQuestion, LinkEvents};

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
}

/// The parked calls.
#[derive(Debug, Clone, Default)]
pub struct ParkingLot {
    parked_calls: Arc<Mutex<ParkedCalls>>,
}

#[derive(Debug, Default)]
struct ParkedCalls {
    calls: HashMap<String, (Arc<str>, ParkedCall)>,
    of_user: HashMap<Arc<str>, usize>,
}

impl ParkingLot {
    /// Parks a call, and returns its handle. If the limit of all users or of this user is reached, returns `None` and
    /// cancels the call.
    pub fn park(&self, user: &Arc<str>, parked: ParkedCall) -> Option<String> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        let handle: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        {
            let mut parked_calls = self.parked_calls.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = parked_calls.of_user.get(user).copied().unwrap_or_default();
            if parked_calls.calls.len() >= MAX_PARKED || mine >= MAX_OF_USER {
                return None;
            }
            parked_calls.calls.insert(handle.clone(), (user.clone(), parked));
            parked_calls.of_user.insert(user.clone(), mine + 1);
        }
        let (lot, expired) = (self.clone(), handle.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LIFETIME).await;
            drop(lot.take(&expired)); // Dropping it cancels the call at the server.
        });
        Some(handle)
    }

    /// Removes a call and returns it.
    pub fn take(&self, handle: &str) -> Option<ParkedCall> {
        let mut parked_calls = self.parked_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let (user, parked) = parked_calls.calls.remove(handle)?;
        match parked_calls.of_user.get_mut(&user) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(parked_calls.of_user.remove(&user)),
        }
        Some(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_upstream::CallLink;

    fn parked() -> ParkedCall {
        let ongoing = OngoingCall { work: Box::pin(std::future::pending()), events: CallLink::new().1 };
        ParkedCall { ongoing, questions: Vec::new() }
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
