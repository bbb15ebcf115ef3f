//! Sampling requests that a person answers: the gateway's model drafts an answer if the person wants one, and the audit
//! names who answered.

use super::pipeline::CallPipeline;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::caller::Caller;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::sampling::SamplingFault;
use toolbooth_upstream::llm::Completion;
use uuid::Uuid;

/// A server's sampling request that a person answers.
#[derive(Debug, Clone)]
pub struct PersonSampling {
    /// The id of the call.
    pub call: Uuid,
    /// The server that asks.
    pub server: Option<String>,
    /// The parameters of the request.
    pub params: RawJson,
}

/// An answer that the gateway's model drafted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingDraft {
    /// The text.
    pub text: String,
    /// The model.
    pub model: String,
}

/// How a person answered a sampling request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingAnswer<'a> {
    /// The person wrote the answer.
    Written,
    /// The person approved the draft of this model.
    Drafted(&'a str),
    /// The person changed the draft of this model.
    Edited(&'a str),
    /// The person declined.
    Declined,
}

impl CallPipeline {
    /// Whether the gateway's model can draft answers.
    pub fn can_draft_sampling(&self) -> bool {
        self.terms.load().sampler.is_some()
    }

    /// Has the gateway's model draft an answer for a person. `earlier` is the number of drafts that the call already had.
    /// The draft is not sent to the server.
    pub async fn draft_sampling(
        &self,
        caller: &Caller,
        asked: &PersonSampling,
        earlier: u32,
    ) -> Result<SamplingDraft, Problem> {
        let started = Instant::now();
        let drafted = self.draft(&asked.params, earlier).await;
        let mut entry = self.sampling_entry(caller, asked, "drafted");
        match &drafted {
            Ok(Completion { model, usage, .. }) => {
                entry.detail = Some(RawJson::from_value(&json!({
                    "model": model, "prompt_tokens": usage.prompt, "completion_tokens": usage.completion,
                })));
            }
            Err(problem) => {
                entry.outcome = "failed".into();
                entry.code = Some(problem.code.into());
            }
        }
        entry.duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
        self.write_sampling_entry(entry).await;
        drafted.map(|Completion { text, model, .. }| SamplingDraft { text, model })
    }

    async fn draft(&self, params: &RawJson, earlier: u32) -> Result<Completion, Problem> {
        let sampler = self.terms.load().sampler.clone().ok_or_else(no_model)?;
        let terms = &sampler.terms;
        if earlier >= terms.requests_per_call {
            return Err(Problem::of(&SamplingFault::TooOften(terms.requests_per_call)));
        }
        let prompt = terms.prompt(params).map_err(|fault| Problem::of(&fault))?;
        let most = prompt.weight().saturating_add(u64::from(prompt.max_tokens));
        let now_ms = self.clock.now_ms();
        let reserved = self.with_budget(|budget| budget.reserve(most, now_ms, terms.tokens_per_day));
        reserved.map_err(|fault| Problem::of(&fault))?;
        // The whole reservation counts until the real cost is known.
        let answer = sampler.llm.ask(&prompt, |_| {}).await;
        let cost = match &answer {
            Ok(done) => done.usage.prompt.saturating_add(done.usage.completion),
            Err(error) if error.is_before_work() => 0,
            // The model may have worked, and its use is not known.
            Err(_) => most,
        };
        self.with_budget(|budget| budget.settle(most, cost));
        answer.map_err(|error| Problem::of(&error))
    }

    /// Records who answered a sampling request, and how. The text is not written.
    pub async fn record_sampling_answer(
        &self,
        caller: &Caller,
        asked: &PersonSampling,
        answer: SamplingAnswer<'_>,
    ) {
        let (outcome, answered_by, model) = match answer {
            SamplingAnswer::Written => ("done", "person", None),
            SamplingAnswer::Drafted(model) => ("done", "approved draft", Some(model)),
            SamplingAnswer::Edited(model) => ("done", "edited draft", Some(model)),
            SamplingAnswer::Declined => ("declined", "person", None),
        };
        let mut detail = json!({ "answered_by": answered_by });
        if let Some(model) = model {
            detail["model"] = Value::from(model);
        }
        let entry = AuditEntry {
            detail: Some(RawJson::from_value(&detail)),
            ..self.sampling_entry(caller, asked, outcome)
        };
        self.write_sampling_entry(entry).await;
    }

    fn sampling_entry(&self, caller: &Caller, asked: &PersonSampling, outcome: &str) -> AuditEntry {
        AuditEntry {
            call_id: Some(asked.call),
            by: Some(caller.user.clone()),
            persona: caller.persona_name().map(Into::into),
            server: asked.server.as_deref().map(Into::into),
            ..AuditEntry::new(self.clock.now_ms(), AuditKind::Sampling.as_str(), &caller.user, outcome)
        }
    }

    async fn write_sampling_entry(&self, entry: AuditEntry) {
        if let Err(error) = self.store.audit(entry).await {
            tracing::error!("a sampling request could not be written to the audit: {error}");
        }
    }
}

fn no_model() -> Problem {
    Problem {
        code: "llm.not-configured",
        blame: Blame::Caller,
        message: "no language model is configured: `llm.base_url` and `llm.model` are not set".into(),
        hint: Some("write the answer yourself, or decline".into()),
    }
}
