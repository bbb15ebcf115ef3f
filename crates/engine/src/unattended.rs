//! Held calls that run without a waiting client: approved over another connection, or left over from before a
//! restart. Also the housekeeping at the start and at intervals.
//!
//! After a restart, pending calls still wait, approved calls run, and calls that were already claimed end with an
//! unknown outcome, because they may have been sent.

use crate::answer::Answer;
use crate::call::CallRequest;
use crate::call_record::CallRecord;
use crate::clock::{now_ms, wall_ms};
use crate::contain::contain_panics;
use crate::dispatch::QuestionHandling;
use crate::engine::Engine;
use crate::held::ApprovedCall;
use crate::rights::CannotRun;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::IncomingCall;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldOutcome, HeldState};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_store::HeldFilter;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use uuid::Uuid;

/// How long the request that waits for a decision may take to act on it.
const TAKE_UP: Duration = Duration::from_secs(2);

/// The future of a call without a waiting client. Boxed, because the stages start such calls themselves and an
/// unboxed future would contain itself.
type BoxedCall<'a> = Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send + 'a>>;

impl Engine {
    /// Runs the stages of a call whose caller is not connected.
    pub(crate) fn run_stages_unattended<'a>(
        self: &'a Arc<Self>,
        incoming: IncomingCall,
        record: &'a mut CallRecord,
    ) -> BoxedCall<'a> {
        let request = CallRequest {
            incoming,
            round: Round::default(),
            progress: ProgressMode::Unwanted,
            questions: QuestionHandling::DuringCall,
            reading: ResultReading::Whole,
            // Questions are held as for any call; no client waits here.
            approval_wait: Some(Duration::ZERO),
        };
        Box::pin(async move {
            let link = CallLink::silent();
            contain_panics(pin!(self.run_stages(request, record, &link))).await
        })
    }

    /// Runs an approved call as its original caller, with the rights that caller has now. If something is missing,
    /// the call stays approved and is tried again later.
    pub(crate) async fn run_held(self: &Arc<Self>, held: HeldCall) -> Result<Answer, Problem> {
        let caller = match self.caller_of(&held).await {
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
            name: self.stable_name_of(&held.server, &held.tool),
            arguments: Some(held.final_arguments().clone()),
            meta: Vec::new(),
        };
        let approved = self.claim(held, incoming).await?;
        self.run_claimed(approved).await
    }

    /// Runs an approved call that is already claimed and whose caller is not connected.
    pub(crate) async fn run_claimed(self: &Arc<Self>, approved: ApprovedCall) -> Result<Answer, Problem> {
        let (mut record, incoming) = CallRecord::of_approved(self, approved)?;
        let answer = self.run_stages_unattended(incoming, &mut record).await;
        record.close(answer).await
    }

    /// Runs an approved call in the background.
    pub(crate) fn run_later(self: &Arc<Self>, held: HeldCall) {
        let engine = self.clone();
        tokio::spawn(async move {
            let id = held.id;
            let known = engine.deferred.reason(id);
            if let Err(problem) = engine.run_held(held).await
                && known.is_none_or(|known| known != problem.message)
            {
                tracing::warn!(held = %id, "an approved call did not run: {}", problem.message);
            }
        });
    }

    /// Runs an approved call after a short time, unless the request that waited for it has claimed it.
    pub(crate) fn run_unless_taken(self: &Arc<Self>, id: Uuid) {
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(TAKE_UP).await;
            let Some(engine) = engine.upgrade() else { return };
            match engine.store().held(id).await {
                Ok(Some(held)) if held.state == HeldState::Approved && held.claimed_ms.is_none() => {
                    engine.run_later(held);
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
    async fn run_approved(self: &Arc<Self>) {
        let filter = HeldFilter {
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Approved],
            ..HeldFilter::default()
        };
        for held in self.store().held_calls(filter).await.unwrap_or_default() {
            if held.claimed_ms.is_none() {
                self.run_later(held);
            }
        }
    }

    /// Ends an approved call that can never run.
    pub(crate) async fn give_up(&self, held: &HeldCall, problem: &Problem) {
        let at_ms = now_ms();
        self.deferred.forget(held.id);
        if let Err(error) = self.store().claim_held(held.id, at_ms).await {
            tracing::error!(held = %held.id, "{error}");
        }
        let outcome = HeldOutcome {
            at_ms,
            kind: OutcomeKind::Failed,
            code: Some(problem.code.to_owned()),
            result: None,
        };
        if let Err(error) = self.store().finish_held(held.id, outcome, held.audit_entry(at_ms)).await {
            tracing::error!(held = %held.id, "{error}");
        }
    }

    /// Stores the latest known time, so that expired states stay expired if the clock is set back before the next
    /// start.
    pub async fn save_clock(&self) {
        crate::clock::warn_if_behind();
        let Some(at_ms) = crate::clock::storable_ms() else { return };
        if let Err(error) = self.store().raise_clock(at_ms).await {
            tracing::error!("the current time could not be stored: {error}");
        }
    }

    /// Removes what the store no longer needs to keep.
    pub async fn purge(&self) {
        // By the system's clock: a clock that was briefly ahead must not empty the audit.
        if let Err(error) = self.store().purge(wall_ms()).await {
            tracing::error!("the store could not be purged: {error}");
        }
        match self.files().purge(wall_ms()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!("{count} files were older than `files.keep_days` and were deleted"),
            Err(error) => tracing::error!("old files could not be deleted: {error}"),
        }
    }

    /// Cleans up after an earlier process: interrupted calls end with an unknown outcome, and approved calls that
    /// were not claimed are run.
    pub async fn take_over(self: &Arc<Self>) {
        let now = now_ms();
        let cut_off = self.store().interrupted_held(now).await;
        if let Err(error) = cut_off {
            tracing::error!("interrupted held calls could not be closed: {error}");
        }
        match self.store().close_interrupted(now).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!(
                    "{count} calls were interrupted when the gateway ended; their outcome is unknown"
                )
            }
            Err(error) => tracing::error!("interrupted calls could not be closed: {error}"),
        }
        self.take_over_letters().await;
        self.files().take_over().await;
        self.sweep_held().await;
        self.run_approved().await;
    }
}
