//! Holds a call and asks a person: the client of the call, or an approver over another front end.

use super::rights::CannotRun;
use super::{ApprovalOutcome, Approvals, DecisionFault, form, not_held};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use toolbooth_core::call::{Draft, HeldDraft, fingerprint};
use toolbooth_core::caller::Caller;
use toolbooth_core::clock::{Clock, milliseconds};
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{Answerer, HeldCall, HeldKind, HeldOrigin, HeldState, HeldVerdict};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_store::{HeldFilter, SameCall, StoreError};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;
use uuid::Uuid;

/// How many open held calls are read at a time to compare them with a new one.
const SAME_PAGE: u32 = 64;
/// How often a client that wants progress is notified that its call still waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

impl Approvals {
    /// Holds a call until a person decides, or until its client can wait no longer. `origin` is what the held call belongs
    /// to.
    pub(crate) async fn ask_person(
        self: &Arc<Self>,
        waiting: HeldDraft,
        origin: HeldOrigin,
        progress: ProgressMode,
        approval_wait: Option<Duration>,
        link: &CallLink,
    ) -> Result<ApprovalOutcome, Problem> {
        let call = origin.call;
        let held = self.hold(&waiting, origin).await?;
        let mut decision = self.decision_waiters.wait_for(held.id, call);
        // The call may have been decided before this task began to wait.
        let held = self.store.held(held.id).await.map_err(|error| Problem::of(&error))?.unwrap_or(held);
        if held.state != HeldState::Pending {
            return self.continue_decided(call, waiting, held).await;
        }
        let (expires, wait) = (self.terms.load().expires, self.terms.load().wait);
        let caller = waiting.draft().caller.clone();
        let may_answer = self.may_answer(&caller, &held);
        // The caller is asked only if they may approve. A caller may always reject their own call elsewhere.
        let mut asking = may_answer && waiting.draft().client.can("elicitation");
        let expiry = expiry_of(&held, expires, &self.clock);
        let wait_end = Instant::now() + approval_wait.unwrap_or(wait);
        let mut stopping = self.stopping.subscribe();
        let mut tick = interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ask = link.ask("elicitation/create", Some(form::form(&held, &waiting)));
        tokio::pin!(ask);
        let mut waited = 0u64;
        loop {
            let until =
                if asking || progress == ProgressMode::Wanted { expiry } else { expiry.min(wait_end) };
            tokio::select! {
                biased;
                decided = decision.decided() => return self.continue_decided(call, waiting, decided).await,
                reply = &mut ask, if asking => match form::read(reply) {
                    Some((verdict, note)) => {
                        let verdict = form::without_memory(verdict, held.answerer);
                        let decided = self.decide_or_find(caller.clone(), held.id, verdict, note).await?;
                        return self.continue_decided(call, waiting, decided).await;
                    }
                    None => asking = false, // The question was dismissed without a decision.
                },
                // The caller gets the id while there is still a connection to send it on.
                () = is_stopping(&mut stopping) => return Ok(ApprovalOutcome::Held(Box::new(held))),
                _ = tick.tick(), if progress == ProgressMode::Wanted => {
                    link.progress(waiting_progress(waited, &held));
                    waited += 1;
                }
                () = sleep_until(until) => {
                    if until < expiry {
                        return Ok(ApprovalOutcome::Held(Box::new(held)));
                    }
                    self.sweep().await;
                    return Err(Problem::of(&timed_out(&held)));
                }
            }
        }
    }

    /// Decides a held call with its caller's answer. If another decision came first, that one counts.
    async fn decide_or_find(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        id: Uuid,
        verdict: HeldVerdict,
        note: Option<String>,
    ) -> Result<HeldCall, Problem> {
        let problem = match self.decide_in_task(caller, id, verdict, note).await {
            Ok(decided) => return Ok(decided),
            Err(problem) => problem,
        };
        let now = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
        now.filter(|now| now.state != HeldState::Pending).ok_or(problem)
    }

    /// Finds the open held call for the same call, or stores a new one. Each step of a run has one of its own.
    async fn hold(self: &Arc<Self>, waiting: &HeldDraft, origin: HeldOrigin) -> Result<HeldCall, Problem> {
        let draft = waiting.draft();
        let held = self.held_of(draft, HeldKind::Approval, &waiting.reason, waiting.answerer);
        let held = HeldCall { origin: Some(origin), ..held };
        let filter = HeldFilter {
            user: Some(held.user.clone()),
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Pending, HeldState::Approved],
            call: Some(SameCall {
                server: held.server.clone(),
                tool: held.tool.clone(),
                arguments_sha256: held.arguments_sha256,
            }),
            limit: Some(SAME_PAGE),
            ..HeldFilter::default()
        };
        let now = self.clock.now_ms();
        let fits = |other: &HeldCall| {
            other.digest == held.digest
                && other.answerer == held.answerer
                && other.persona == held.persona
                && other.level == held.level
                // It runs with the rights of the credential that the call was made with.
                && other.identified_by == held.identified_by
                // A decision remembered for a session belongs to the session of the caller who asked.
                && other.session == held.session
                // Runs are approved and cancelled one by one. Only the repetition of a step finds its held call.
                && ((other.run(), other.step()) == (held.run(), held.step()) || self.moved.contains(other.id))
                && other.claimed_ms.is_none()
                && !other.is_overdue(now)
        };
        // Other runs may hold many of the same calls, so those of the step's own run are read on their own. Only an
        // approval that moved here can be one of another run.
        let earlier = match held.run() {
            None => self.find_held(filter, fits).await?,
            Some(run) => {
                let of_run = HeldFilter { of_call: Some(run), ..filter.clone() };
                match self.find_held(of_run, fits).await? {
                    None if !self.moved.is_empty() => self.find_held(filter, fits).await?,
                    found => found,
                }
            }
        };
        if let Some(earlier) = earlier {
            self.moved.forget(earlier.id);
            return Ok(earlier);
        }
        let approvals = self.clone();
        // In its own task, so that a call that is cancelled during the commit is withdrawn after it.
        let storing = tokio::spawn(async move {
            approvals.store.hold(held.clone()).await.map_err(|error| not_held(&error))?;
            tracing::info!(held = %held.id, user = %held.user, tool = %held.exposed, "a call is held: {}", held.question);
            approvals.events.emit_held(&held);
            approvals.withdraw_if_cancelled(&held).await?;
            Ok::<_, Problem>(held)
        });
        storing.await.unwrap_or_else(|_| Err(Problem::of(&StoreError::Closed)))
    }

    /// The newest held call that fits, of all pages.
    async fn find_held(
        &self,
        mut filter: HeldFilter,
        fits: impl Fn(&HeldCall) -> bool,
    ) -> Result<Option<HeldCall>, Problem> {
        loop {
            let page = self.store.held_calls(filter.clone()).await.map_err(|error| Problem::of(&error))?;
            // A page may be short because its calls are large, so only an empty one is the end.
            let Some(last) = page.last() else { return Ok(None) };
            filter.before = Some(last.id);
            if let Some(found) = page.into_iter().find(&fits) {
                return Ok(Some(found));
            }
        }
    }

    /// Builds the held call of a draft.
    pub(super) fn held_of(
        &self,
        draft: &Draft,
        kind: HeldKind,
        question: &str,
        answerer: Answerer,
    ) -> HeldCall {
        let now = self.clock.now_ms();
        let expires = milliseconds(self.terms.load().expires);
        HeldCall {
            id: Uuid::now_v7(),
            kind,
            user: draft.caller.user.to_string(),
            persona: draft.caller.persona_name().map(str::to_owned),
            session: draft.caller.session.as_deref().map(str::to_owned),
            level: draft.caller.compliance_level.as_ref().map(|level| level.name.to_string()),
            identified_by: Some(draft.caller.identified_by.clone()),
            client: draft.client.name(),
            origin: None,
            server: draft.tool.server.name.clone(),
            tool: draft.tool.name.to_string(),
            exposed: draft.tool.exposed.to_string(),
            digest: *draft.tool.digest(),
            arguments: draft.arguments.detached(),
            arguments_sha256: fingerprint(&draft.arguments),
            question: question.to_owned(),
            answerer,
            created_ms: now,
            expires_ms: (kind == HeldKind::Approval).then_some(now.saturating_add(expires)),
            state: HeldState::Pending,
            decided_by: None,
            decided_ms: None,
            decision_note: None,
            edited: None,
            remember: None,
            claimed_ms: None,
            outcome: None,
            plan: None,
        }
    }

    /// Continues with a call that was decided. `call` is the call or run of the request that waited for it.
    async fn continue_decided(
        self: &Arc<Self>,
        call: Uuid,
        waiting: HeldDraft,
        held: HeldCall,
    ) -> Result<ApprovalOutcome, Problem> {
        match held.state {
            HeldState::Approved => {}
            HeldState::Rejected => return Err(Problem::of(&rejection(&held))),
            HeldState::Expired => {
                return Err(Problem::of(&timed_out(&held)));
            }
            HeldState::Pending => return Ok(ApprovalOutcome::Held(Box::new(held))),
            HeldState::Done | HeldState::Failed => return Ok(ApprovalOutcome::Held(Box::new(held))),
        }
        let mut incoming = waiting.again();
        let folder = incoming.caller.folder.clone();
        incoming.caller = match self.caller_of(&held, folder).await {
            // The request still waits, so the headers that came with it are still available.
            Ok(caller) => {
                let forwarded = incoming.caller.forwarded.clone();
                Arc::new(Caller { forwarded, ..Caller::clone(&caller) })
            }
            Err(CannotRun::Never(problem)) => {
                // In its own task, so that a client that disconnects meanwhile leaves no open held call.
                let (approvals, reason) = (self.clone(), problem.clone());
                let _ = tokio::spawn(async move { approvals.give_up(&held, &reason).await }).await;
                return Err(problem);
            }
            Err(CannotRun::Later(problem)) => {
                self.deferred.note(held.id, &problem);
                return Ok(ApprovalOutcome::Held(Box::new(held)));
            }
        };
        let id = held.id;
        match self.claim(held, incoming, Some(call)).await {
            Ok(approved) => Ok(ApprovalOutcome::Run(Box::new(approved))),
            // Another gateway runs the call, because this one did not hear of the approval in time. That call has its own
            // record, and its result is stored with the held call, so this request has not failed.
            Err(problem) if problem.code == "call.already-run" => match self.store.held(id).await {
                Ok(Some(held)) => Ok(ApprovalOutcome::Held(Box::new(held))),
                Ok(None) | Err(_) => Err(problem),
            },
            Err(problem) => Err(problem),
        }
    }
}

/// Waits until the gateway is stopping. Cancel-safe.
async fn is_stopping(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the approvals, which the caller borrows.
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

/// When a held call expires.
fn expiry_of(held: &HeldCall, otherwise: Duration, clock: &Clock) -> Instant {
    let left = held.expires_ms.map(|expires| u64::try_from(expires - clock.now_ms()).unwrap_or(0));
    Instant::now() + left.map_or(otherwise, Duration::from_millis)
}

/// The error for the caller when a held call expires: after how long, by its own expiry.
fn timed_out(held: &HeldCall) -> DecisionFault {
    let allowed = held.expires_ms.unwrap_or(held.created_ms) - held.created_ms;
    DecisionFault::TimedOut(u64::try_from(allowed / 1000).unwrap_or(0))
}

fn waiting_progress(waited: u64, held: &HeldCall) -> RawJson {
    let mut params = ObjectWriter::default();
    params.raw("progress", &RawJson::trusted(waited.to_string()));
    params.text("message", &format!("waiting for approval of {} ({})", held.exposed, held.id));
    params.finish()
}

/// The error for the caller when a person rejects the call.
pub(super) fn rejection(held: &HeldCall) -> DecisionFault {
    if let Some(reason) = held.withdrawn() {
        return DecisionFault::Rejected(format!("withdrawn: {reason}"));
    }
    let by = held.decided_by.as_deref().unwrap_or("an approver");
    DecisionFault::Rejected(match held.decision_note.as_deref().filter(|note| !note.is_empty()) {
        Some(reason) => format!("rejected by {by}: {reason}"),
        None => format!("rejected by {by}"),
    })
}
