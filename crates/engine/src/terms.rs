//! The settings that calls are made under. A reload replaces them as a whole.

use crate::encoder::Encoder;
use crate::hooks::CallHooks;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::allowance::Allowance;
use toolbooth_core::call::Policy;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::ToolGate;
use toolbooth_core::dead_letter::SCHEDULE_SECONDS;
use toolbooth_core::exposure;
use toolbooth_core::result::Budget;
use toolbooth_core::retry::RetryTerms;
use toolbooth_core::sampling::SamplingTerms;
use toolbooth_core::secret::KnownSecrets;
use toolbooth_upstream::llm::{ChatModel, LlmClient};

/// The current settings, shared by the parts of the engine.
pub(crate) type SharedTerms = Arc<ArcSwap<Terms>>;

/// The settings that calls are made under: policies, approvals, limits, exposure.
pub struct Terms {
    /// The policies that judge calls.
    pub policies: Vec<Box<dyn Policy>>,
    /// How long a held call waits for a decision before it expires.
    pub expires: Duration,
    /// How long a request waits for the decision before it returns with the held call's id.
    pub wait: Duration,
    /// Groups whose members may decide held calls of others, besides administrators.
    pub approvers: Vec<String>,
    /// Which calls are written to the audit.
    pub audit_scope: AuditScope,
    /// How results are processed.
    pub results: ResultTerms,
    /// How dead letters are replayed.
    pub letters: LetterTerms,
    /// The gateway's own model, if servers may use one for sampling.
    pub sampler: Option<Arc<Sampler>>,
    /// The models for chats in the console, if there are any.
    pub chat: Option<Arc<ChatTerms>>,
    /// How calls are routed, retried and limited.
    pub routing: RoutingTerms,
    /// The score that a tool needs to pass the lint, from 0 to 100.
    pub min_quality: u8,
    /// Whether the gateway serves one owner or several callers.
    pub tenancy: Tenancy,
    /// Which tools are admitted to the catalog.
    pub gate: ToolGate,
    /// Which tools clients are shown, and how.
    pub exposure: Arc<exposure::ExposureTerms>,
    /// The encoder for search, if one is configured.
    pub encoder: Option<Arc<Encoder>>,
    /// The operator's hooks, which are asked before and after calls.
    pub hooks: CallHooks,
    /// Secret values of the configuration, which are masked in stored and displayed text.
    pub secrets: KnownSecrets,
}

/// Settings of dead letters.
#[derive(Debug, Clone)]
pub struct LetterTerms {
    /// How often a call that is safe to repeat is replayed automatically.
    pub max_replays: u32,
    /// The delays before the first, second, third and later automatic replays.
    pub schedule_seconds: Vec<u32>,
}

impl Default for LetterTerms {
    fn default() -> Self {
        Self { max_replays: 3, schedule_seconds: SCHEDULE_SECONDS.to_vec() }
    }
}

/// The gateway's model, and the terms on which servers may use it.
#[derive(Debug)]
pub struct Sampler {
    /// The limits that the operator sets.
    pub terms: SamplingTerms,
    /// The model.
    pub llm: LlmClient,
}

/// The models that a person can chat with in the console.
#[derive(Debug)]
pub struct ChatTerms {
    /// The models with the names to choose them by, the default first.
    pub models: Vec<(String, ChatModel)>,
    /// The token budget of a day, which chats share with the sampling requests of servers.
    pub tokens_per_day: u64,
}

/// Settings of routing.
#[derive(Debug, Clone)]
pub struct RoutingTerms {
    /// How failed calls are retried.
    pub retry: RetryTerms,
    /// The maximum number of calls that wait for a tool that takes one call at a time.
    pub queue: usize,
    /// The limits of one caller, if there are any.
    pub allowance: Option<Allowance>,
    /// The longest accepted answer of an HTTP service, in bytes.
    pub longest_answer: usize,
    /// The model for tools with a provider of kind `openai`.
    pub assistant: Option<Arc<Assistant>>,
}

/// The model that answers calls of tools with a provider of kind `openai`.
#[derive(Debug)]
pub struct Assistant {
    /// The endpoint.
    pub llm: LlmClient,
    /// The model's name, unless the provider names one.
    pub model: String,
    /// The token limit of one answer.
    pub max_tokens: u32,
}

impl Default for RoutingTerms {
    fn default() -> Self {
        Self {
            retry: RetryTerms::default(),
            queue: 256,
            allowance: None,
            longest_answer: 32 << 20,
            assistant: None,
        }
    }
}

/// Whom the gateway serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tenancy {
    /// Only its owner (`auth.mode` `local`).
    Owner,
    /// Several callers, who identify themselves.
    Many,
}

/// How results are processed.
#[derive(Debug, Clone)]
pub struct ResultTerms {
    /// Whether their content is inspected.
    pub inspection: ResultInspection,
    /// Their token budget.
    pub budget: Option<Budget>,
    /// The maximum number of files of one call.
    pub max_artifacts: usize,
    /// The maximum total size of these files, in bytes.
    pub max_artifact_bytes: u64,
    /// Hosts whose pages may be shown in an iframe.
    pub iframe_hosts: Vec<String>,
    /// How many bytes of recent results stay in memory, so that their callers can look at them again.
    pub recent_bytes: usize,
}

/// Whether the content of results is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultInspection {
    /// Files in them are stored, and what is not meant for models is removed.
    Yes,
    /// They are passed on unchanged.
    No,
}

impl Default for ResultTerms {
    fn default() -> Self {
        Self {
            inspection: ResultInspection::Yes,
            budget: Budget::of_tokens(25_000),
            max_artifacts: 50,
            max_artifact_bytes: 100 << 20,
            iframe_hosts: Vec::new(),
            recent_bytes: 8 << 20,
        }
    }
}

/// Which calls are written to the audit. Decisions always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditScope {
    /// Every call.
    #[default]
    All,
    /// Calls that may change something, and calls that were refused.
    Writes,
    /// No calls.
    None,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            expires: Duration::from_secs(300),
            wait: Duration::from_secs(50),
            approvers: Vec::new(),
            audit_scope: AuditScope::All,
            results: ResultTerms::default(),
            letters: LetterTerms::default(),
            sampler: None,
            chat: None,
            routing: RoutingTerms::default(),
            min_quality: toolbooth_core::lint::PASS_MARK,
            tenancy: Tenancy::Owner,
            gate: ToolGate::default(),
            exposure: Arc::default(),
            encoder: None,
            hooks: CallHooks::default(),
            secrets: KnownSecrets::default(),
        }
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").field("policies", &self.policies.len()).finish_non_exhaustive()
    }
}

impl Terms {
    /// Whether a caller may decide held calls of others.
    pub fn is_approver(&self, caller: &Caller) -> bool {
        caller.admin == Admin::Yes || self.approvers.iter().any(|group| caller.groups.contains(group))
    }
}
