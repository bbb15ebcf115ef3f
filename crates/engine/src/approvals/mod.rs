//! Approvals: calls that wait for a person's decision. Each is stored before it is announced, decided once and run
//! once.
//!
//! `ask` holds a call and waits, `decide` takes decisions from any front end, `claim` makes sure that an approved call
//! runs once, and `run` runs calls whose client is gone, with the rights that `rights` looks up. `withdraw` ends calls
//! that were cancelled while they waited. `plans` queues calls as steps that are approved together, and `consents` are
//! decisions that are remembered.

mod ask;
mod claim;
mod consents;
mod decide;
mod decision_waiters;
mod elsewhere;
mod form;
mod plans;
mod rights;
mod run;
mod withdraw;

pub use plans::{PlanScope, Plans, StepReport, Steps};
pub use withdraw::Cancellation;

use crate::answer::Answer;
use crate::audit::AuditLog;
use crate::catalog::LiveCatalog;
use crate::decision_cache::DecisionCache;
use crate::events::EventRing;
use crate::rights_source::RightsSourceLink;
use crate::server_table::ServerTable;
use crate::shared_state::SharedState;
use crate::terms::SharedTerms;
use decision_waiters::DecisionWaiters;
use elsewhere::MovedApprovals;
use futures_util::future::BoxFuture;
use rights::DeferredCalls;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::watch;
use toolbooth_core::call::{Approval, IncomingCall};
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::held::{HeldCall, HeldFault};
use toolbooth_store::{HELD, HELD_OF_USER, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER, Store, StoreError};
use uuid::Uuid;
use withdraw::Cancellations;

/// Runs approved calls whose client is gone. The call pipeline implements it.
pub(crate) trait ApprovedCallRunner: Send + Sync {
    /// Runs a claimed call, and records its outcome.
    fn run_approved(self: Arc<Self>, approved: ApprovedCall) -> BoxFuture<'static, Result<Answer, Problem>>;
}

/// Receives held calls that have ended. `Jobs` implements it, to continue the runs of which they are steps.
pub(crate) trait HeldEndListener: Send + Sync {
    /// A held call ran, was rejected or has expired.
    fn held_ended(self: Arc<Self>, held: &HeldCall);
}

/// The calls that wait for a person's decision.
pub struct Approvals {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    terms: SharedTerms,
    events: Arc<EventRing>,
    audit: Arc<AuditLog>,
    decisions: Arc<DecisionCache>,
    catalog: Arc<LiveCatalog>,
    servers: Arc<ServerTable>,
    rights_source: Arc<RightsSourceLink>,
    decision_waiters: Arc<DecisionWaiters>,
    deferred: DeferredCalls,
    cancellations: Cancellations,
    moved: MovedApprovals,
    /// Whether the gateway is stopping, so that no request waits for a person any more.
    stopping: watch::Sender<bool>,
    runner: OnceLock<Weak<dyn ApprovedCallRunner>>,
    end_listener: OnceLock<Weak<dyn HeldEndListener>>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").field("deferred", &self.deferred).finish_non_exhaustive()
    }
}

impl Approvals {
    pub(crate) fn new(shared: &SharedState, audit: Arc<AuditLog>, catalog: Arc<LiveCatalog>) -> Self {
        let SharedState { clock, store, terms, events, servers, decisions, rights_source, replica_mail: _ } =
            shared.clone();
        Self {
            clock,
            store,
            terms,
            events,
            audit,
            decisions,
            catalog,
            servers,
            rights_source,
            decision_waiters: Arc::default(),
            deferred: DeferredCalls::default(),
            cancellations: Cancellations::default(),
            moved: MovedApprovals::default(),
            stopping: watch::Sender::new(false),
            runner: OnceLock::new(),
            end_listener: OnceLock::new(),
        }
    }

    /// Sets the runner of approved calls. Only the first call has an effect.
    pub(crate) fn set_runner(&self, runner: Weak<dyn ApprovedCallRunner>) {
        let _ = self.runner.set(runner);
    }

    /// Answers the requests that wait for a person: their calls stay held, and can be decided after a restart. From now
    /// on no request waits.
    pub fn stop_waiting(&self) {
        self.stopping.send_replace(true);
    }

    /// The calls whose requests wait for a person here, each with its held call. A step of a run is listed with the id of
    /// the run.
    pub fn waiting_calls(&self) -> HashMap<Uuid, Uuid> {
        self.decision_waiters.waiting_calls()
    }

    /// Sets the listener for held calls that have ended. Only the first call has an effect.
    pub(crate) fn set_end_listener(&self, listener: Weak<dyn HeldEndListener>) {
        let _ = self.end_listener.set(listener);
    }

    /// Tells the listener that a held call has ended.
    pub(crate) fn tell_end(&self, held: &HeldCall) {
        if let Some(listener) = self.end_listener.get().and_then(Weak::upgrade) {
            listener.held_ended(held);
        }
    }
}

/// The outcome of asking a person.
pub(crate) enum ApprovalOutcome {
    /// Approved: the call, which passes all stages again with the approval.
    Run(Box<ApprovedCall>),
    /// Not decided yet, or run by another task: the request ends, and the held call has the result.
    Held(Box<HeldCall>),
}

/// A call that a person approved.
pub(crate) struct ApprovedCall {
    /// The call, which passes all stages again.
    pub(crate) incoming: IncomingCall,
    /// The held call that was approved.
    pub(crate) held: HeldCall,
    /// The approval, which says what it covers.
    pub(crate) approval: Approval,
}

/// Why a held call cannot be decided, or was not approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    /// There is no held call with this id that the caller may see.
    #[error("there is no held call {0}")]
    Unknown(Uuid),
    /// The caller may not approve this call.
    #[error("held call {0} must be decided by an approver")]
    NotYours(Uuid),
    /// A person rejected the call.
    #[error("{0}")]
    Rejected(String),
    /// The call was not decided in time.
    #[error("approval timed out after {0} s")]
    TimedOut(u64),
}

impl Fault for DecisionFault {
    fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "approval.unknown",
            Self::NotYours(_) => "approval.not-yours",
            Self::Rejected(_) => "call.rejected",
            Self::TimedOut(_) => "call.approval-timeout",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Caller
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => {
                Some("`toolbooth approvals list` shows the held calls that you may decide".into())
            }
            Self::NotYours(_) => Some("ask a member of the admin group or of `approval.approvers`".into()),
            Self::Rejected(_) | Self::TimedOut(_) => None,
        }
    }
}

/// Why a call cannot be held: the limit of this user or of all callers is reached.
pub(crate) fn not_held(error: &StoreError) -> Problem {
    match error {
        StoreError::Full { what: HELD_OF_USER } => {
            Problem::of(&HeldFault::Full { limit: MAX_OPEN_HELD_OF_USER, whose: "per user" })
        }
        StoreError::Full { what: HELD } => {
            Problem::of(&HeldFault::Full { limit: MAX_OPEN_HELD, whose: "in total" })
        }
        error => Problem::of(error),
    }
}

/// The error if another task has already claimed the call.
fn already_run(held: &HeldCall) -> Problem {
    Problem::of(&HeldFault::Claimed { id: held.id })
}
