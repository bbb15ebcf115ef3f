//! Held calls that another gateway on the same store has changed.

use super::ask::rejection;
use super::{Approvals, form};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldState};
use toolbooth_core::json::RawJson;
use toolbooth_store::HeldFilter;
use uuid::Uuid;

/// An approved call that was not claimed for this long has no waiting request.
const UNCLAIMED_MS: i64 = 5_000;
/// The number of latest approvals that wait for the repeated requests of their callers.
const MAX_MOVED: usize = 1024;

/// Held calls that were asked on another gateway, or before a restart, and that their callers approved here. The
/// repeated request of the caller takes them over, also if they are steps of a skill, whose run is a new one then.
#[derive(Debug, Default)]
pub(super) struct MovedApprovals(Mutex<VecDeque<Uuid>>);

impl MovedApprovals {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: Uuid) {
        let mut moved = self.lock();
        if moved.len() >= MAX_MOVED {
            moved.pop_front();
        }
        moved.push_back(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn contains(&self, id: Uuid) -> bool {
        self.lock().contains(&id)
    }

    pub(super) fn forget(&self, id: Uuid) {
        self.lock().retain(|other| *other != id);
    }
}

impl Approvals {
    /// Takes notice of a held call that another gateway changed, or of any number of them: tells the requests that wait
    /// here.
    pub(crate) async fn note_elsewhere(&self, id: Option<Uuid>) {
        let ids = id.map_or_else(|| self.decision_waiters.awaited(), |id| vec![id]);
        for found in ids {
            match self.store.held(found).await {
                Ok(Some(held)) => {
                    if id.is_some() {
                        self.events.emit_held_elsewhere(&held);
                    }
                    if held.state != HeldState::Pending {
                        self.decision_waiters.notify(&held);
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(held = %found, "a held call could not be read: {error}"),
            }
        }
    }

    /// Takes a client's answer about a held call that was asked on another gateway. If it approves the call, the caller's
    /// request can be made again and finds the approved call.
    pub async fn answer_elsewhere(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        id: Uuid,
        answer: RawJson,
    ) -> Result<(), Problem> {
        // Dismissed without a decision: the request asks again.
        let Some((verdict, note)) = form::read(Ok(answer)) else { return Ok(()) };
        let held = self.get(caller, id).await?;
        let verdict = form::without_memory(verdict, held.answerer);
        let decided = self.decide_in_task(caller.clone(), id, verdict, note).await?;
        match decided.state {
            HeldState::Rejected => Err(Problem::of(&rejection(&decided))),
            _ => {
                self.moved.add(id);
                Ok(())
            }
        }
    }

    /// Runs approved calls that no request has claimed: the gateway that should have run them has ended.
    pub(crate) async fn run_unclaimed(self: &Arc<Self>) {
        let filter = HeldFilter {
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Approved],
            ..HeldFilter::default()
        };
        let before_ms = self.clock.now_ms() - UNCLAIMED_MS;
        let is_left = |held: &HeldCall| {
            held.claimed_ms.is_none() && held.decided_ms.is_some_and(|decided_ms| decided_ms < before_ms)
        };
        for held in self.store.held_calls(filter).await.unwrap_or_default() {
            if is_left(&held) {
                self.run_later(held);
            }
        }
    }
}
