//! Held calls that run when nobody waits for them any more: approved over another door, or left over
//! from before the gateway was started anew.

use crate::answer::Answer;
use crate::call::CallRequest;
use crate::clock::{now_ms, wall_ms};
use crate::contain::contained;
use crate::dispatch::Rounds;
use crate::engine::Engine;
use crate::held::Approved;
use crate::rights::NotNow;
use crate::run::Run;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::Incoming;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{HeldCall, HeldKind, HeldOutcome, HeldState};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_store::HeldFilter;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;
use uuid::Uuid;

/// How long whoever waits for an answer may take to act on it.
const TAKE_UP: Duration = Duration::from_secs(2);

/// The future of a call without a waiting client. Boxed: the stages start such calls themselves, and a type
/// that contains itself cannot be written down.
type Walking<'a> = Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send + 'a>>;

impl Engine {
    /// Walks the stages for a caller who is not there.
    pub(crate) fn walk_unattended<'a>(
        self: &'a Arc<Self>,
        request: CallRequest,
        run: &'a mut Run,
    ) -> Walking<'a> {
        Box::pin(async move {
            let link = CallLink::silent();
            contained(pin!(self.walk(request, run, &link))).await
        })
    }

    /// Runs an approved call as the one who made it, with the rights they have now. What it lacks for that keeps it
    /// approved, and it is tried again.
    pub(crate) async fn run_held(self: &Arc<Self>, held: HeldCall) -> Result<Answer, Problem> {
        let caller = match self.caller_of(&held).await {
            Ok(caller) => self.check_server_of(&held).map(|()| caller),
            Err(not_now) => Err(not_now),
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(NotNow::Never(problem)) => {
                self.give_up(&held, &problem).await;
                return Err(problem);
            }
            Err(NotNow::Later(problem)) => {
                self.deferred.note(held.id, &problem);
                return Err(problem);
            }
        };
        self.deferred.forget(held.id);
        let incoming = Incoming {
            caller,
            // Rules about the client that made the call hold for it still.
            client: Arc::new(ClientFacts::remembered(&held.client)),
            name: self.address_of(&held.server, &held.tool),
            arguments: Some(held.final_arguments().clone()),
            meta: Vec::new(),
        };
        let approved = self.claim(held, incoming).await?;
        self.run_claimed(approved).await
    }

    /// Runs an approved call that is claimed already, for a caller who is not there.
    pub(crate) async fn run_claimed(self: &Arc<Self>, approved: Approved) -> Result<Answer, Problem> {
        let (mut run, incoming) = Run::of_approved(self, approved)?;
        let request = CallRequest {
            incoming,
            round: Round::default(),
            progress: Progress::Unwanted,
            rounds: Rounds::Driven,
            reading: Reading::Whole,
            // Questions on the way are asked as for any call; no client waits here.
            patience: Some(Duration::ZERO),
        };
        let answer = self.walk_unattended(request, &mut run).await;
        run.close(answer).await
    }

    /// Runs an approved call for which nobody waits.
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

    /// Runs an approved call after a moment, unless the one who waited for it has taken it up.
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

    /// Tries approved calls again that lacked something when they were to run.
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

    /// Ends an approved call that cannot run.
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
        if let Err(error) = self.store().finish_held(held.id, outcome, held.trace(at_ms)).await {
            tracing::error!(held = %held.id, "{error}");
        }
    }

    /// Remembers how late it is, so that a clock that is set back before the next start revives nothing.
    pub async fn save_clock(&self) {
        crate::clock::say_if_behind();
        let Some(at_ms) = crate::clock::storable_ms() else { return };
        if let Err(error) = self.store().raise_clock(at_ms).await {
            tracing::error!("the time was not written down: {error}");
        }
    }

    /// Drops what the store need not keep any longer.
    pub async fn purge(&self) {
        // By the system's clock: one that was ahead for a moment shall not empty the audit for good.
        if let Err(error) = self.store().purge(wall_ms()).await {
            tracing::error!("the store could not be cleared: {error}");
        }
        match self.files().purge(wall_ms()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!("{count} files were older than `files.keep_days` and are gone"),
            Err(error) => tracing::error!("old files could not be removed: {error}"),
        }
    }

    /// Looks after what an earlier life of the gateway left: calls cut off in the middle end as unknown,
    /// approved ones that nobody took up are run.
    pub async fn take_over(self: &Arc<Self>) {
        let now = now_ms();
        let cut_off = self.store().interrupted_held(now).await;
        if let Err(error) = cut_off {
            tracing::error!("held calls of before could not be looked through: {error}");
        }
        match self.store().close_interrupted(now).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!("{count} calls were cut off when the gateway ended; their outcome is unknown")
            }
            Err(error) => tracing::error!("calls of before could not be looked through: {error}"),
        }
        self.take_over_letters().await;
        self.files().take_over().await;
        self.sweep_held().await;
        self.run_approved().await;
    }
}
