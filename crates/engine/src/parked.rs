//! Calls that wait for their client to come back with answers.
//!
//! A legacy server asks in the middle of a call; a modern client answers on a request of its own. In
//! between the call waits here, under a handle that only a sealed state carries.

use crate::answer::Answer;
use crate::state::LIFETIME;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use toolbooth_core::fault::Problem;
use toolbooth_upstream::{LinkEvents, Question};

/// How many calls may wait at once.
const MAX_PARKED: usize = 4096;
/// How many of them may be one user's.
const MAX_OF_USER: usize = MAX_PARKED / 8;

/// A call under way: the work, and what its server says meanwhile.
pub struct Ongoing {
    /// Gives the answer; dropping it cancels the call.
    pub work: Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>,
    /// Progress, log messages and questions.
    pub events: LinkEvents,
}

impl std::fmt::Debug for Ongoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ongoing")
    }
}

/// A call that waits, and the questions it waits for, by key.
#[derive(Debug)]
pub struct Parked {
    /// The call.
    pub ongoing: Ongoing,
    /// The open questions.
    pub questions: Vec<(String, Question)>,
}

/// Where calls wait.
#[derive(Debug, Clone, Default)]
pub struct ParkingLot {
    spaces: Arc<Mutex<Spaces>>,
}

#[derive(Debug, Default)]
struct Spaces {
    calls: HashMap<String, (Arc<str>, Parked)>,
    of_user: HashMap<Arc<str>, usize>,
}

impl ParkingLot {
    /// Parks a call; `None` when the lot is full or the user has their share of it, and the call is cancelled.
    pub fn park(&self, user: &Arc<str>, parked: Parked) -> Option<String> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        let handle: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = spaces.of_user.get(user).copied().unwrap_or_default();
            if spaces.calls.len() >= MAX_PARKED || mine >= MAX_OF_USER {
                return None;
            }
            spaces.calls.insert(handle.clone(), (user.clone(), parked));
            spaces.of_user.insert(user.clone(), mine + 1);
        }
        let (lot, expired) = (self.clone(), handle.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LIFETIME).await;
            drop(lot.take(&expired)); // Dropping cancels the call, down to the server.
        });
        Some(handle)
    }

    /// Takes a call out.
    pub fn take(&self, handle: &str) -> Option<Parked> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        let (user, parked) = spaces.calls.remove(handle)?;
        match spaces.of_user.get_mut(&user) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => drop(spaces.of_user.remove(&user)),
        }
        Some(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_upstream::CallLink;

    fn parked() -> Parked {
        let ongoing = Ongoing { work: Box::pin(std::future::pending()), events: CallLink::new().1 };
        Parked { ongoing, questions: Vec::new() }
    }

    #[tokio::test]
    async fn one_users_calls_leave_room_for_anothers() {
        let lot = ParkingLot::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let hers: Vec<String> = (0..MAX_PARKED).filter_map(|_| lot.park(&ann, parked())).collect();
        assert_eq!(hers.len(), MAX_OF_USER);
        assert!(lot.park(&bob, parked()).is_some());
        assert!(lot.take(&hers[0]).is_some() && lot.take(&hers[0]).is_none());
        assert!(lot.park(&ann, parked()).is_some(), "a place that became free");
    }
}
