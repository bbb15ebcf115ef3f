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
    spaces: Arc<Mutex<HashMap<String, Parked>>>,
}

impl ParkingLot {
    /// Parks a call; `None` when the lot is full, and the call is cancelled.
    pub fn park(&self, parked: Parked) -> Option<String> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).ok()?;
        let handle: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            if spaces.len() >= MAX_PARKED {
                return None;
            }
            spaces.insert(handle.clone(), parked);
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
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner).remove(handle)
    }
}
