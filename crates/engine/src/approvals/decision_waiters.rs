//! Requests of this process that wait for a person's decision, by the id of their held call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use toolbooth_core::held::HeldCall;
use uuid::Uuid;

/// The requests that wait for a decision.
#[derive(Debug, Default)]
pub(super) struct DecisionWaiters {
    waiting: Mutex<HashMap<Uuid, Vec<WaitingRequest>>>,
    /// The key of the next request.
    next: AtomicU64,
}

/// A request that waits, as this list has it. It stays here while it acts on the decision, so that a cancellation finds
/// the held call that it is about to run.
#[derive(Debug)]
struct WaitingRequest {
    key: u64,
    /// Its call, or the run of which it is a step.
    call: Uuid,
    /// Taken when the request is notified.
    decision: Option<oneshot::Sender<HeldCall>>,
}

/// One request that waits for a decision and acts on it. Dropping it removes the request from the list.
pub(super) struct DecisionWaiter {
    waiters: Arc<DecisionWaiters>,
    id: Uuid,
    key: u64,
    decision: oneshot::Receiver<HeldCall>,
}

impl DecisionWaiters {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Uuid, Vec<WaitingRequest>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request of a call or run that waits for the decision on a held call.
    pub(super) fn wait_for(self: &Arc<Self>, id: Uuid, call: Uuid) -> DecisionWaiter {
        let (sender, decision) = oneshot::channel();
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let request = WaitingRequest { key, call, decision: Some(sender) };
        self.waiting().entry(id).or_default().push(request);
        DecisionWaiter { waiters: self.clone(), id, key, decision }
    }

    /// The held calls whose decisions are awaited.
    pub(super) fn awaited(&self) -> Vec<Uuid> {
        let waiting = self.waiting();
        let is_awaited =
            |requests: &[WaitingRequest]| requests.iter().any(|request| request.decision.is_some());
        waiting.iter().filter(|(_, requests)| is_awaited(requests)).map(|(id, _)| *id).collect()
    }

    /// The held calls for which requests of this call or run wait, or on whose decisions they act.
    pub(super) fn awaited_by(&self, call: Uuid) -> Vec<Uuid> {
        let waiting = self.waiting();
        let of_call = |requests: &[WaitingRequest]| requests.iter().any(|request| request.call == call);
        waiting.iter().filter(|(_, requests)| of_call(requests)).map(|(id, _)| *id).collect()
    }

    /// The calls and runs whose requests wait for a decision, each with its held call.
    pub(super) fn waiting_calls(&self) -> HashMap<Uuid, Uuid> {
        let waiting = self.waiting();
        let undecided = waiting.iter().flat_map(|(id, requests)| {
            let requests = requests.iter().filter(|request| request.decision.is_some());
            requests.map(|request| (request.call, *id))
        });
        undecided.collect()
    }

    /// Whether a request of another call or run waits for this held call, or acts on its decision.
    pub(super) fn is_awaited_by_another(&self, id: Uuid, call: Uuid) -> bool {
        let waiting = self.waiting();
        waiting.get(&id).is_some_and(|requests| requests.iter().any(|request| request.call != call))
    }

    /// Notifies the requests that wait for this decision, and returns whether there was any.
    pub(super) fn notify(&self, held: &HeldCall) -> bool {
        let mut notified = false;
        for decision in self.take_decisions(held.id, |_| true) {
            notified |= decision.send(held.clone()).is_ok();
        }
        notified
    }

    /// Notifies the requests that wait for this decision, except those of a call or run that is being cancelled: they
    /// end with the cancellation.
    pub(super) fn notify_all_but(&self, call: Uuid, held: &HeldCall) {
        for decision in self.take_decisions(held.id, |request| request.call != call) {
            // A request that has just ended needs no notice.
            let _ = decision.send(held.clone());
        }
    }

    /// Takes the senders of the requests that are to be notified. They are used after the lock was released.
    fn take_decisions(
        &self,
        id: Uuid,
        is_notified: impl Fn(&WaitingRequest) -> bool,
    ) -> Vec<oneshot::Sender<HeldCall>> {
        let mut waiting = self.waiting();
        let Some(requests) = waiting.get_mut(&id) else { return Vec::new() };
        let notified = requests.iter_mut().filter(|request| is_notified(request));
        notified.filter_map(|request| request.decision.take()).collect()
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
        let mut waiting = self.waiters.waiting();
        if let Some(requests) = waiting.get_mut(&self.id) {
            requests.retain(|request| request.key != self.key);
            if requests.is_empty() {
                waiting.remove(&self.id);
            }
        }
    }
}
