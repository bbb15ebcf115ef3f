//! Sampling for servers whose callers' clients cannot sample: by the gateway's own model, or by a person.
//!
//! Only servers that the operator names may use the model, within a budget, and each request leaves a row in the audit. The
//! client comes first: if it can sample, the gateway's model is not used. Requests of other servers go to the person who made
//! the call, if there is one; the model then drafts an answer if the person wants that (`sampling_draft.rs`).
//!
//! The server is shown a client that can sample. For the model, the call's link gets a fallback responder that answers.

use super::client_channel::{ClientChannel, SAMPLING, SamplingBy};
use super::pipeline::CallPipeline;
use crate::terms::Sampler;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::Sealed;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Fault, Problem};
use toolbooth_core::json::{RawJson, with_members};
use toolbooth_core::sampling::{SamplingFault, TokenBudget};
use toolbooth_store::Store;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::link::FallbackResponder;
use toolbooth_upstream::llm::{Completion, Finish};
use toolbooth_wire::RpcError;
use toolbooth_wire::codes::{INTERNAL_ERROR, INVALID_PARAMS, REFUSED};

/// The client of a call whose server may use the gateway's model or ask a person: the server is shown a client that can
/// sample.
pub(crate) struct GatewaySampling {
    client: ClientFacts,
    link: CallLink,
    by: SamplingBy,
}

impl GatewaySampling {
    pub(crate) fn channel(&self) -> ClientChannel<'_> {
        ClientChannel { client: &self.client, link: &self.link, sampling: self.by }
    }
}

impl CallPipeline {
    /// Sampling by the gateway's model or by a person; `None` if the client can sample or no party may answer.
    pub(crate) fn gateway_sampling(&self, call: &Sealed, link: &CallLink) -> Option<GatewaySampling> {
        let terms = self.terms.load();
        let tool = call.tool();
        let is_allowed = |sampler: &&Arc<Sampler>| sampler.terms.servers.is_match(tool.server.name.as_str());
        let sampler = terms.sampler.as_ref().filter(is_allowed);
        if (sampler.is_none() && !link.person_samples()) || call.client().can("sampling") {
            return None;
        }
        let mut client = ClientFacts::clone(call.client());
        let more = [("sampling", RawJson::empty_object())];
        client.capabilities = with_members(&client.capabilities, &more).ok()?;
        let Some(sampler) = sampler else {
            return Some(GatewaySampling { client, link: link.clone(), by: SamplingBy::Client });
        };
        let responder = SamplingResponder {
            clock: self.clock.clone(),
            sampler: sampler.clone(),
            book: self.day_book.clone(),
            store: self.store.clone(),
            asked: AtomicU32::new(0),
            entry: AuditEntry {
                persona: call.caller().persona_name().map(Into::into),
                server: Some(tool.server.name.shared()),
                tool: Some(tool.name.clone()),
                ..AuditEntry::new(0, "sampling", &call.caller().user, "")
            },
        };
        let link = link.with_fallback(Arc::new(responder));
        Some(GatewaySampling { client, link, by: SamplingBy::Gateway })
    }
}

/// Answers the sampling requests of one call.
struct SamplingResponder {
    clock: Arc<Clock>,
    sampler: Arc<Sampler>,
    book: Arc<Mutex<TokenBudget>>,
    store: Arc<dyn Store>,
    asked: AtomicU32,
    entry: AuditEntry,
}

impl std::fmt::Debug for SamplingResponder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SamplingResponder").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl FallbackResponder for SamplingResponder {
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

/// Why a sampling request was refused.
struct SamplingRefusal {
    problem: Problem,
    code: i64,
}

impl SamplingRefusal {
    fn of(fault: &dyn Fault, code: i64) -> Self {
        Self { problem: Problem::of(fault), code }
    }

    fn error(self) -> RpcError {
        let data = RawJson::from_value(&json!({ "code": self.problem.code }));
        RpcError::new(self.code, self.problem.sentence()).with_data(data)
    }
}

impl From<SamplingFault> for SamplingRefusal {
    fn from(fault: SamplingFault) -> Self {
        let code = match fault {
            SamplingFault::BadQuestion(_) | SamplingFault::NotText(_) => INVALID_PARAMS,
            SamplingFault::TooOften(_) | SamplingFault::OverBudget(_) => REFUSED,
        };
        Self::of(&fault, code)
    }
}

impl SamplingResponder {
    async fn ask(&self, params: &RawJson) -> Result<Completion, SamplingRefusal> {
        let Sampler { terms, llm } = &*self.sampler;
        if self.asked.fetch_add(1, Ordering::Relaxed) >= terms.requests_per_call {
            return Err(SamplingFault::TooOften(terms.requests_per_call).into());
        }
        let prompt = terms.prompt(params)?;
        let most = prompt.weight().saturating_add(u64::from(prompt.max_tokens));
        self.book().reserve(most, self.clock.now_ms(), terms.tokens_per_day)?;
        // The whole reservation counts until the real cost is known, also if the call is cancelled meanwhile.
        let answer = llm.ask(&prompt, |_| {}).await;
        let cost = match &answer {
            Ok(done) => done.usage.prompt.saturating_add(done.usage.completion),
            Err(error) if error.is_before_work() => 0,
            // The model may have worked, and its use is not known.
            Err(_) => most,
        };
        self.book().settle(most, cost);
        answer.map_err(|error| SamplingRefusal::of(&error, INTERNAL_ERROR))
    }

    fn book(&self) -> MutexGuard<'_, TokenBudget> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn record(&self, answer: &Result<Completion, SamplingRefusal>, started: Instant) {
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
            at_ms: self.clock.now_ms(),
            outcome: outcome.into(),
            code,
            detail,
            duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
            ..self.entry.clone()
        };
        if let Err(error) = self.store.audit(entry).await {
            tracing::error!("a sampling request could not be written to the audit: {error}");
        }
    }
}

/// The completion as an MCP result.
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
