//! Claims: an approved call is run by one task, and by the gateway itself if the client disconnects.

use super::ask::rejection;
use super::{Approvals, ApprovedCall, DecisionFault, already_run};
use crate::answer::Answer;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;
use toolbooth_core::call::{Approval, IncomingCall};
use toolbooth_core::caller::{Caller, ClientFacts, ForwardedHeaders};
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldState};
use toolbooth_store::{HeldUpdate, StoreError};
use uuid::Uuid;

/// A claimed call on its way to the request that waits for it. If that request is gone, dropping the claim runs the
/// call: a claim cannot be released, and no other task may run the call. A call that was cancelled is not run.
struct HeldClaim {
    approvals: Arc<Approvals>,
    approved: Option<Box<ApprovedCall>>,
    /// The call or run of the request that claims. It may differ from the one that the held call belongs to.
    claimant: Option<Uuid>,
}

impl HeldClaim {
    fn take(mut self) -> Option<Box<ApprovedCall>> {
        self.approved.take()
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        let Some(approved) = self.approved.take() else { return };
        // Without a runtime the process is ending; the next start finds the claim and ends the call with an unknown
        // outcome.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (approvals, id, claimant) = (self.approvals.clone(), approved.held.id, self.claimant);
        runtime.spawn(async move {
            if claimant.is_some_and(|claimant| approvals.is_cancelled(claimant)) {
                return approvals.end_cancelled(&approved.held).await;
            }
            if let Err(problem) = approvals.run_abandoned(*approved).await {
                tracing::warn!(held = %id, "an approved call whose client disconnected failed: {}", problem.message);
            }
        });
    }
}

impl Approvals {
    /// Claims an approved call, so that only this task runs it. If the future is dropped, the gateway runs the call, unless
    /// `claimant`, the call or run of the request that claims it, was cancelled. The gateway itself claims without one.
    pub(super) async fn claim(
        self: &Arc<Self>,
        held: HeldCall,
        incoming: IncomingCall,
        claimant: Option<Uuid>,
    ) -> Result<ApprovedCall, Problem> {
        let (sender, receiver) = oneshot::channel::<Result<HeldClaim, Problem>>();
        let approvals = self.clone();
        // In its own task, so that the commit completes even if the client disconnects meanwhile.
        tokio::spawn(async move {
            let claimed = approvals.claim_now(held, incoming).await;
            let claim =
                claimed.map(|approved| HeldClaim { approvals, approved: Some(Box::new(approved)), claimant });
            // If the receiver is gone, the claim is dropped here and runs the call.
            let _ = sender.send(claim);
        });
        let closed = || Problem::of(&StoreError::Closed);
        let claim = receiver.await.map_err(|_| closed())??;
        claim.take().map(|approved| *approved).ok_or_else(closed)
    }

    async fn claim_now(&self, held: HeldCall, mut incoming: IncomingCall) -> Result<ApprovedCall, Problem> {
        self.check_run(&held).await?;
        let claimed =
            self.store.claim_held(held.id, self.clock.now_ms()).await.map_err(|error| Problem::of(&error))?;
        let held = match claimed {
            HeldUpdate::Won(held) => held,
            // It was withdrawn after its approval.
            HeldUpdate::Lost(held) if held.state == HeldState::Rejected => {
                return Err(Problem::of(&rejection(&held)));
            }
            HeldUpdate::Lost(held) => return Err(already_run(&held)),
            HeldUpdate::Missing => return Err(Problem::of(&DecisionFault::Unknown(held.id))),
        };
        self.deferred.forget(held.id);
        let Some(approval) = Approval::of(&held) else { return Err(already_run(&held)) };
        incoming.arguments = Some(held.final_arguments().clone());
        Ok(ApprovedCall { incoming, held, approval })
    }

    /// Runs a claimed call whose client has disconnected, without the headers of its request.
    async fn run_abandoned(self: &Arc<Self>, mut approved: ApprovedCall) -> Result<Answer, Problem> {
        let caller = Caller::clone(&approved.incoming.caller);
        approved.incoming = IncomingCall {
            caller: Arc::new(Caller { forwarded: ForwardedHeaders::default(), ..caller }),
            client: Arc::new(ClientFacts::remembered(&approved.held.client)),
            name: self.catalog.stable_name_of(&approved.held.server, &approved.held.tool),
            arguments: approved.incoming.arguments,
            meta: Vec::new(),
        };
        self.run_claimed(approved).await
    }

    /// Runs a claimed call whose caller is not connected.
    pub(super) async fn run_claimed(&self, approved: ApprovedCall) -> Result<Answer, Problem> {
        match self.runner.get().and_then(Weak::upgrade) {
            Some(runner) => runner.run_approved(approved).await,
            // The gateway is ending; the next start finds the claim and ends the call with an unknown outcome.
            None => Err(Problem::of(&StoreError::Closed)),
        }
    }
}
