//! Held calls: calls that wait for a person's decision. Each is stored before it is announced, decided once and run
//! once.

use crate::acts::Act;
use crate::answer::Answer;
use crate::approval_form;
use crate::clock::now_ms;
use crate::engine::Engine;
use crate::rights::CannotRun;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::call::{Approval, CallFault, Draft, HeldDraft, IncomingCall, check_edit, fingerprint};
use toolbooth_core::caller::{Caller, ClientFacts, ForwardedHeaders};
use toolbooth_core::consent::Consent;
use toolbooth_core::effects::Rung;
use toolbooth_core::fault::{Blame, Fault, Problem};
use toolbooth_core::held::{
    Answerer, Decision, HeldCall, HeldFault, HeldKind, HeldState, HeldVerdict, IsApprover, Remember,
};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_store::{
    Contest, HELD, HELD_OF_USER, HeldFilter, MAX_HELD_PAGE, MAX_OPEN_HELD, MAX_OPEN_HELD_OF_USER, SameCall,
    StoreError,
};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;
use uuid::Uuid;

/// How often a client that wants progress is notified that its call still waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The outcome of asking a person.
pub(crate) enum ApprovalOutcome {
    /// Approved: the call, which passes all stages again with the approval.
    Run(Box<ApprovedCall>),
    /// Not decided yet: the call stays held.
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

/// A claimed call on its way to the request that waits for it. If that request is gone, dropping the claim runs the
/// call: a claim cannot be released, and no other task may run the call.
struct HeldClaim {
    engine: Arc<Engine>,
    approved: Option<Box<ApprovedCall>>,
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
        let (engine, id) = (self.engine.clone(), approved.held.id);
        runtime.spawn(async move {
            if let Err(problem) = engine.run_abandoned(*approved).await {
                tracing::warn!(held = %id, "an approved call whose client disconnected failed: {}", problem.message);
            }
        });
    }
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

impl Engine {
    /// Holds a call until a person decides, or until its client can wait no longer.
    pub(crate) async fn ask_person(
        self: &Arc<Self>,
        waiting: HeldDraft,
        progress: ProgressMode,
        approval_wait: Option<Duration>,
        link: &CallLink,
    ) -> Result<ApprovalOutcome, Problem> {
        let held = self.hold(&waiting).await?;
        let mut decision = self.waiting_room().wait_for(held.id);
        // The call may have been decided before this task began to wait.
        let held = self.store().held(held.id).await.map_err(|error| Problem::of(&error))?.unwrap_or(held);
        if held.state != HeldState::Pending {
            return self.continue_decided(waiting, held).await;
        }
        let (expires, wait) = (self.terms().expires, self.terms().wait);
        let caller = waiting.draft().caller.clone();
        let may_answer = self.may_answer(&caller, &held);
        // The caller is asked only if they may approve. A caller may always reject their own call, over another door.
        let mut asking = may_answer && waiting.draft().client.can("elicitation");
        let expiry = expiry_of(&held, expires);
        let wait_end = Instant::now() + approval_wait.unwrap_or(wait);
        let mut tick = interval(PROGRESS_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ask = link.ask("elicitation/create", Some(approval_form::form(&held, &waiting)));
        tokio::pin!(ask);
        let mut waited = 0u64;
        loop {
            let until =
                if asking || progress == ProgressMode::Wanted { expiry } else { expiry.min(wait_end) };
            tokio::select! {
                biased;
                decided = decision.decided() => return self.continue_decided(waiting, decided).await,
                reply = &mut ask, if asking => match approval_form::read(reply) {
                    Some((verdict, note)) => {
                        let verdict = approval_form::without_memory(verdict, held.answerer);
                        match self.decide_in_task(caller.clone(), held.id, verdict, note).await {
                            Ok(decided) => return self.continue_decided(waiting, decided).await,
                            Err(problem) => {
                                let now = self.store().held(held.id).await;
                                match now.map_err(|error| Problem::of(&error))? {
                                    // Another decision came first.
                                    Some(now) if now.state != HeldState::Pending => return self.continue_decided(waiting, now).await,
                                    _ => return Err(problem),
                                }
                            }
                        }
                    }
                    None => asking = false, // The question was dismissed without a decision.
                },
                _ = tick.tick(), if progress == ProgressMode::Wanted => {
                    link.progress(waiting_progress(waited, &held));
                    waited += 1;
                }
                () = sleep_until(until) => {
                    if until < expiry {
                        return Ok(ApprovalOutcome::Held(Box::new(held)));
                    }
                    self.sweep_held().await;
                    return Err(Problem::of(&timed_out(&held)));
                }
            }
        }
    }

    /// Finds the open held call for the same call, or stores a new one.
    async fn hold(&self, waiting: &HeldDraft) -> Result<HeldCall, Problem> {
        let draft = waiting.draft();
        let held = self.held_of(draft, HeldKind::Approval, &waiting.reason, waiting.answerer);
        let filter = HeldFilter {
            user: Some(held.user.clone()),
            kind: Some(HeldKind::Approval),
            states: vec![HeldState::Pending, HeldState::Approved],
            call: Some(SameCall {
                server: held.server.clone(),
                tool: held.tool.clone(),
                arguments_sha256: held.arguments_sha256,
            }),
            limit: Some(8),
            ..HeldFilter::default()
        };
        let earlier = self.store().held_calls(filter).await.map_err(|error| Problem::of(&error))?;
        let now = now_ms();
        let fits = |other: &HeldCall| {
            other.digest == held.digest
                && other.answerer == held.answerer
                && other.persona == held.persona
                && other.level == held.level
                // It runs with the rights of the credential that the call was made with.
                && other.identified_by == held.identified_by
                // A decision remembered for a session belongs to the session of the caller who asked.
                && other.session == held.session
                && other.claimed_ms.is_none()
                && !other.is_overdue(now)
        };
        if let Some(earlier) = earlier.into_iter().find(fits) {
            return Ok(earlier);
        }
        self.store().hold(held.clone()).await.map_err(|error| not_held(&error))?;
        tracing::info!(held = %held.id, user = %held.user, tool = %held.exposed, "a call is held: {}", held.question);
        self.emit_held(&held);
        Ok(held)
    }

    /// Builds the held call of a draft.
    pub(crate) fn held_of(
        &self,
        draft: &Draft,
        kind: HeldKind,
        question: &str,
        answerer: Answerer,
    ) -> HeldCall {
        let now = now_ms();
        let expires = i64::try_from(self.terms().expires.as_millis()).unwrap_or(i64::MAX);
        HeldCall {
            id: Uuid::now_v7(),
            kind,
            user: draft.caller.user.to_string(),
            persona: draft.caller.persona_name().map(str::to_owned),
            session: draft.caller.session.as_deref().map(str::to_owned),
            level: draft.caller.compliance_level.as_ref().map(|level| level.name.to_string()),
            identified_by: Some(draft.caller.identified_by.clone()),
            client: draft.client.name(),
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

    /// Continues with a call that was decided.
    async fn continue_decided(
        self: &Arc<Self>,
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
            HeldState::Done | HeldState::Failed => return Err(already_run(&held)),
        }
        let mut incoming = waiting.again();
        incoming.caller = match self.caller_of(&held).await {
            // The request still waits, so the headers that came with it are still available.
            Ok(caller) => {
                let forwarded = incoming.caller.forwarded.clone();
                Arc::new(Caller { forwarded, ..Caller::clone(&caller) })
            }
            Err(CannotRun::Never(problem)) => {
                // In its own task, so that a client that disconnects meanwhile leaves no open held call.
                let (engine, reason) = (self.clone(), problem.clone());
                let _ = tokio::spawn(async move { engine.give_up(&held, &reason).await }).await;
                return Err(problem);
            }
            Err(CannotRun::Later(problem)) => {
                self.deferred.note(held.id, &problem);
                return Ok(ApprovalOutcome::Held(Box::new(held)));
            }
        };
        self.claim(held, incoming).await.map(|approved| ApprovalOutcome::Run(Box::new(approved)))
    }

    /// Claims an approved call, so that only this task runs it. If the future is dropped, the gateway runs the call.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        held: HeldCall,
        incoming: IncomingCall,
    ) -> Result<ApprovedCall, Problem> {
        let (sender, receiver) = oneshot::channel::<Result<HeldClaim, Problem>>();
        let engine = self.clone();
        // In its own task, so that the commit completes even if the client disconnects meanwhile.
        tokio::spawn(async move {
            let claimed = engine.claim_now(held, incoming).await;
            let claim = claimed.map(|approved| HeldClaim { engine, approved: Some(Box::new(approved)) });
            // If the receiver is gone, the claim is dropped here and runs the call.
            let _ = sender.send(claim);
        });
        let closed = || Problem::of(&StoreError::Closed);
        let claim = receiver.await.map_err(|_| closed())??;
        claim.take().map(|approved| *approved).ok_or_else(closed)
    }

    async fn claim_now(&self, held: HeldCall, mut incoming: IncomingCall) -> Result<ApprovedCall, Problem> {
        let claimed =
            self.store().claim_held(held.id, now_ms()).await.map_err(|error| Problem::of(&error))?;
        let held = match claimed {
            Contest::Won(held) => held,
            Contest::Lost(held) => return Err(already_run(&held)),
            Contest::Missing => return Err(Problem::of(&DecisionFault::Unknown(held.id))),
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
            name: self.stable_name_of(&approved.held.server, &approved.held.tool),
            arguments: approved.incoming.arguments,
            meta: Vec::new(),
        };
        self.run_claimed(approved).await
    }

    /// Whether a caller may approve a held call.
    pub fn may_answer(&self, caller: &Caller, held: &HeldCall) -> bool {
        let is_approver = if self.terms().is_approver(caller) { IsApprover::Yes } else { IsApprover::No };
        held.may_be_approved_by(caller, is_approver)
    }

    /// Whether a caller may see a held call.
    pub fn may_see(&self, caller: &Caller, held: &HeldCall) -> bool {
        held.user == *caller.user || self.terms().is_approver(caller)
    }

    /// A held call, with its result. One that the caller may not see is reported as unknown.
    pub async fn held_call(&self, caller: &Caller, id: Uuid) -> Result<HeldCall, Problem> {
        let held = self.store().held(id).await.map_err(|error| Problem::of(&error))?;
        held.filter(|held| self.may_see(caller, held)).ok_or_else(|| Problem::of(&DecisionFault::Unknown(id)))
    }

    /// The held calls that a caller may see, newest first.
    pub async fn held_calls(
        &self,
        caller: &Caller,
        mut filter: HeldFilter,
    ) -> Result<Vec<HeldCall>, Problem> {
        self.sweep_held().await;
        if !self.terms().is_approver(caller) {
            filter.user = Some(caller.user.to_string());
        }
        self.store().held_calls(filter).await.map_err(|error| Problem::of(&error))
    }

    /// The number of calls that wait for a decision, up to the page size.
    pub async fn waiting_calls(&self) -> usize {
        let filter = HeldFilter {
            states: vec![HeldState::Pending],
            limit: Some(MAX_HELD_PAGE),
            ..HeldFilter::default()
        };
        self.store().held_calls(filter).await.map(|held| held.len()).unwrap_or_default()
    }

    /// Decides a held call. The first decision wins; an approved call runs once.
    pub async fn decide(
        self: &Arc<Self>,
        by: &Caller,
        id: Uuid,
        verdict: HeldVerdict,
        note: Option<String>,
    ) -> Result<HeldCall, Problem> {
        let found = self.store().held(id).await.map_err(|error| Problem::of(&error))?;
        let Some(held) = found else { return Err(Problem::of(&DecisionFault::Unknown(id))) };
        let attempt = || format!("answer to held call {id} of {}", held.user);
        if !self.may_see(by, &held) {
            self.record_denied(by, "approval.unknown", &attempt());
            return Err(Problem::of(&DecisionFault::Unknown(id)));
        }
        // Callers may always reject their own calls; an approval may need another person.
        if matches!(verdict, HeldVerdict::Approve { .. }) && !self.may_answer(by, &held) {
            self.record_denied(by, "approval.not-yours", &attempt());
            return Err(Problem::of(&DecisionFault::NotYours(id)));
        }
        self.check_verdict(&held, &verdict)?;
        let note = note.map(|note| note.chars().take(1000).collect());
        let decision = Decision { verdict, by: by.user.to_string(), at_ms: now_ms(), note };
        let audit = decision_entry(&held, &decision);
        let decided = self
            .store()
            .decide_held(id, decision.clone(), audit)
            .await
            .map_err(|error| Problem::of(&error))?;
        match decided {
            Contest::Won(held) => {
                self.emit_decided(&held);
                self.follow_decision(&held, by).await;
                Ok(held)
            }
            Contest::Lost(held) => Err(match held.decide(&decision) {
                Err(fault) => Problem::of(&fault),
                Ok(_) => Problem::of(&HeldFault::Expired { id }),
            }),
            Contest::Missing => Err(Problem::of(&DecisionFault::Unknown(id))),
        }
    }

    /// Decides a held call in its own task: if the client disconnects during the commit, an approved call still runs.
    async fn decide_in_task(
        self: &Arc<Self>,
        by: Arc<Caller>,
        id: Uuid,
        verdict: HeldVerdict,
        note: Option<String>,
    ) -> Result<HeldCall, Problem> {
        let engine = self.clone();
        let deciding = tokio::spawn(async move { engine.decide(&by, id, verdict, note).await });
        deciding.await.unwrap_or_else(|_| Err(Problem::of(&StoreError::Closed)))
    }

    /// Checks that edited arguments are ones that the caller could have sent.
    fn check_verdict(&self, held: &HeldCall, verdict: &HeldVerdict) -> Result<(), Problem> {
        let HeldVerdict::Approve { arguments, remember } = verdict else { return Ok(()) };
        let is_lasting = matches!(remember, Some(Remember::Session | Remember::Always));
        if is_lasting && held.answerer != Answerer::CallerOrApprover {
            return Err(Problem::of(&HeldFault::NotRemembered { id: held.id }));
        }
        let Some(arguments) = arguments else { return Ok(()) };
        match self.tool_of(held) {
            Some(tool) => check_edit(&tool, arguments).map_err(|fault| Problem::of(&fault)),
            None => Err(Problem::of(&CallFault::UnknownTool { name: held.exposed.clone() })),
        }
    }

    /// The side effect of a held call's tool; `None` while the tool is not in the catalog.
    pub fn rung_of(&self, held: &HeldCall) -> Option<Rung> {
        self.tool_of(held).map(|tool| tool.effect().rung)
    }

    /// Carries out a decision: remembers it, and runs the call.
    async fn follow_decision(self: &Arc<Self>, held: &HeldCall, by: &Caller) {
        if held.state == HeldState::Approved {
            self.remember_approval(held, by).await;
        }
        let has_waiter = self.waiting_room().notify(held);
        // A step of a plan runs in the order of the plan.
        if held.state != HeldState::Approved || held.kind != HeldKind::Approval {
            return;
        }
        if has_waiter {
            // The waiting request claims the call at once, unless its client disconnects at this moment.
            self.run_unless_taken(held.id);
        } else {
            self.run_later(held.clone());
        }
    }

    async fn remember_approval(&self, held: &HeldCall, by: &Caller) {
        let tool = self.tool_of(held).filter(|tool| *tool.digest() == held.digest);
        if let Some(tool) = &tool {
            self.decisions().accept(tool);
            let pins = vec![crate::decision_cache::pin(tool, &by.user)];
            if let Err(error) = self.store().save_pins(pins).await {
                tracing::error!("the pin of an approved tool could not be saved: {error}");
            }
        }
        let session = match held.remember {
            None | Some(Remember::Once) => return,
            Some(Remember::Session) if held.session.is_none() => return,
            Some(Remember::Session) => held.session.clone(),
            Some(Remember::Always) => None,
        };
        let consent = Consent {
            id: Uuid::now_v7(),
            user: held.user.clone(),
            server: held.server.clone(),
            tool: held.tool.clone(),
            digest: held.digest,
            session,
            granted_by: by.user.to_string(),
            created_ms: now_ms(),
            expires_ms: None,
        };
        match self.store().grant_consent(consent.clone()).await {
            Ok(()) => {
                let act = Act {
                    user: Some(&held.user),
                    server: Some(&held.server),
                    ..Act::new(AuditKind::Consent, &by.user, "remembered")
                };
                let scope = if consent.session.is_some() { "session" } else { "always" };
                let details = [("tool", held.tool.as_str()), ("remember", scope)];
                if let Err(problem) = self.audit_act(act.with(&details)).await {
                    tracing::error!("a consent could not be written to the audit: {}", problem.message);
                }
                self.decisions().grant(consent);
            }
            Err(error) => tracing::error!("a consent could not be saved: {error}"),
        }
    }

    /// Expires held calls that were not decided in time.
    pub async fn sweep_held(&self) {
        match self.store().expire_held(now_ms()).await {
            Ok(expired) => {
                for held in &expired {
                    self.emit_decided(held);
                    self.waiting_room().notify(held);
                }
            }
            Err(error) => tracing::error!("held calls could not be expired: {error}"),
        }
    }
}

/// Why a call cannot be held: the limit of this user or of all callers is reached.
pub(crate) fn not_held(error: &StoreError) -> Problem {
    match error {
        StoreError::Full { what: HELD_OF_USER } => {
            Problem::of(&HeldFault::Full { limit: MAX_OPEN_HELD_OF_USER, whose: "of yours" })
        }
        StoreError::Full { what: HELD } => {
            Problem::of(&HeldFault::Full { limit: MAX_OPEN_HELD, whose: "of all callers" })
        }
        error => Problem::of(error),
    }
}

/// When a held call expires.
fn expiry_of(held: &HeldCall, otherwise: Duration) -> Instant {
    let left = held.expires_ms.map(|expires| u64::try_from(expires - now_ms()).unwrap_or(0));
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
pub(crate) fn rejection(held: &HeldCall) -> DecisionFault {
    let by = held.decided_by.as_deref().unwrap_or("an approver");
    DecisionFault::Rejected(match held.decision_note.as_deref().filter(|note| !note.is_empty()) {
        Some(reason) => format!("rejected by {by}: {reason}"),
        None => format!("rejected by {by}"),
    })
}

fn already_run(held: &HeldCall) -> Problem {
    Problem::of(&HeldFault::Claimed { id: held.id })
}

fn decision_entry(held: &HeldCall, decision: &Decision) -> AuditEntry {
    let outcome = match decision.verdict {
        HeldVerdict::Approve { .. } => "approved",
        HeldVerdict::Reject => "rejected",
    };
    let mut detail = ObjectWriter::default();
    detail.text("question", &held.question);
    if let HeldVerdict::Approve { arguments, remember } = &decision.verdict {
        if arguments.is_some() {
            detail.raw("edited", &RawJson::trusted("true"));
        }
        if let Some(remember) = remember {
            detail.text("remember", remember.as_str());
        }
    }
    if let Some(note) = &decision.note {
        detail.text("note", note);
    }
    AuditEntry {
        by: Some(decision.by.as_str().into()),
        outcome: outcome.into(),
        detail: Some(detail.finish()),
        ..held.audit_entry(decision.at_ms)
    }
}
