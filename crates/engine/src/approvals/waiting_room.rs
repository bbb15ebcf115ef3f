//! The waiting room: requests of this process that wait for a person's decision, by the id of their held call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use toolbooth_core::held::HeldCall;
use uuid::Uuid;

/// The requests that wait for a decision.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: Mutex<HashMap<Uuid, Vec<oneshot::Sender<HeldCall>>>>,
}

/// One request that waits for a decision. Dropping it ends the wait.
pub(super) struct DecisionWaiter {
    room: Arc<WaitingRoom>,
    id: Uuid,
    decision: oneshot::Receiver<HeldCall>,
}

impl WaitingRoom {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<oneshot::Sender<HeldCall>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request that waits for the decision on a held call.
    pub(super) fn wait_for(self: &Arc<Self>, id: Uuid) -> DecisionWaiter {
        let (sender, decision) = oneshot::channel();
        self.waiting().entry(id).or_default().push(sender);
        DecisionWaiter { room: self.clone(), id, decision }
    }

    /// The held calls whose decisions are awaited.
    pub(super) fn awaited(&self) -> Vec<Uuid> {
        self.waiting().keys().copied().collect()
    }

    /// Notifies the requests that wait for this decision, and returns whether there was any.
    pub(super) fn notify(&self, held: &HeldCall) -> bool {
        let waiting = self.waiting().remove(&held.id).unwrap_or_default();
        let mut notified = false;
        for sender in waiting {
            notified |= sender.send(held.clone()).is_ok();
        }
        notified
    }
}

impl DecisionWaiter {
    /// Waits for the decision, and returns the held call with it. Cancel-safe.
    pub(super) async fn decided(&mut self) -> HeldCall {
        match (&mut self.decision).await {
            Ok(held) => held,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for DecisionWaiter {
    fn drop(&mut self) {
        self.decision.close();
        let mut waiting = self.room.waiting();
        if let Some(senders) = waiting.get_mut(&self.id) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                waiting.remove(&self.id);
            }
        }
    }
}
