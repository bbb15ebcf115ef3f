//! The gateway's own model, asked by servers whose callers' clients have none.
//!
//! Only servers that the operator names may ask, within a budget, and each question leaves a row in the audit.
//! The client always comes first: where it can sample, the gateway's model is not asked.

use crate::clock::now_ms;
use crate::engine::Engine;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::json::{RawJson, with_members};
use toolbooth_core::sampling::{DayBook, SamplingFault, SamplingTerms};
use toolbooth_store::Store;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::link::Understudy;
use toolbooth_upstream::llm::{Completion, Finish, Llm};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, REFUSED};

/// The gateway's model, and what servers may ask of it.
#[derive(Debug)]
pub struct Sampler {
    /// What the operator allows.
    pub terms: SamplingTerms,
    /// The model.
    pub llm: Llm,
}

/// Whom a server speaks with during a call.
pub(crate) struct Line<'a> {
    /// What it is told that the client can do.
    pub(crate) client: &'a ClientFacts,
    /// Where its questions go.
    pub(crate) link: &'a CallLink,
    /// Who answers for a model.
    pub(crate) model: Model,
}

/// Who answers for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// The client, if anybody.
    Client,
    /// The gateway.
    Gateway,
}

impl<'a> Line<'a> {
    /// The client alone.
    pub(crate) fn plain(call: &'a Sealed, link: &'a CallLink) -> Self {
        Self { client: call.client(), link, model: Model::Client }
    }

    /// Whether any of a modern server's questions is for the gateway itself.
    pub(crate) fn takes(&self, requests: &RawJson) -> bool {
        let is_sampling = |request: &RawJson| {
            let method = request.member("method");
            method.as_ref().and_then(RawJson::string).is_some_and(|method| method == SAMPLING)
        };
        self.model == Model::Gateway
            && requests.members().unwrap_or_default().iter().any(|member| is_sampling(&member.value))
    }
}

/// The method by which a server asks a model.
pub(crate) const SAMPLING: &str = "sampling/createMessage";

/// A call whose server may ask the gateway's model.
pub(crate) struct Helped {
    client: ClientFacts,
    link: CallLink,
}

impl Helped {
    pub(crate) fn line(&self) -> Line<'_> {
        Line { client: &self.client, link: &self.link, model: Model::Gateway }
    }
}

impl Engine {
    /// The gateway's model, for a call whose client has none, to a server that may ask it.
    pub(crate) fn helped(&self, call: &Sealed, link: &CallLink) -> Option<Helped> {
        let terms = self.terms();
        let sampler = terms.sampler.as_ref()?;
        let tool = call.tool();
        if call.client().can("sampling") || !sampler.terms.servers.is_match(tool.server.name.as_str()) {
            return None;
        }
        let mut client = ClientFacts::clone(call.client());
        let more = [("sampling", RawJson::empty_object())];
        client.capabilities = with_members(&client.capabilities, &more).ok()?;
        let clerk = Clerk {
            sampler: sampler.clone(),
            book: self.day_book().clone(),
            store: self.store().clone(),
            asked: AtomicU32::new(0),
            entry: AuditEntry {
                persona: call.caller().persona_name().map(Into::into),
                server: Some(tool.server.name.shared()),
                tool: Some(tool.name.clone()),
                ..AuditEntry::new(0, "sampling", &call.caller().user, "")
            },
        };
        Some(Helped { client, link: link.helped_by(Arc::new(clerk)) })
    }
}

/// Takes the questions of one call.
struct Clerk {
    sampler: Arc<Sampler>,
    book: Arc<Mutex<DayBook>>,
    store: Arc<dyn Store>,
    asked: AtomicU32,
    entry: AuditEntry,
}

impl std::fmt::Debug for Clerk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clerk").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl Understudy for Clerk {
    fn answers(&self, method: &str) -> bool {
        method == SAMPLING
    }

    fn answer(self: Arc<Self>, params: Option<RawJson>) -> BoxFuture<'static, Result<RawJson, RpcError>> {
        Box::pin(async move {
            let started = Instant::now();
            let answer = self.ask(&params.unwrap_or_else(RawJson::empty_object)).await;
            self.record(&answer, started).await;
            answer.map(|completion| result(&completion)).map_err(|refusal| refusal.error())
        })
    }
}

/// Why a question was not answered.
struct Refusal {
    problem: Problem,
    code: i64,
}

impl Refusal {
    fn of(fault: &dyn Fault, code: i64) -> Self {
        Self { problem: Problem::of(fault), code }
    }

    fn error(self) -> RpcError {
        let data = RawJson::from_value(&json!({ "code": self.problem.code }));
        RpcError::new(self.code, self.problem.sentence()).with_data(data)
    }
}

impl From<SamplingFault> for Refusal {
    fn from(fault: SamplingFault) -> Self {
        let code = match fault {
            SamplingFault::BadQuestion(_) | SamplingFault::NotText(_) => INVALID_PARAMS,
            SamplingFault::TooOften(_) | SamplingFault::OverBudget(_) => REFUSED,
        };
        Self::of(&fault, code)
    }
}

impl Clerk {
    async fn ask(&self, params: &RawJson) -> Result<Completion, Refusal> {
        let Sampler { terms, llm } = &*self.sampler;
        if self.asked.fetch_add(1, Ordering::Relaxed) >= terms.requests_per_call {
            return Err(SamplingFault::TooOften(terms.requests_per_call).into());
        }
        let prompt = terms.prompt(params)?;
        let most = prompt.weight().saturating_add(u64::from(prompt.max_tokens));
        self.book().reserve(most, now_ms(), terms)?;
        // Until its cost is known, it has cost what it may cost: also when nobody waits for it any more.
        let answer = llm.ask(&prompt, |_| {}).await;
        let cost = answer.as_ref().map_or(0, |done| done.usage.prompt.saturating_add(done.usage.completion));
        self.book().settle(most, cost);
        answer.map_err(|error| Refusal::of(&error, INTERNAL_ERROR))
    }

    fn book(&self) -> MutexGuard<'_, DayBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn record(&self, answer: &Result<Completion, Refusal>, started: Instant) {
        let (outcome, code, detail) = match answer {
            Ok(Completion { model, usage, .. }) => {
                let detail = json!({
                    "model": model, "prompt_tokens": usage.prompt, "completion_tokens": usage.completion,
                });
                ("done", None, Some(RawJson::from_value(&detail)))
            }
            Err(refusal) => ("failed", Some(refusal.problem.code.into()), None),
        };
        let entry = AuditEntry {
            at_ms: now_ms(),
            outcome: outcome.into(),
            code,
            detail,
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            ..self.entry.clone()
        };
        if let Err(error) = self.store.audit(entry).await {
            tracing::error!("a question to the model was not written into the audit: {error}");
        }
    }
}

/// The answer as MCP has it.
fn result(completion: &Completion) -> RawJson {
    let reason = match completion.finish {
        Finish::End => "endTurn",
        Finish::Length => "maxTokens",
    };
    RawJson::from_value(&json!({
        "role": "assistant", "content": {"type": "text", "text": completion.text},
        "model": completion.model, "stopReason": reason,
    }))
}
