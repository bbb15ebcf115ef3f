//! Decisions on held calls, from any front end. The first decision wins.

use super::{Approvals, DecisionFault};
use crate::audit::Act;
use crate::decision_cache::pin;
use std::sync::Arc;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::call::{CallFault, check_edit};
use toolbooth_core::caller::Caller;
use toolbooth_core::consent::Consent;
use toolbooth_core::effects::Rung;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::{
    Answerer, Decision, HeldCall, HeldFault, HeldKind, HeldState, HeldVerdict, IsApprover, Remember,
};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_store::{HeldFilter, HeldUpdate, MAX_HELD_PAGE, StoreError};
use uuid::Uuid;

impl Approvals {
    /// Whether a caller may approve a held call.
    pub fn may_answer(&self, caller: &Caller, held: &HeldCall) -> bool {
        let is_approver =
            if self.terms.load().is_approver(caller) { IsApprover::Yes } else { IsApprover::No };
        held.may_be_approved_by(caller, is_approver)
    }

    /// Whether a caller may see a held call.
    pub fn may_see(&self, caller: &Caller, held: &HeldCall) -> bool {
        held.user == *caller.user || self.terms.load().is_approver(caller)
    }

    /// A held call, with its result. One that the caller may not see is reported as unknown.
    pub async fn get(&self, caller: &Caller, id: Uuid) -> Result<HeldCall, Problem> {
        let held = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
        held.filter(|held| self.may_see(caller, held)).ok_or_else(|| Problem::of(&DecisionFault::Unknown(id)))
    }

    /// The held calls that a caller may see, newest first.
    pub async fn list(&self, caller: &Caller, mut filter: HeldFilter) -> Result<Vec<HeldCall>, Problem> {
        self.sweep().await;
        if !self.terms.load().is_approver(caller) {
            filter.user = Some(caller.user.to_string());
        }
        self.store.held_calls(filter).await.map_err(|error| Problem::of(&error))
    }

    /// The number of calls that wait for a decision, up to the page size.
    pub async fn pending_count(&self) -> usize {
        let filter = HeldFilter {
            states: vec![HeldState::Pending],
            limit: Some(MAX_HELD_PAGE),
            ..HeldFilter::default()
        };
        self.store.held_calls(filter).await.map(|held| held.len()).unwrap_or_default()
    }

    /// Decides a held call. The first decision wins; an approved call runs once.
    pub async fn decide(
        self: &Arc<Self>,
        by: &Caller,
        id: Uuid,
        verdict: HeldVerdict,
        note: Option<String>,
    ) -> Result<HeldCall, Problem> {
        let found = self.store.held(id).await.map_err(|error| Problem::of(&error))?;
        let Some(held) = found else { return Err(Problem::of(&DecisionFault::Unknown(id))) };
        let attempt = || format!("answer to held call {id} of {}", held.user);
        if !self.may_see(by, &held) {
            self.audit.record_denied(by, "approval.unknown", &attempt());
            return Err(Problem::of(&DecisionFault::Unknown(id)));
        }
        // Callers may always reject their own calls; an approval may need another person.
        if matches!(verdict, HeldVerdict::Approve { .. }) && !self.may_answer(by, &held) {
            self.audit.record_denied(by, "approval.not-yours", &attempt());
            return Err(Problem::of(&DecisionFault::NotYours(id)));
        }
        if matches!(verdict, HeldVerdict::Approve { .. }) {
            self.check_run_for_approval(&held).await?;
        }
        let verdict = self.checked_verdict(&held, verdict)?;
        let note = note.map(|note| note.chars().take(1000).collect());
        let decision = Decision { verdict, by: by.user.to_string(), at_ms: self.clock.now_ms(), note };
        let audit = decision_entry(&held, &decision);
        let decided =
            self.store.decide_held(id, decision.clone(), audit).await.map_err(|error| Problem::of(&error))?;
        match decided {
            HeldUpdate::Won(held) => {
                self.events.emit_decided(&held);
                self.follow_decision(&held, by).await;
                Ok(held)
            }
            HeldUpdate::Lost(held) => Err(match held.decide(&decision) {
                Err(fault) => Problem::of(&fault),
                Ok(_) => Problem::of(&HeldFault::Expired { id }),
            }),
            HeldUpdate::Missing => Err(Problem::of(&DecisionFault::Unknown(id))),
        }
    }

    /// Decides a held call in its own task: if the client disconnects during the commit, an approved call still runs.
    pub(super) async fn decide_in_task(
        self: &Arc<Self>,
        by: Arc<Caller>,
        id: Uuid,
        verdict: HeldVerdict,
        note: Option<String>,
    ) -> Result<HeldCall, Problem> {
        let approvals = self.clone();
        let deciding = tokio::spawn(async move { approvals.decide(&by, id, verdict, note).await });
        deciding.await.unwrap_or_else(|_| Err(Problem::of(&StoreError::Closed)))
    }

    /// The verdict, if edited arguments are ones that the caller could have sent. Arguments that the gateway supplies
    /// are left out: it supplies them again.
    fn checked_verdict(&self, held: &HeldCall, verdict: HeldVerdict) -> Result<HeldVerdict, Problem> {
        let HeldVerdict::Approve { arguments, remember } = &verdict else { return Ok(verdict) };
        let is_lasting = matches!(remember, Some(Remember::Session | Remember::Always));
        if is_lasting && held.answerer != Answerer::CallerOrApprover {
            return Err(Problem::of(&HeldFault::NotRemembered { id: held.id }));
        }
        let Some(arguments) = arguments else { return Ok(verdict) };
        let Some(tool) = self.tool_of(held) else {
            return Err(Problem::of(&CallFault::UnknownTool { name: held.exposed.clone() }));
        };
        let public = check_edit(&tool, arguments).map_err(|fault| Problem::of(&fault))?;
        Ok(HeldVerdict::Approve { arguments: Some(public), remember: *remember })
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
        let has_waiter = self.decision_waiters.notify(held);
        if held.state == HeldState::Rejected {
            self.tell_end(held);
        }
        // A step of a plan runs in the order of the plan.
        if held.state != HeldState::Approved || held.kind != HeldKind::Approval {
            return;
        }
        if has_waiter || self.store.is_shared() {
            // The waiting request, here or on another gateway, claims the call at once, unless its client disconnects at
            // this moment.
            self.run_unless_taken(held.id);
        } else {
            self.run_later(held.clone());
        }
    }

    async fn remember_approval(&self, held: &HeldCall, by: &Caller) {
        let tool = self.tool_of(held).filter(|tool| *tool.digest() == held.digest);
        if let Some(tool) = &tool {
            self.decisions.accept(tool);
            let pins = vec![pin(tool, &by.user, self.clock.now_ms())];
            if let Err(error) = self.store.save_pins(pins).await {
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
            created_ms: self.clock.now_ms(),
            expires_ms: None,
        };
        match self.store.grant_consent(consent.clone()).await {
            Ok(()) => {
                let act = Act {
                    user: Some(&held.user),
                    server: Some(&held.server),
                    ..Act::new(AuditKind::Consent, &by.user, "remembered")
                };
                let scope = if consent.session.is_some() { "session" } else { "always" };
                let details = [("tool", held.tool.as_str()), ("remember", scope)];
                if let Err(problem) = self.audit.record_act(act.with(&details)).await {
                    tracing::error!("a consent could not be written to the audit: {}", problem.message);
                }
                self.decisions.grant(consent);
            }
            Err(error) => tracing::error!("a consent could not be saved: {error}"),
        }
    }

    /// Expires held calls that were not decided in time, and withdraws those that could not be withdrawn earlier.
    pub async fn sweep(&self) {
        self.withdraw_open().await;
        match self.store.expire_held(self.clock.now_ms()).await {
            Ok(expired) => {
                for held in &expired {
                    self.events.emit_decided(held);
                    self.decision_waiters.notify(held);
                    self.tell_end(held);
                }
            }
            Err(error) => tracing::error!("held calls could not be expired: {error}"),
        }
    }
}

pub(super) fn decision_entry(held: &HeldCall, decision: &Decision) -> AuditEntry {
    let outcome = match decision.verdict {
        HeldVerdict::Approve { .. } => "approved",
        HeldVerdict::Reject => "rejected",
        HeldVerdict::Withdraw => "withdrawn",
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
