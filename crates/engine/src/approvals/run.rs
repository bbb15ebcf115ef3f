//! Runs approved calls without a waiting client: approved over another connection, or left over from before a restart.
//!
//! After a restart, pending calls still wait, approved calls run, and calls that were already claimed end with an
//! unknown outcome, because they may have been sent.

use super::Approvals;
use super::rights::CannotRun;
use crate::answer::Answer;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldOutcome, HeldState};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_store::HeldFilter;
use uuid::Uuid;

/// How long the request that waits for a decision may take to act on it.
const TAKE_UP: Duration = Duration::from_secs(2);

impl Approvals {
    /// Runs an approved call as its original caller, with the rights that caller has now. If something is missing,
    /// the call stays approved and is tried again later.
    pub(super) async fn run_held(self: &Arc<Self>, held: HeldCall) -> Result<Answer, Problem> {
        let caller = match self.caller_of(&held, None).await {
            Ok(caller) => self.check_server_of(&held).map(|()| caller),
            Err(not_now) => Err(not_now),
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(CannotRun::Never(problem)) => {
                self.give_up(&held, &problem).await;
                return Err(problem);
            }
            Err(CannotRun::Later(problem)) => {
                self.deferred.note(held.id, &problem);
                return Err(problem);
            }
        };
        self.deferred.forget(held.id);
        let incoming = IncomingCall {
            caller,
            // Rules about the client that made the call still apply.
            client: Arc::new(ClientFacts::remembered(&held.client)),
            name: self.catalog.stable_name_of(&held.server, &held.tool),
            arguments: Some(held.final_arguments().clone()),
            meta: Vec::new(),
        };
        let approved = self.claim(held, incoming, None).await?;
        self.run_claimed(approved).await
    }

    /// Runs an approved call in the background.
    pub(super) fn run_later(self: &Arc<Self>, held: HeldCall) {
        let approvals = self.clone();
        tokio::spawn(async move {
            let id = held.id;
            let known = approvals.deferred.reason(id);
            if let Err(problem) = approvals.run_held(held).await
                && known.is_none_or(|known| known != problem.message)
            {
                tracing::warn!(held = %id, "an approved call did not run: {}", problem.message);
            }
        });
    }

    /// Runs an approved call after a short time, unless the request that waited for it has claimed it.
    pub(super) fn run_unless_taken(self: &Arc<Self>, id: Uuid) {
        let approvals = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(TAKE_UP).await;
            let Some(approvals) = approvals.upgrade() else { return };
            match approvals.store.held(id).await {
                Ok(Some(held)) if held.state == HeldState::Approved && held.claimed_ms.is_none() => {
                    approvals.run_later(held);
                }
                _ => {}
            }
        });
    }

    /// Tries approved calls again that could not run earlier.
    pub async fn run_deferred(self: &Arc<Self>) {
        if !self.deferred.is_empty() {
            self.run_approved().await;
        }
    }

    /// Runs every approved call that is not claimed.
    pub(crate) async fn run_approved(self: &Arc<Self>) {
        let filter = HeldFilter {
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Approved],
            ..HeldFilter::default()
        };
        for held in self.store.held_calls(filter).await.unwrap_or_default() {
            if held.claimed_ms.is_none() {
                self.run_later(held);
            }
        }
    }

    /// Ends an approved call that can never run.
    pub(super) async fn give_up(&self, held: &HeldCall, problem: &Problem) {
        let at_ms = self.clock.now_ms();
        self.deferred.forget(held.id);
        if let Err(error) = self.store.claim_held(held.id, at_ms).await {
            tracing::error!(held = %held.id, "{error}");
        }
        let outcome = HeldOutcome {
            at_ms,
            kind: OutcomeKind::Failed,
            code: Some(problem.code.to_owned()),
            result: None,
        };
        if let Err(error) = self.store.finish_held(held.id, outcome, held.audit_entry(at_ms)).await {
            tracing::error!(held = %held.id, "{error}");
        }
        self.tell_end(held);
    }

    /// Closes the held calls that were interrupted when an earlier process ended: their outcome is unknown.
    pub(crate) async fn close_interrupted(&self) {
        if let Err(error) = self.store.interrupted_held(self.clock.now_ms()).await {
            tracing::error!("interrupted held calls could not be closed: {error}");
        }
    }
}
