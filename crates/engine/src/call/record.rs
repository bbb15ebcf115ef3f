//! Stage 10, record: collects what is known about one call. `record/close.rs` records its outcome. A call that may
//! change something leaves a record even if its client disconnects or the gateway is killed.

mod close;
mod end;

use super::dispatch_failure::DispatchFailure;
use super::options::{CallIds, DispatchOptions, QuestionHandling};
use super::pipeline::CallPipeline;
use super::summary::AttemptLog;
use crate::approvals::ApprovedCall;
use crate::dead_letters::FailedCall;
use crate::files::FileGrant;
use crate::skills::RunLabel;
use crate::terms::AuditScope;
use crate::trace::CallSpan;
use std::sync::Arc;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::{
    Approval, CallStage, Draft, IncomingCall, Sealed, ServesPlanStep, StageTimes, Warning, fingerprint,
};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::effects::Basis;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldOrigin};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::redact;
use toolbooth_store::Intent;
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use uuid::Uuid;

/// The maximum number of approvals of one call: one for each kind of question about the called tool and the tool
/// behind it. Prevents an endless loop.
const MAX_APPROVALS: usize = 6;

/// Whether and how durably the intent to make a call was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum IntentWrite {
    /// Not written: the tool only reads, or the call was not sent.
    #[default]
    NotWritten,
    /// In the spool, which survives `kill -9`: it is unknown whether the tool changes anything.
    Spooled,
    /// Synced to disk: the tool changes something.
    Synced,
}

/// The record of one call in progress.
pub(crate) struct CallRecord {
    pipeline: Arc<CallPipeline>,
    id: Uuid,
    started: Instant,
    stages: StageTimes,
    user: Arc<str>,
    /// The tool, once the caller is known to be permitted to use it.
    tool: Option<Arc<Tool>>,
    entry: Option<Box<AuditEntry>>,
    audit_scope: AuditScope,
    /// An intent that was written must be followed by an outcome.
    intent: IntentWrite,
    /// The number of approvals that were taken.
    approvals: usize,
    /// The approval of the called tool for this pass through the stages.
    approval: Option<Approval>,
    /// Approvals for tools behind the called one.
    inner_approvals: Vec<Approval>,
    held_calls: Vec<HeldCall>,
    warnings: Vec<Warning>,
    /// Files that the server may fetch while the call runs.
    file_grant: Option<FileGrant>,
    /// The original call, if this one replays a dead letter.
    first_call: Option<Uuid>,
    /// The step of a run that the call is, or what the held call belonged to that it runs.
    origin: Option<HeldOrigin>,
    /// The tool, caller and time of the call, once it was sent.
    sent: Option<SentCall>,
    /// The content of the dead letter, once the call has failed.
    failed_call: Option<Box<FailedCall>>,
    /// The failed attempts.
    attempts: AttemptLog,
    /// The dead letter that the call became.
    letter: Option<Uuid>,
    /// The trace span of the call, if calls are traced.
    span: Option<Box<CallSpan>>,
    closed: bool,
}

/// What is known of a call when it begins. The session comes first: the store finds the rows of a session by the
/// beginning of their detail.
fn first_detail(session: Option<&str>, span: Option<&CallSpan>) -> Option<RawJson> {
    if session.is_none() && span.is_none() {
        return None;
    }
    let mut detail = ObjectWriter::default();
    if let Some(session) = session {
        detail.text("session", session);
    }
    if let Some(span) = span {
        detail.text("trace", &span.trace_id());
    }
    Some(detail.finish())
}

/// A new detail with what was known when the call began.
fn begun_again(before: Option<&RawJson>) -> ObjectWriter {
    let mut detail = ObjectWriter::default();
    for key in ["session", "trace"] {
        if let Some(value) = before.and_then(|before| before.member(key)) {
            detail.raw(key, &value);
        }
    }
    detail
}

impl CallRecord {
    /// Opens the record of a call, with the given id or a new one.
    pub(crate) fn open(pipeline: &Arc<CallPipeline>, id: Option<Uuid>, incoming: &mut IncomingCall) -> Self {
        let id = id.unwrap_or_else(Uuid::now_v7);
        let span = pipeline.tracing.begin(incoming);
        let audit_scope = pipeline.terms.load().audit_scope;
        let entry = (audit_scope != AuditScope::None).then(|| {
            Box::new(AuditEntry {
                call_id: Some(id),
                user: incoming.caller.user.clone(),
                persona: incoming.caller.persona_name().map(Into::into),
                client: incoming.client.info.is_some().then(|| incoming.client.name().into()),
                tool: Some(incoming.name.as_str().into()),
                detail: first_detail(incoming.caller.session.as_deref(), span.as_deref()),
                ..pipeline.blank_entry.clone()
            })
        });
        Self {
            pipeline: pipeline.clone(),
            id,
            started: Instant::now(),
            stages: StageTimes::default(),
            user: incoming.caller.user.clone(),
            tool: None,
            entry,
            audit_scope,
            intent: IntentWrite::NotWritten,
            approvals: 0,
            approval: None,
            inner_approvals: Vec::new(),
            held_calls: Vec::new(),
            warnings: Vec::new(),
            file_grant: None,
            first_call: None,
            origin: None,
            sent: None,
            failed_call: None,
            attempts: AttemptLog::default(),
            letter: None,
            span,
            closed: false,
        }
    }

    /// Opens the record of a call that was approved earlier, and returns the call to make.
    pub(crate) fn of_approved(
        pipeline: &Arc<CallPipeline>,
        mut approved: ApprovedCall,
    ) -> Result<(Self, IncomingCall), Problem> {
        let mut record = Self::open(pipeline, None, &mut approved.incoming);
        record.origin = approved.held.origin.clone();
        let incoming = record.take_approval(approved)?;
        Ok((record, incoming))
    }

    /// The call's id.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Notes that the call enters a stage.
    pub(crate) fn enter(&mut self, stage: CallStage) {
        self.stages.enter(stage, self.started.elapsed());
    }

    /// Looks up the files named in the arguments, if the tool takes files.
    pub(crate) async fn grant_files(&mut self, draft: &Draft) {
        if draft.tool.injected.as_ref().is_some_and(|injected| !injected.files.is_empty()) {
            self.file_grant = Box::pin(self.pipeline.files.grant(draft, self.id)).await;
        }
    }

    /// Returns the files that the call was granted.
    pub(crate) fn file_grant(&self) -> Option<&FileGrant> {
        self.file_grant.as_ref()
    }

    /// Returns the approval for this pass through the stages; each approval is valid for one call.
    pub(crate) fn approval(&self) -> Option<Approval> {
        self.approval.clone()
    }

    /// Takes a person's approval and returns the call, which passes all stages again.
    pub(crate) fn take_approval(&mut self, approved: ApprovedCall) -> Result<IncomingCall, Problem> {
        let ApprovedCall { incoming, held, approval } = approved;
        self.add_approval(held, &incoming.name)?;
        self.approval = Some(approval);
        Ok(incoming)
    }

    /// Takes an approval for a tool behind the called one, and returns the caller with their current rights.
    pub(crate) fn take_inner_approval(&mut self, approved: ApprovedCall) -> Result<Arc<Caller>, Problem> {
        let ApprovedCall { incoming, held, approval } = approved;
        self.add_approval(held, &incoming.name)?;
        self.inner_approvals.push(approval);
        Ok(incoming.caller)
    }

    /// Returns the options for dispatching the call, with the approvals that were given.
    pub(crate) fn dispatch_options(
        &self,
        round: Round,
        progress: ProgressMode,
        questions: QuestionHandling,
        reading: ResultReading,
    ) -> DispatchOptions {
        let planned = match self.approval.as_ref().is_some_and(Approval::is_of_plan) {
            true => ServesPlanStep::Yes,
            false => ServesPlanStep::No,
        };
        let (approval, inner_approvals) = (self.approval.clone(), self.inner_approvals.clone());
        DispatchOptions {
            ids: self.ids(),
            round,
            progress,
            questions,
            reading,
            approval,
            inner_approvals,
            planned,
            timeout: None,
            approval_wait: None,
            attempts: self.attempts.clone(),
        }
    }

    fn add_approval(&mut self, held: HeldCall, name: &str) -> Result<(), Problem> {
        self.approvals += 1;
        if let Some(edited) = &held.edited {
            let shown: String = edited.as_str().chars().take(512).collect();
            self.warnings.push(Warning::Edited(shown));
        }
        self.held_calls.push(held);
        if self.approvals > MAX_APPROVALS {
            return Err(Problem {
                code: "call.asked-too-often",
                blame: Blame::Gateway,
                message: format!("`{name}` needed more than {MAX_APPROVALS} approvals"),
                hint: None,
            });
        }
        Ok(())
    }

    /// Whether a person approved this call.
    pub(crate) fn is_approved(&self) -> bool {
        self.approvals > 0
    }

    /// Warnings for the caller about how the call was run.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Adds what is known once the arguments are checked.
    pub(crate) fn note_draft(&mut self, draft: &Draft) {
        if self.audit_scope == AuditScope::Writes && !draft.tool.effect().rung.writes() {
            self.entry = None;
        }
        if self.tool.is_none() {
            self.tool = Some(draft.tool.clone());
        }
        if let Some(entry) = &mut self.entry {
            entry.server = Some(draft.tool.server.name.shared());
            entry.tool = Some(draft.tool.name.clone());
            entry.arguments_sha256 = Some(fingerprint(&draft.arguments));
            let secrets = &self.pipeline.terms.load().secrets;
            entry.arguments_preview = Some(redact::preview_without(&draft.arguments, secrets).into());
        }
    }

    /// Records that the call is about to be sent. If the tool may change something, its intent is written first:
    /// synced to disk if it is known to write, to the spool if its effect is unknown. If the intent cannot be
    /// written, the call is not sent.
    pub(crate) async fn note_intent(&mut self, sealed: &Sealed) -> Result<(), Problem> {
        // The call passes the stages again after the approval of an inner tool: its intent is already written.
        if self.sent.is_some() {
            return Ok(());
        }
        let tool = sealed.tool();
        self.pipeline.events.emit_with(|| self.event(EventKind::ToolCall, tool));
        self.pipeline.catalog.pin_first_use(tool);
        let (tool_called, caller) = (tool.clone(), sealed.caller().clone());
        self.sent = Some(SentCall { tool: tool_called, caller, at: Instant::now() });
        let effect = tool.effect();
        if !effect.rung.writes() {
            return Ok(());
        }
        let intent = Intent {
            call_id: self.id,
            at_ms: self.pipeline.clock.now_ms(),
            user: sealed.caller().user.to_string(),
            server: tool.server.name.clone(),
            tool: tool.name.to_string(),
            arguments_sha256: fingerprint(sealed.public_arguments()),
            side_effect: effect.rung.as_str().to_owned(),
        };
        // Set before the commit: if the client disconnects during it, dropping the record closes the intent.
        self.intent = match effect.basis {
            Basis::Unknown => IntentWrite::Spooled,
            Basis::Label | Basis::Annotation | Basis::Name => IntentWrite::Synced,
        };
        let store = &self.pipeline.store;
        let written = match self.intent {
            IntentWrite::Synced => Box::pin(store.write_intent(intent)).await,
            IntentWrite::Spooled | IntentWrite::NotWritten => store.note_intent(intent).await,
        };
        // A call that may write is not made without its intent.
        written.map_err(|error| {
            self.intent = IntentWrite::NotWritten;
            // The call was not sent, so it must not count for the health of the tool.
            self.sent = None;
            Problem::of(&error)
        })
    }

    /// What a held call of this call belongs to.
    pub(crate) fn origin(&self) -> HeldOrigin {
        self.origin.clone().unwrap_or(HeldOrigin { call: self.id, step: None })
    }

    /// Notes the job or skill, its run, and the step that the call is.
    pub(crate) fn note_run(&mut self, label: &RunLabel, step: &str) {
        self.origin = Some(HeldOrigin { call: label.run, step: Some(format!("{}/{step}", label.part)) });
        if let Some(entry) = &mut self.entry {
            let mut detail = begun_again(entry.detail.as_ref());
            detail.text(label.kind, &label.name).text("run", &label.run.to_string()).text("step", step);
            entry.detail = Some(detail.finish());
        }
    }

    /// Records that this call replays a dead letter, and who requested the replay; `None` for an automatic one.
    pub(crate) fn note_replay(&mut self, letter: Uuid, first_call: Uuid, by: Option<&str>) {
        self.first_call = Some(first_call);
        if let Some(entry) = &mut self.entry {
            let mut detail = begun_again(entry.detail.as_ref());
            detail.text("dead_letter", &letter.to_string()).text("first_call", &first_call.to_string());
            entry.by = by.map(Into::into);
            entry.detail = Some(detail.finish());
        }
    }

    /// Returns the ids of the call.
    pub(crate) fn ids(&self) -> CallIds {
        CallIds { call: self.id, key: self.first_call.unwrap_or(self.id) }
    }

    /// Records that an accepted call failed, and returns the problem for its caller.
    pub(crate) fn note_failure(&mut self, sealed: &Sealed, failure: DispatchFailure) -> Problem {
        self.attempts.add(&failure.attempts);
        let (failed_call, problem) = failure.into_failed(sealed);
        self.failed_call = failed_call;
        problem
    }

    /// Takes the content of the dead letter, so that `close` does not write one.
    pub(crate) fn take_failed_call(&mut self) -> Option<Box<FailedCall>> {
        self.failed_call.take()
    }

    fn event(&self, kind: EventKind, tool: &Tool) -> Event {
        let event = Event::new(kind).user(self.user.clone()).call(self.id);
        event.server(&tool.server.name).tool(tool.name.clone())
    }
}

/// A call that was sent to a server.
struct SentCall {
    tool: Arc<Tool>,
    caller: Arc<Caller>,
    at: Instant,
}
