//! Withdraws held calls whose call, task or run was cancelled: they leave the inbox and never run.
//!
//! The store decides: of a withdrawal and the claim of an approved call only one succeeds, also on different gateways. A
//! call that is being stored while it is cancelled is withdrawn as soon as it is stored. If the gateway ends after it has
//! cancelled a run and before it could withdraw the run's calls, they are withdrawn when they are approved or claimed.

use super::decide::decision_entry;
use super::{Approvals, DecisionFault};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{Decision, HeldCall, HeldFault, HeldKind, HeldOutcome, HeldState, HeldVerdict};
use toolbooth_core::job::RunRecord;
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_core::permission::{Permission, on_owned_work};
use toolbooth_store::{HeldFilter, HeldUpdate, StoreError, WorkKind};
use uuid::Uuid;

/// The number of latest cancellations that are remembered for calls that are being stored at the moment.
const MAX_CANCELLATIONS: usize = 1024;
/// The most pages of held calls of one call or run: more than all open calls of a user fill with the largest arguments.
const MAX_PAGES: usize = 128;
/// How often, and after which pause, a withdrawal is tried again if the store fails.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How long the first try may delay what is being cancelled.
const FIRST_TRY: Duration = Duration::from_secs(5);
/// The actor if the gateway itself finds that a run was ended.
const GATEWAY: &str = "(gateway)";
/// Why a step is withdrawn whose run was ended earlier.
const RUN_ENDED: &str = "its run was cancelled, ended by a person or deleted";

/// Who cancelled a call or run, and why its held calls are withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// The call, task or run.
    pub call: Uuid,
    /// The user who cancelled it.
    pub by: String,
    /// The reason, for the record of the held call.
    pub reason: String,
}

/// A cancellation that is remembered.
#[derive(Debug)]
struct NotedCancellation {
    cancellation: Cancellation,
    /// The held calls that its requests waited for. When a withdrawal is tried again, the requests may be gone.
    held: Vec<Uuid>,
    /// Whether the store failed each time, so that the sweep tries again.
    is_open: bool,
}

/// The latest cancellations.
#[derive(Debug, Default)]
pub(super) struct Cancellations(Mutex<VecDeque<NotedCancellation>>);

impl Cancellations {
    fn lock(&self) -> MutexGuard<'_, VecDeque<NotedCancellation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a cancellation, and returns the held calls that it is about, with those of an earlier try.
    fn add(&self, cancellation: Cancellation, mut held: Vec<Uuid>) -> Vec<Uuid> {
        let mut latest = self.lock();
        let mut is_open = false;
        let earlier = latest.iter().position(|noted| noted.cancellation.call == cancellation.call);
        if let Some(earlier) = earlier.and_then(|place| latest.remove(place)) {
            held.extend(earlier.held);
            is_open = earlier.is_open;
        }
        held.sort_unstable();
        held.dedup();
        if latest.len() >= MAX_CANCELLATIONS {
            latest.pop_front();
        }
        latest.push_back(NotedCancellation { cancellation, held: held.clone(), is_open });
        held
    }

    /// Notes whether a cancellation is left to the sweep.
    fn set_open(&self, call: Uuid, is_open: bool) {
        let mut latest = self.lock();
        if let Some(noted) = latest.iter_mut().find(|noted| noted.cancellation.call == call) {
            noted.is_open = is_open;
        }
    }

    /// The oldest cancellation that was left open.
    fn first_open(&self) -> Option<Cancellation> {
        self.lock().iter().find(|noted| noted.is_open).map(|noted| noted.cancellation.clone())
    }

    fn find(&self, call: Uuid) -> Option<Cancellation> {
        let latest = self.lock();
        let noted = latest.iter().rev().find(|noted| noted.cancellation.call == call);
        noted.map(|noted| noted.cancellation.clone())
    }
}

impl Approvals {
    /// Withdraws the held calls of a call, task or run that is being cancelled. Requests of that call are not notified: they
    /// are cancelled next. A held call for which another request waits, too, is left to that request.
    pub async fn withdraw(&self, cancellation: Cancellation) -> Result<(), Problem> {
        self.withdraw_with(cancellation, Vec::new()).await
    }

    /// Withdraws the held calls of work that ends in any case, and these held calls, which it knows. If the store fails,
    /// goes on trying in the background; the error is that of the first try.
    pub async fn withdraw_or_retry(
        self: &Arc<Self>,
        cancellation: Cancellation,
        known: Vec<Uuid>,
    ) -> Result<(), Problem> {
        let approvals = self.clone();
        let (sender, first) = oneshot::channel();
        tokio::spawn(async move {
            let mut sender = Some(sender);
            for _ in 0..TRIES {
                let withdrawn = approvals.withdraw_with(cancellation.clone(), known.clone()).await;
                if let Err(problem) = &withdrawn {
                    tracing::error!(call = %cancellation.call, "held calls could not be withdrawn: {}", problem.message);
                }
                let is_done = withdrawn.is_ok();
                if let Some(sender) = sender.take() {
                    // The caller may wait no longer.
                    let _ = sender.send(withdrawn);
                }
                if is_done {
                    return;
                }
                sleep(TRY_AGAIN).await;
            }
            approvals.cancellations.set_open(cancellation.call, true);
        });
        match timeout(FIRST_TRY, first).await {
            Ok(first) => first.unwrap_or_else(|_| Err(Problem::of(&StoreError::Closed))),
            // A store that hangs must not keep the work from ending.
            Err(_) => Ok(()),
        }
    }

    /// Withdraws the held calls of cancellations for which the store failed each time.
    pub(super) async fn withdraw_open(&self) {
        for _ in 0..MAX_CANCELLATIONS {
            let Some(cancellation) = self.cancellations.first_open() else { return };
            let call = cancellation.call;
            if self.withdraw(cancellation).await.is_err() {
                // The store still fails. The next sweep tries again.
                return;
            }
            self.cancellations.set_open(call, false);
        }
    }

    async fn withdraw_with(&self, cancellation: Cancellation, known: Vec<Uuid>) -> Result<(), Problem> {
        let call = cancellation.call;
        // A repeated request waits for the held call of an earlier one.
        let mut ids = self.decision_waiters.awaited_by(call);
        ids.extend(known);
        // Noted first: a call that is stored after the rows were read finds it there.
        for id in self.cancellations.add(cancellation.clone(), ids) {
            let held = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
            // A step of a plan ends with its plan.
            if let Some(held) = held.filter(|held| held.kind == HeldKind::Approval) {
                self.withdraw_held(&held, &cancellation).await?;
            }
        }
        let filter = HeldFilter {
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Pending, HeldState::Approved],
            of_call: Some(call),
            ..HeldFilter::default()
        };
        for _ in 0..MAX_PAGES {
            let open = self.store.held_calls(filter.clone()).await.map_err(|error| Problem::of(&error))?;
            let mut withdrawn = 0;
            for held in &open {
                withdrawn += usize::from(self.withdraw_held(held, &cancellation).await?);
            }
            if withdrawn == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Withdraws a held call, unless it runs, has ended, or another request waits for it. Returns whether it did.
    async fn withdraw_held(&self, held: &HeldCall, cancellation: &Cancellation) -> Result<bool, Problem> {
        if self.decision_waiters.is_awaited_by_another(held.id, cancellation.call) {
            return Ok(false);
        }
        let HeldUpdate::Won(held) = self.decide_withdrawal(held, cancellation).await? else {
            return Ok(false);
        };
        self.decision_waiters.notify_all_but(cancellation.call, &held);
        Ok(true)
    }

    /// Withdraws one held call, of a call whose request has ended or waits. Requests that wait for it are notified.
    pub async fn withdraw_one(&self, held: &HeldCall, by: &str, reason: &str) -> Result<HeldCall, Problem> {
        let call = held.origin.as_ref().map_or(held.id, |origin| origin.call);
        let cancellation = Cancellation { call, by: by.to_owned(), reason: reason.to_owned() };
        match self.decide_withdrawal(held, &cancellation).await? {
            HeldUpdate::Won(held) => {
                self.decision_waiters.notify(&held);
                self.tell_end(&held);
                Ok(held)
            }
            HeldUpdate::Lost(held) => Err(match held.decide(&self.withdrawal(&cancellation)) {
                Err(fault) => Problem::of(&fault),
                // It expired at this moment.
                Ok(_) => Problem::of(&HeldFault::Expired { id: held.id }),
            }),
            HeldUpdate::Missing => Err(Problem::of(&DecisionFault::Unknown(held.id))),
        }
    }

    /// The held call that a call, or a held call, of this caller or of any user for an administrator is known by: by its
    /// own id, by the id of its call, or by that of a repeated request, which `held_of_record` names.
    pub async fn find_cancellable(
        &self,
        caller: &Caller,
        id: Uuid,
        held_of_record: Option<Uuid>,
    ) -> Result<Option<HeldCall>, Problem> {
        let is_theirs = |held: &HeldCall| {
            let may_cancel = on_owned_work(caller, &held.user) == Permission::Granted;
            // A step of a plan ends with its plan.
            may_cancel && held.kind == HeldKind::Approval
        };
        for id in [Some(id), held_of_record].into_iter().flatten() {
            let held = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
            if let Some(held) = held.filter(is_theirs) {
                return Ok(Some(held));
            }
        }
        // A run is cancelled as a run, not as a call.
        let of_call = HeldFilter { of_call: Some(id), limit: Some(1), ..HeldFilter::default() };
        let found = self.store.held_calls(of_call).await.map_err(|error| Problem::of(&error))?;
        Ok(found.into_iter().next().filter(|held| held.run().is_none() && is_theirs(held)))
    }

    fn withdrawal(&self, cancellation: &Cancellation) -> Decision {
        Decision {
            verdict: HeldVerdict::Withdraw,
            by: cancellation.by.clone(),
            at_ms: self.clock.now_ms(),
            note: Some(cancellation.reason.clone()),
        }
    }

    /// Stores a withdrawal. If it is the first decision, or takes back an approval, it is announced.
    async fn decide_withdrawal(
        &self,
        held: &HeldCall,
        cancellation: &Cancellation,
    ) -> Result<HeldUpdate, Problem> {
        let decision = self.withdrawal(cancellation);
        let audit = decision_entry(held, &decision);
        let update = self.store.decide_held(held.id, decision, audit).await;
        let update = update.map_err(|error| Problem::of(&error))?;
        if let HeldUpdate::Won(held) = &update {
            tracing::info!(held = %held.id, by = %cancellation.by, "a held call is withdrawn: {}", cancellation.reason);
            self.deferred.forget(held.id);
            self.events.emit_decided(held);
        }
        Ok(update)
    }

    /// Withdraws a call that was stored while it was being cancelled.
    pub(super) async fn withdraw_if_cancelled(&self, held: &HeldCall) -> Result<(), Problem> {
        let Some(origin) = &held.origin else { return Ok(()) };
        let cancellation = match self.cancellations.find(origin.call) {
            Some(cancellation) => cancellation,
            None => match self.ended_run(held).await? {
                Some(cancellation) => cancellation,
                None => return Ok(()),
            },
        };
        self.withdraw_held(held, &cancellation).await?;
        Ok(())
    }

    /// Whether a call or run was cancelled here.
    pub(super) fn is_cancelled(&self, call: Uuid) -> bool {
        self.cancellations.find(call).is_some()
    }

    /// Ends a claimed call that was cancelled before it was sent.
    pub(super) async fn end_cancelled(&self, held: &HeldCall) {
        let at_ms = self.clock.now_ms();
        let kind = OutcomeKind::Cancelled;
        let outcome = HeldOutcome { at_ms, kind, code: Some("call.cancelled".into()), result: None };
        let audit = AuditEntry { outcome: kind.as_str().into(), ..held.audit_entry(at_ms) };
        if let Err(error) = self.store.finish_held(held.id, outcome, audit).await {
            tracing::error!(held = %held.id, "{error}");
        }
    }

    /// Refuses to run a step whose run was ended, and withdraws it.
    pub(super) async fn check_run(&self, held: &HeldCall) -> Result<(), Problem> {
        let Some(cancellation) = self.ended_run(held).await? else { return Ok(()) };
        self.withdraw_held(held, &cancellation).await?;
        Err(Problem::of(&DecisionFault::Rejected(format!("`{}` does not run: {RUN_ENDED}", held.exposed))))
    }

    /// Refuses to approve a step whose run was ended, and withdraws it: another gateway may have stored it after the end
    /// of its run.
    pub(super) async fn check_run_for_approval(&self, held: &HeldCall) -> Result<(), Problem> {
        if held.state != HeldState::Pending {
            return Ok(());
        }
        let Some(Cancellation { by, reason, .. }) = self.ended_run(held).await? else { return Ok(()) };
        let withdrawn = self.withdraw_one(held, &by, &reason).await?;
        Err(Problem::of(&HeldFault::Withdrawn { id: withdrawn.id, by, reason }))
    }

    /// The end of the run of which a held call is a step, as the store knows it.
    async fn ended_run(&self, held: &HeldCall) -> Result<Option<Cancellation>, Problem> {
        let Some(run) = held.run() else { return Ok(None) };
        let row = self.store.work(WorkKind::Run, &run.to_string()).await;
        let row = row.map_err(|error| Problem::of(&error))?;
        let is_ended = match row {
            // The step of a run that cannot be read does not run.
            Some(row) => {
                serde_json::from_str(&row.body).map_or(true, |run: RunRecord| run.is_ended_by_person())
            }
            // Only a skill that its caller waits for runs without a row; its steps are in no part. The row of any other run
            // was deleted, with its job or some time after the run had ended.
            None => held.step().is_some_and(|step| !step.starts_with('/')),
        };
        Ok(is_ended.then(|| Cancellation { call: run, by: GATEWAY.into(), reason: RUN_ENDED.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_stays_open_until_its_held_calls_are_withdrawn() {
        let cancellations = Cancellations::default();
        let (call, held) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let cancellation = Cancellation { call, by: "ann".into(), reason: "cancelled".into() };
        assert_eq!(cancellations.add(cancellation.clone(), vec![held]), [held]);
        assert_eq!(cancellations.first_open(), None);
        cancellations.set_open(call, true);
        // The next try knows the held calls of the first one.
        assert_eq!(cancellations.add(cancellation.clone(), Vec::new()), [held]);
        assert_eq!(cancellations.first_open(), Some(cancellation));
        cancellations.set_open(call, false);
        assert_eq!(cancellations.first_open(), None);
    }
}
