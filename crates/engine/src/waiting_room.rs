//! The waiting room: calls of this process that wait for a person, by the id of their held call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use toolbooth_core::held::HeldCall;
use uuid::Uuid;

/// Who waits here for an answer.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    seats: Mutex<HashMap<Uuid, Vec<oneshot::Sender<HeldCall>>>>,
}

/// A seat in the waiting room; leaving it gives it up.
pub(crate) struct Seat {
    room: Arc<WaitingRoom>,
    id: Uuid,
    answer: oneshot::Receiver<HeldCall>,
}

impl WaitingRoom {
    fn seats(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<oneshot::Sender<HeldCall>>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer to a held call.
    pub(crate) fn sit(self: &Arc<Self>, id: Uuid) -> Seat {
        let (call, answer) = oneshot::channel();
        self.seats().entry(id).or_default().push(call);
        Seat { room: self.clone(), id, answer }
    }

    /// Calls whoever waits for this answer; whether anybody did.
    pub(crate) fn call(&self, held: &HeldCall) -> bool {
        let waiting = self.seats().remove(&held.id).unwrap_or_default();
        let mut heard = false;
        for seat in waiting {
            heard |= seat.send(held.clone()).is_ok();
        }
        heard
    }
}

impl Seat {
    /// The answer. Dropping the future loses nothing.
    pub(crate) async fn answer(&mut self) -> HeldCall {
        match (&mut self.answer).await {
            Ok(held) => held,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.answer.close();
        let mut seats = self.room.seats();
        if let Some(waiting) = seats.get_mut(&self.id) {
            waiting.retain(|seat| !seat.is_closed());
            if waiting.is_empty() {
                seats.remove(&self.id);
            }
        }
    }
}
