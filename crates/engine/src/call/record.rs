//! Stage 10, record: collects what is known about one call, and records its outcome. A call that may change something
//! leaves a record even if its client disconnects or the gateway is killed.

use super::options::{CallIds, DispatchOptions, QuestionHandling};
use super::pipeline::CallPipeline;
use super::summary::{AnswerSummary, AttemptLog, CallPath};
use super::undelivered::Undelivered;
use super::unrecorded::Disclosure;
use crate::answer::Answer;
use crate::approvals::ApprovedCall;
use crate::call_metrics::MetricOutcome;
use crate::dead_letters::{FailedCall, PersonApproval};
use crate::files::FileGrant;
use crate::health::{CallSample, ending_of, with_provider_id};
use crate::routing::PROVIDER;
use crate::terms::AuditScope;
use crate::trace::CallSpan;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::{Approval, Draft, IncomingCall, Sealed, ServesPlanStep, Warning, fingerprint};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::effects::Basis;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldOutcome};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_core::redact;
use toolbooth_store::{CallOutcome, Intent};
use toolbooth_upstream::connection::{ProgressMode, Round};
use toolbooth_upstream::peer::ResultReading;
use uuid::Uuid;

/// The maximum number of approvals of one call: one for each kind of question about the called tool and the tool
/// behind it. Prevents an endless loop.
const MAX_APPROVALS: usize = 6;
/// The largest result that is stored with a held call.
const MAX_STORED_RESULT_BYTES: usize = 1 << 20;

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
                tool: Some(incoming.name.as_str().into()),
                detail: incoming.caller.session.as_deref().map(|session| {
                    let mut detail = ObjectWriter::default();
                    detail.text("session", session);
                    detail.finish()
                }),
                ..pipeline.blank_entry.clone()
            })
        });
        Self {
            pipeline: pipeline.clone(),
            id,
            started: Instant::now(),
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
        let incoming = record.take_approval(approved)?;
        Ok((record, incoming))
    }

    /// The call's id.
    pub(crate) fn id(&self) -> Uuid {
        self.id
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

    /// Records that this call replays a dead letter, and who requested the replay; `None` for an automatic one.
    pub(crate) fn note_replay(&mut self, letter: Uuid, first_call: Uuid, by: Option<&str>) {
        self.first_call = Some(first_call);
        if let Some(entry) = &mut self.entry {
            let mut detail = ObjectWriter::default();
            if let Some(session) = entry.detail.take().and_then(|detail| detail.member("session")) {
                detail.raw("session", &session);
            }
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
    pub(crate) fn note_failure(&mut self, sealed: &Sealed, undelivered: Undelivered) -> Problem {
        self.attempts.add(&undelivered.attempts);
        let (failed_call, problem) = undelivered.into_failed(sealed);
        self.failed_call = failed_call;
        problem
    }

    /// Takes the content of the dead letter, so that `close` does not write one.
    pub(crate) fn take_failed_call(&mut self) -> Option<Box<FailedCall>> {
        self.failed_call.take()
    }

    /// Records how the call ended. The dead letter of a failed call is on disk before the caller gets the error.
    pub(crate) async fn close(mut self, mut answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        if let (Err(problem), Some(failed_call)) = (&mut answer, self.failed_call.take()) {
            let approval = if self.approvals > 0 { PersonApproval::Given } else { PersonApproval::NotNeeded };
            let keeping = self.pipeline.dead_letters.keep(*failed_call, self.id, approval, problem);
            self.letter = Box::pin(keeping).await;
        }
        let disclosure = pin!(self.ended(&answer)).await;
        disclosure.apply(answer)
    }

    fn ended(mut self, answer: &Result<Answer, Problem>) -> impl Future<Output = Disclosure> + Send + use<> {
        self.closed = true;
        let now = Instant::now();
        let took = now.saturating_duration_since(self.started);
        self.pipeline.metrics.count(MetricOutcome::of(answer), took, self.tool.as_deref());
        self.note_health(answer, now);
        let end = CallEnd::of(answer);
        self.emit_end(&end, took);
        async move {
            if self.intent == IntentWrite::Synced || !self.held_calls.is_empty() {
                // In its own task, so that a client that disconnects during a commit leaves no open intent or held
                // call.
                let settling = tokio::spawn(async move { self.settle(end).await });
                return settling.await.unwrap_or_else(|error| {
                    tracing::error!("the outcome of a call could not be recorded: {error}");
                    Disclosure::Withheld
                });
            }
            // The common case: one row, which survives a kill at once and is on disk a moment later.
            let entry = self.finished_entry(&end);
            self.close_intent(entry).await
        }
    }

    /// The audit row of the ended call, with a summary of its answer.
    fn finished_entry(&mut self, end: &CallEnd) -> Option<AuditEntry> {
        let entry = self.entry.take()?;
        let path = CallPath {
            waited: self.sent.as_ref().map(|sent| sent.at.saturating_duration_since(self.started)),
            attempts: &self.attempts,
            held: self.held_calls.last().map(|held| held.id),
            letter: self.letter,
        };
        let detail = end.summary.detail(entry.detail.as_ref(), &path);
        Some(end.fill(
            AuditEntry { detail: Some(detail), ..*entry },
            self.pipeline.clock.wall_ms(),
            self.started,
        ))
    }

    fn note_health(&self, answer: &Result<Answer, Problem>, now: Instant) {
        let (Some(sent), Some((ending, error_code))) = (&self.sent, ending_of(answer.as_ref())) else {
            return;
        };
        let took = now.saturating_duration_since(sent.at);
        let (tool, persona) = (&*sent.tool, sent.caller.persona_name());
        let health = &self.pipeline.health;
        if tool.terms.providers.is_empty() {
            return with_provider_id(tool.server.name.as_str(), |provider| {
                health.record(&CallSample { tool, provider, persona, took, ending, error_code });
            });
        }
        // The attempt of each provider was recorded when it ended.
        let provider = &served_by(answer);
        health.record_tool(&CallSample { tool, provider, persona, took, ending, error_code });
    }

    /// Emits the event and ends the trace span of the call.
    fn emit_end(&mut self, end: &CallEnd, took: Duration) {
        // A tool that the caller may not use must look unknown in events, too: they contain only the requested name.
        let tool = self.tool.as_ref().filter(|_| end.code.as_deref() != Some("call.unknown-tool"));
        if let Some(span) = self.span.take() {
            span.end(self.id, tool, end.outcome, end.code.as_ref());
        }
        self.pipeline.events.emit_with(|| {
            let mut event = match tool {
                Some(tool) => self.event(EventKind::ToolResult, tool),
                None => self.with_requested_name(
                    Event::new(EventKind::ToolResult).user(self.user.clone()).call(self.id),
                ),
            };
            event.code = end.code.clone();
            event.took(took).outcome(end.outcome)
        });
    }

    fn event(&self, kind: EventKind, tool: &Tool) -> Event {
        let event = Event::new(kind).user(self.user.clone()).call(self.id);
        event.server(&tool.server.name).tool(tool.name.clone())
    }

    /// Adds the requested tool name to an event, if the tool is unknown and the name is at hand.
    fn with_requested_name(&self, event: Event) -> Event {
        match self.entry.as_ref().and_then(|entry| entry.tool.as_deref()) {
            Some(name) if self.tool.is_none() => event.asked_for(name),
            _ => event,
        }
    }

    async fn settle(&mut self, end: CallEnd) -> Disclosure {
        let pipeline = self.pipeline.clone();
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let at_ms = pipeline.clock.now_ms();
        let entry = self.finished_entry(&end);
        let disclosure = if self.intent == IntentWrite::Synced {
            let otherwise = self.if_unrecorded(entry.as_ref());
            self.intent = IntentWrite::NotWritten;
            // The row of a call that changed something is on disk, together with its outcome, before the caller gets
            // the answer.
            let error_code = end.code.as_deref().map(str::to_owned);
            let outcome = CallOutcome { call_id: self.id, at_ms, kind: end.kind, error_code, duration_ms };
            match pipeline.store.settle(outcome, entry).await {
                Ok(()) => Disclosure::Given,
                Err(error) => pipeline.report_unrecorded(self.id, &self.user, &error, otherwise),
            }
        } else {
            self.close_intent(entry).await
        };
        for held in std::mem::take(&mut self.held_calls) {
            let result =
                end.result.clone().filter(|result| result.as_bytes().len() <= MAX_STORED_RESULT_BYTES);
            // The call led to another question, which is a held call of its own.
            let code = if end.outcome == "held" { Some("call.held") } else { end.code.as_deref() };
            let code = code.map(str::to_owned);
            let outcome = HeldOutcome { at_ms, kind: end.kind, code, result };
            let trace = AuditEntry { outcome: end.kind.as_str().into(), ..held.audit_entry(at_ms) };
            if let Err(error) = pipeline.store.finish_held(held.id, outcome, trace).await {
                tracing::error!(held = %held.id, "the outcome of a held call could not be recorded: {error}");
            }
        }
        disclosure
    }

    /// What happens to the result if the row of the call cannot be written. Results of reads are always given.
    fn if_unrecorded(&self, entry: Option<&AuditEntry>) -> Disclosure {
        match (self.intent, entry) {
            (IntentWrite::Spooled | IntentWrite::Synced, Some(_)) => Disclosure::Withheld,
            _ => Disclosure::Given,
        }
    }

    /// Records the end of a call that is not known to have changed anything.
    async fn close_intent(&mut self, entry: Option<AuditEntry>) -> Disclosure {
        let otherwise = self.if_unrecorded(entry.as_ref());
        let store = &self.pipeline.store;
        let written = match (std::mem::take(&mut self.intent), entry) {
            (IntentWrite::Spooled, entry) => store.note_end(self.id, entry).await,
            (_, Some(entry)) => store.audit(entry).await,
            (_, None) => return Disclosure::Given,
        };
        match written {
            Ok(()) => Disclosure::Given,
            Err(error) => self.pipeline.report_unrecorded(self.id, &self.user, &error, otherwise),
        }
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        // The client disconnected or cancelled the call.
        self.closed = true;
        let took = self.started.elapsed();
        self.pipeline.metrics.count(MetricOutcome::Cancelled, took, self.tool.as_deref());
        let end = CallEnd {
            kind: OutcomeKind::Cancelled,
            code: None,
            result: None,
            outcome: "cancelled",
            summary: AnswerSummary::default(),
        };
        self.emit_end(&end, took);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut rest = Self {
            pipeline: self.pipeline.clone(),
            id: self.id,
            started: self.started,
            user: self.user.clone(),
            tool: None,
            entry: self.entry.take(),
            audit_scope: self.audit_scope,
            intent: std::mem::take(&mut self.intent),
            approvals: self.approvals,
            approval: None,
            inner_approvals: Vec::new(),
            held_calls: std::mem::take(&mut self.held_calls),
            warnings: Vec::new(),
            file_grant: None,
            first_call: self.first_call,
            sent: self.sent.take(),
            failed_call: None,
            attempts: self.attempts.clone(),
            letter: None,
            span: None,
            closed: true,
        };
        runtime.spawn(async move {
            rest.settle(end).await;
        });
    }
}

/// Returns the id of the provider that served a call; empty if none did.
fn served_by(answer: &Result<Answer, Problem>) -> String {
    let Ok(Answer::Result { result, .. }) = answer else { return String::new() };
    let provider = result.at(&["_meta", PROVIDER]);
    provider.as_ref().and_then(RawJson::string).map(|id| id.into_owned()).unwrap_or_default()
}

/// A call that was sent to a server.
struct SentCall {
    tool: Arc<Tool>,
    caller: Arc<Caller>,
    at: Instant,
}

/// How a call ended.
struct CallEnd {
    kind: OutcomeKind,
    code: Option<Cow<'static, str>>,
    result: Option<RawJson>,
    /// The word for the outcome in events. `held` is not an `OutcomeKind`: the call continues under another row.
    outcome: &'static str,
    /// What the record keeps of the answer.
    summary: AnswerSummary,
}

impl CallEnd {
    fn of(answer: &Result<Answer, Problem>) -> Self {
        let (kind, code, result) = match answer {
            Ok(Answer::Result { result, facts, .. }) => {
                let kind = if facts.is_error { OutcomeKind::ToolError } else { OutcomeKind::Done };
                (kind, None, Some(result.clone()))
            }
            Ok(Answer::Long { facts, .. }) if facts.is_error => (OutcomeKind::ToolError, None, None),
            Ok(Answer::Long { .. } | Answer::InputRequired { .. }) => (OutcomeKind::Done, None, None),
            Ok(Answer::Held { id, .. }) => {
                let mut next = ObjectWriter::default();
                next.text("held", &id.to_string());
                (OutcomeKind::Done, None, Some(next.finish()))
            }
            Ok(Answer::Error(error)) => {
                (OutcomeKind::ToolError, Some(format!("rpc {}", error.code).into()), None)
            }
            Err(problem) if problem.code == "call.timeout" => {
                (OutcomeKind::Timeout, Some(problem.code.into()), None)
            }
            Err(problem) => (OutcomeKind::Failed, Some(problem.code.into()), None),
        };
        let outcome = match answer {
            Ok(Answer::Held { .. }) => "held",
            Err(problem) if problem.blame == Blame::Caller => "refused",
            _ => kind.as_str(),
        };
        Self { kind, code, result, outcome, summary: AnswerSummary::of(answer) }
    }

    fn fill(&self, entry: AuditEntry, at_ms: i64, started: Instant) -> AuditEntry {
        AuditEntry {
            at_ms,
            outcome: if self.outcome == "held" { self.outcome } else { self.kind.as_str() }.into(),
            code: self.code.as_deref().map(Into::into),
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            ..entry
        }
    }
}
