//! Closes the record of a call: metrics, health, the event, the dead letter, the audit row, and the outcomes of the
//! intent and of held calls.

use super::end::CallEnd;
use super::{CallRecord, IntentWrite};
use crate::answer::Answer;
use crate::call::summary::CallPath;
use crate::call::unrecorded::Disclosure;
use crate::call_metrics::MetricOutcome;
use crate::dead_letters::PersonApproval;
use crate::health::{CallSample, ending_of, with_provider_id};
use crate::routing::PROVIDER;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::CallStage;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::held::HeldOutcome;
use toolbooth_core::json::RawJson;
use toolbooth_store::{CallOutcome, Store};
use uuid::Uuid;

/// The largest result that is stored with a held call.
const MAX_STORED_RESULT_BYTES: usize = 1 << 20;
/// The pause before the outcome of a held call is recorded again, and the number of attempts.
const FINISH_PAUSE: Duration = Duration::from_secs(5);
const FINISH_ATTEMPTS: u32 = 720;
/// The code of a call of a tool that does not exist, or that the caller may not use.
const UNKNOWN_TOOL: &str = "call.unknown-tool";

/// Records the outcome of a held call when the database answers again. Otherwise the call would stay approved until this
/// gateway ends.
async fn finish_later(store: Arc<dyn Store>, held: Uuid, outcome: HeldOutcome, trace: AuditEntry) {
    for _ in 0..FINISH_ATTEMPTS {
        tokio::time::sleep(FINISH_PAUSE).await;
        if store.finish_held(held, outcome.clone(), trace.clone()).await.is_ok() {
            return;
        }
    }
}

impl CallRecord {
    /// Records how the call ended. The dead letter of a failed call is on disk before the caller gets the error.
    pub(crate) async fn close(mut self, mut answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        self.enter(CallStage::Record);
        if let (Err(problem), Some(failed_call)) = (&mut answer, self.failed_call.take()) {
            let approval = if self.approvals > 0 { PersonApproval::Given } else { PersonApproval::NotNeeded };
            let keeping = self.pipeline.dead_letters.keep(*failed_call, self.id, approval, problem);
            self.letter = Box::pin(keeping).await;
        }
        let (pipeline, id, user) = (self.pipeline.clone(), self.id, self.user.clone());
        let has_record = self.entry.is_some();
        let disclosure = pin!(self.ended(&answer)).await;
        let answer = disclosure.apply(answer);
        if has_record && let Ok(Answer::Result { result, .. }) = &answer {
            let max_bytes = pipeline.terms.load().results.recent_bytes;
            pipeline.recent_results.keep(id, &user, result, max_bytes);
        }
        answer
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
        // A tool that the caller may not use must look unknown, so the record does not tell at which stage the call ended.
        let looks_unknown = end.code.as_deref() == Some(UNKNOWN_TOOL);
        let stages =
            (!looks_unknown && !self.stages.is_empty()).then(|| self.stages.stored(self.started.elapsed()));
        let path = CallPath {
            stages,
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
        let tool = self.tool.as_ref().filter(|_| end.code.as_deref() != Some(UNKNOWN_TOOL));
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

    /// Adds the requested tool name to an event, if the tool is unknown and calls are audited.
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
            let finished = pipeline.store.finish_held(held.id, outcome.clone(), trace.clone()).await;
            if let Err(error) = finished {
                tracing::error!(held = %held.id, "the outcome of a held call could not be recorded: {error}");
                tokio::spawn(finish_later(pipeline.store.clone(), held.id, outcome, trace));
            } else {
                pipeline.approvals.tell_end(&held);
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
        let end = CallEnd::cancelled();
        self.emit_end(&end, took);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut rest = Self {
            pipeline: self.pipeline.clone(),
            id: self.id,
            started: self.started,
            stages: std::mem::take(&mut self.stages),
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
            origin: None,
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
