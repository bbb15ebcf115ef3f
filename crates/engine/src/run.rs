//! Stage 10, record: the run of one call. It leaves a trace whatever happens, also when its caller
//! hangs up or the gateway dies.

use crate::answer::Answer;
use crate::clock::{now_ms, wall_ms};
use crate::dead_letters::{Agreed, Lost, Undelivered};
use crate::dispatch::Rounds;
use crate::engine::Engine;
use crate::files::Grant;
use crate::health::{CallSample, as_provider, ending_of};
use crate::held::Approved;
use crate::routing::{Manner, PROVIDER};
use crate::terms::Audited;
use crate::trace::CallSpan;
use crate::unrecorded::Disclosure;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::{Draft, Incoming, Licence, Planned, Sealed, Warning, fingerprint};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::dead_letter::Letter;
use toolbooth_core::effects::Basis;
use toolbooth_core::event::{Event, EventKind};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::{HeldCall, HeldOutcome};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::outcome::OutcomeKind;
use toolbooth_core::redact;
use toolbooth_store::{Intent, Outcome};
use toolbooth_upstream::connection::{Progress, Round};
use toolbooth_upstream::peer::Reading;
use uuid::Uuid;

/// How often one call may be put to a person: once for each kind of question, its own and those of the tool behind it,
/// and no endless loop.
const MAX_LICENCES: usize = 6;
/// The longest result that is kept with a held call.
const MAX_KEPT: usize = 1 << 20;

/// What a call is known by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallIds {
    /// This call.
    pub(crate) call: Uuid,
    /// What all attempts at it share, replays included: what an idempotency key is made of.
    pub(crate) key: Uuid,
}

/// How the intent of a call was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Journal {
    /// Not at all: the call only reads, or was not sent.
    #[default]
    Nothing,
    /// Survives kill -9: it is unknown whether the tool changes anything.
    Noted,
    /// On disk: the tool changes something.
    OnDisk,
}

/// One call under way.
pub(crate) struct Run {
    engine: Arc<Engine>,
    id: Uuid,
    started: Instant,
    user: Arc<str>,
    /// The tool, once it is known that the caller may use it.
    tool: Option<Arc<Tool>>,
    entry: Option<Box<AuditEntry>>,
    audited: Audited,
    /// Whether an intent was written, so that an end must follow.
    journal: Journal,
    licences: usize,
    licence: Option<Licence>,
    /// What people agreed to for tools behind the called one.
    behind: Vec<Licence>,
    held: Vec<HeldCall>,
    warnings: Vec<Warning>,
    /// Files that the call may fetch as long as it runs.
    grant: Option<Grant>,
    /// The call that this one makes again.
    first: Option<Uuid>,
    /// What was sent, and since when.
    sent: Option<SentCall>,
    /// What a dead letter is written from, once the call has failed.
    lost: Option<Box<Lost>>,
    /// The call in its trace, where calls are traced.
    span: Option<Box<CallSpan>>,
    closed: bool,
}

impl Run {
    /// Opens the record of a call.
    pub(crate) fn open(engine: &Arc<Engine>, incoming: &mut Incoming) -> Self {
        let id = Uuid::now_v7();
        let span = engine.tracing.begin(incoming);
        let audited = engine.terms().audited;
        let entry = (audited != Audited::None).then(|| {
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
                ..engine.blank_call_entry()
            })
        });
        Self {
            engine: engine.clone(),
            id,
            started: Instant::now(),
            user: incoming.caller.user.clone(),
            tool: None,
            entry,
            audited,
            journal: Journal::Nothing,
            licences: 0,
            licence: None,
            behind: Vec::new(),
            held: Vec::new(),
            warnings: Vec::new(),
            grant: None,
            first: None,
            sent: None,
            lost: None,
            span,
            closed: false,
        }
    }

    /// Opens the record of a call that was approved earlier; what to call.
    pub(crate) fn of_approved(
        engine: &Arc<Engine>,
        mut approved: Approved,
    ) -> Result<(Self, Incoming), Problem> {
        let mut run = Self::open(engine, &mut approved.incoming);
        let incoming = run.licensed(approved)?;
        Ok((run, incoming))
    }

    /// The call's id.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Looks up the files that the call names, where its tool takes any.
    pub(crate) async fn grant_files(&mut self, draft: &Draft) {
        if draft.tool.injected.as_ref().is_some_and(|injected| !injected.files.is_empty()) {
            self.grant = Box::pin(self.engine.files().grant(draft, self.id)).await;
        }
    }

    /// The files that were found.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// The licence of this walk; each is good for one.
    pub(crate) fn licence(&self) -> Option<Licence> {
        self.licence.clone()
    }

    /// Takes a person's yes; the call to walk again.
    pub(crate) fn licensed(&mut self, approved: Approved) -> Result<Incoming, Problem> {
        let Approved { incoming, held, licence } = approved;
        self.agreed(held, &incoming.name)?;
        self.licence = Some(licence);
        Ok(incoming)
    }

    /// Takes a person's yes to a tool behind the called one; the caller, with the rights they have now.
    pub(crate) fn licensed_behind(&mut self, approved: Approved) -> Result<Arc<Caller>, Problem> {
        let Approved { incoming, held, licence } = approved;
        self.agreed(held, &incoming.name)?;
        self.behind.push(licence);
        Ok(incoming.caller)
    }

    /// How the call is to be made, with what people agreed to.
    pub(crate) fn manner(
        &self,
        round: Round,
        progress: Progress,
        rounds: Rounds,
        reading: Reading,
    ) -> Manner {
        let planned = match self.licence.as_ref().is_some_and(Licence::is_of_plan) {
            true => Planned::Yes,
            false => Planned::No,
        };
        let (licence, licences) = (self.licence.clone(), self.behind.clone());
        Manner { ids: self.ids(), round, progress, rounds, reading, licence, licences, planned }
    }

    fn agreed(&mut self, held: HeldCall, name: &str) -> Result<(), Problem> {
        self.licences += 1;
        if let Some(edited) = &held.edited {
            let shown: String = edited.as_str().chars().take(512).collect();
            self.warnings.push(Warning::Edited(shown));
        }
        self.held.push(held);
        if self.licences > MAX_LICENCES {
            return Err(Problem {
                code: "call.asked-too-often",
                blame: Blame::Gateway,
                message: format!("`{name}` was asked about more than {MAX_LICENCES} times"),
                hint: None,
            });
        }
        Ok(())
    }

    /// Whether a person approved this call.
    pub(crate) fn is_licensed(&self) -> bool {
        self.licences > 0
    }

    /// What the caller should know about how the call came to run.
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Notes what is known once the arguments are checked.
    pub(crate) fn drafted(&mut self, draft: &Draft) {
        if self.audited == Audited::Writes && !draft.tool.effect().rung.writes() {
            self.entry = None;
        }
        if self.tool.is_none() {
            self.tool = Some(draft.tool.clone());
        }
        if let Some(entry) = &mut self.entry {
            entry.server = Some(draft.tool.server.name.shared());
            entry.tool = Some(draft.tool.name.clone());
            entry.arguments_sha256 = Some(fingerprint(&draft.arguments));
            let secrets = &self.engine.terms().secrets;
            entry.arguments_preview = Some(redact::preview_without(&draft.arguments, secrets).into());
        }
    }

    /// Notes that the call is about to be sent. What may change something is noted first, or it is not sent:
    /// synced to disk if it is known to, in the spool if it is unknown.
    pub(crate) async fn sealed(&mut self, sealed: &Sealed) -> Result<(), Problem> {
        // A call that walks again after a question of a tool behind it was noted before.
        if self.sent.is_some() {
            return Ok(());
        }
        let tool = sealed.tool();
        self.engine.emit_made(|| self.event(EventKind::ToolCall, tool));
        self.engine.pin_first_use(tool);
        let (tool_called, caller) = (tool.clone(), sealed.caller().clone());
        self.sent = Some(SentCall { tool: tool_called, caller, at: Instant::now() });
        let effect = tool.effect();
        if !effect.rung.writes() {
            return Ok(());
        }
        let intent = Intent {
            call_id: self.id,
            at_ms: now_ms(),
            user: sealed.caller().user.to_string(),
            server: tool.server.name.clone(),
            tool: tool.name.to_string(),
            arguments_sha256: fingerprint(sealed.public_arguments()),
            side_effect: effect.rung.as_str().to_owned(),
        };
        // Noted before the commit: if the caller hangs up during it, dropping the run closes the intent.
        self.journal = match effect.basis {
            Basis::Unknown => Journal::Noted,
            Basis::Label | Basis::Annotation | Basis::Name => Journal::OnDisk,
        };
        let store = self.engine.store();
        let written = match self.journal {
            Journal::OnDisk => Box::pin(store.write_intent(intent)).await,
            Journal::Noted | Journal::Nothing => store.note_intent(intent).await,
        };
        // A write that cannot be noted is not made.
        written.map_err(|error| {
            self.journal = Journal::Nothing;
            // It was not sent: that says nothing about the health of its tool.
            self.sent = None;
            Problem::of(&error)
        })
    }

    /// Notes that this is the call of a dead letter, made again by itself or at somebody's request.
    pub(crate) fn replays(&mut self, letter: &Letter, by: Option<&str>) {
        self.first = Some(letter.call_id);
        if let Some(entry) = &mut self.entry {
            let mut detail = ObjectWriter::default();
            if let Some(session) = entry.detail.take().and_then(|detail| detail.member("session")) {
                detail.raw("session", &session);
            }
            detail
                .text("dead_letter", &letter.id.to_string())
                .text("first_call", &letter.call_id.to_string());
            entry.by = by.map(Into::into);
            entry.detail = Some(detail.finish());
        }
    }

    /// What the call is known by.
    pub(crate) fn ids(&self) -> CallIds {
        CallIds { call: self.id, key: self.first.unwrap_or(self.id) }
    }

    /// Notes that a call that was accepted came to nothing; what its caller is told.
    pub(crate) fn failed(&mut self, sealed: &Sealed, undelivered: Undelivered) -> Problem {
        let (lost, problem) = Lost::of(sealed, undelivered);
        self.lost = lost;
        problem
    }

    /// What a dead letter would be written from; nobody else writes it then.
    pub(crate) fn take_lost(&mut self) -> Option<Box<Lost>> {
        self.lost.take()
    }

    /// Notes how the call ended. What came to nothing is on disk as a dead letter before anybody is told.
    pub(crate) async fn close(mut self, mut answer: Result<Answer, Problem>) -> Result<Answer, Problem> {
        if let (Err(problem), Some(lost)) = (&mut answer, self.lost.take()) {
            let agreed = if self.licences > 0 { Agreed::ByPerson } else { Agreed::Unasked };
            Box::pin(self.engine.keep_letter(*lost, self.id, agreed, problem)).await;
        }
        let disclosure = pin!(self.ended(&answer)).await;
        disclosure.apply(answer)
    }

    fn ended(mut self, answer: &Result<Answer, Problem>) -> impl Future<Output = Disclosure> + Send + use<> {
        self.closed = true;
        let now = Instant::now();
        let took = now.saturating_duration_since(self.started);
        self.engine.tally().count(answer, took);
        self.note_health(answer, now);
        let end = End::of(answer);
        self.tell(&end, took);
        async move {
            if self.journal == Journal::OnDisk || !self.held.is_empty() {
                // In a task of its own: a caller who hangs up during a commit leaves no call and no held call open.
                let settling = tokio::spawn(async move { self.settle(end).await });
                return settling.await.unwrap_or_else(|error| {
                    tracing::error!("the end of a call was not written down: {error}");
                    Disclosure::Withheld
                });
            }
            // The usual way: one row, safe from a kill and on disk a moment later.
            let entry = self.entry.take().map(|entry| end.fill(*entry, self.started));
            self.close_journal(entry).await
        }
    }

    fn note_health(&self, answer: &Result<Answer, Problem>, now: Instant) {
        let (Some(sent), Some((ending, error_code))) = (&self.sent, ending_of(answer.as_ref())) else {
            return;
        };
        let took = now.saturating_duration_since(sent.at);
        let (tool, persona) = (&*sent.tool, sent.caller.persona_name());
        let health = self.engine.health();
        if tool.terms.providers.is_empty() {
            return as_provider(tool.server.name.as_str(), |provider| {
                health.record(&CallSample { tool, provider, persona, took, ending, error_code });
            });
        }
        // Each provider's part in it was noted when it ended.
        let provider = &served_by(answer);
        health.record_tool(&CallSample { tool, provider, persona, took, ending, error_code });
    }

    /// Tells whoever follows how the call ended.
    fn tell(&mut self, end: &End, took: Duration) {
        // What the caller may not use is not there, in events too: only the name that was asked for is told.
        let tool = self.tool.as_ref().filter(|_| end.code.as_deref() != Some("call.unknown-tool"));
        if let Some(span) = self.span.take() {
            span.end(self.id, tool, end.told, end.code.as_ref());
        }
        self.engine.emit_made(|| {
            let mut event = match tool {
                Some(tool) => self.event(EventKind::ToolResult, tool),
                None => self.asked(Event::new(EventKind::ToolResult).user(self.user.clone()).call(self.id)),
            };
            event.code = end.code.clone();
            event.took(took).outcome(end.told)
        });
    }

    fn event(&self, kind: EventKind, tool: &Tool) -> Event {
        let event = Event::new(kind).user(self.user.clone()).call(self.id);
        event.server(&tool.server.name).tool(tool.name.clone())
    }

    /// The name that was asked for, where it was noted anyway.
    fn asked(&self, event: Event) -> Event {
        match self.entry.as_ref().and_then(|entry| entry.tool.as_deref()) {
            Some(name) if self.tool.is_none() => event.asked_for(name),
            _ => event,
        }
    }

    async fn settle(&mut self, end: End) -> Disclosure {
        let engine = self.engine.clone();
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let at_ms = now_ms();
        let entry = self.entry.take().map(|entry| end.fill(*entry, self.started));
        let disclosure = if self.journal == Journal::OnDisk {
            let otherwise = self.if_unrecorded(entry.as_ref());
            self.journal = Journal::Nothing;
            // The row of a call that changed something is on disk before its answer, together with its outcome.
            let error_code = end.code.as_deref().map(str::to_owned);
            let outcome = Outcome { call_id: self.id, at_ms, kind: end.kind, error_code, duration_ms };
            match engine.store().settle(outcome, entry).await {
                Ok(()) => Disclosure::Given,
                Err(error) => engine.report_unrecorded(self.id, &self.user, &error, otherwise),
            }
        } else {
            self.close_journal(entry).await
        };
        for held in std::mem::take(&mut self.held) {
            let result = end.result.clone().filter(|result| result.as_bytes().len() <= MAX_KEPT);
            // The next question is another held call's; this one led to it.
            let code = if end.told == "held" { Some("call.held") } else { end.code.as_deref() };
            let code = code.map(str::to_owned);
            let outcome = HeldOutcome { at_ms, kind: end.kind, code, result };
            let trace = AuditEntry { outcome: end.kind.as_str().into(), ..held.trace(at_ms) };
            if let Err(error) = engine.store().finish_held(held.id, outcome, trace).await {
                tracing::error!(held = %held.id, "the end of a held call was not written down: {error}");
            }
        }
        disclosure
    }

    /// What becomes of the result if the row of the call cannot be kept. A read is answered all the same.
    fn if_unrecorded(&self, entry: Option<&AuditEntry>) -> Disclosure {
        match (self.journal, entry) {
            (Journal::Noted | Journal::OnDisk, Some(_)) => Disclosure::Withheld,
            _ => Disclosure::Given,
        }
    }

    /// Notes the end of a call that is not known to have changed anything.
    async fn close_journal(&mut self, entry: Option<AuditEntry>) -> Disclosure {
        let otherwise = self.if_unrecorded(entry.as_ref());
        let store = self.engine.store();
        let written = match (std::mem::take(&mut self.journal), entry) {
            (Journal::Noted, entry) => store.note_end(self.id, entry).await,
            (_, Some(entry)) => store.audit(entry).await,
            (_, None) => return Disclosure::Given,
        };
        match written {
            Ok(()) => Disclosure::Given,
            Err(error) => self.engine.report_unrecorded(self.id, &self.user, &error, otherwise),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        // The caller hung up or took the call back.
        self.closed = true;
        let took = self.started.elapsed();
        self.engine.tally().count_cancelled(took);
        let end = End { kind: OutcomeKind::Cancelled, code: None, result: None, told: "cancelled" };
        self.tell(&end, took);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut rest = Self {
            engine: self.engine.clone(),
            id: self.id,
            started: self.started,
            user: self.user.clone(),
            tool: None,
            entry: self.entry.take(),
            audited: self.audited,
            journal: std::mem::take(&mut self.journal),
            licences: self.licences,
            licence: None,
            behind: Vec::new(),
            held: std::mem::take(&mut self.held),
            warnings: Vec::new(),
            grant: None,
            first: self.first,
            sent: None,
            lost: None,
            span: None,
            closed: true,
        };
        runtime.spawn(async move {
            rest.settle(end).await;
        });
    }
}

/// Which provider served a call; nobody, where none did.
fn served_by(answer: &Result<Answer, Problem>) -> String {
    let Ok(Answer::Result { result, .. }) = answer else { return String::new() };
    let provider = result.at(&["_meta", PROVIDER]);
    provider.as_ref().and_then(RawJson::string).map(|id| id.into_owned()).unwrap_or_default()
}

/// A call that went to a server.
struct SentCall {
    tool: Arc<Tool>,
    caller: Arc<Caller>,
    at: Instant,
}

/// How a call ended.
struct End {
    kind: OutcomeKind,
    code: Option<Cow<'static, str>>,
    result: Option<RawJson>,
    /// The word for it. Held is no way to end: the call goes on, or not, under another row.
    told: &'static str,
}

impl End {
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
        let told = match answer {
            Ok(Answer::Held { .. }) => "held",
            Err(problem) if problem.blame == Blame::Caller => "refused",
            _ => kind.as_str(),
        };
        Self { kind, code, result, told }
    }

    fn fill(&self, entry: AuditEntry, started: Instant) -> AuditEntry {
        AuditEntry {
            at_ms: wall_ms(),
            outcome: if self.told == "held" { self.told } else { self.kind.as_str() }.into(),
            code: self.code.as_deref().map(Into::into),
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            ..entry
        }
    }
}
