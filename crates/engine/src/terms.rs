//! The terms calls are made on: the operator's policies and how people are asked.

use crate::dead_letters::LetterTerms;
use crate::routing::RoutingTerms;
use crate::sampling::Sampler;
use crate::search::Encoder;
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::call::Policy;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Gate;
use toolbooth_core::exposure;
use toolbooth_core::result::Budget;
use toolbooth_core::secret::KnownSecrets;

/// What the configuration says about judging and asking. A reload replaces it whole.
pub struct Terms {
    /// Who judges calls.
    pub policies: Vec<Box<dyn Policy>>,
    /// How long a question stands.
    pub expires: Duration,
    /// How long a call waits for its answer before it returns with the held call's id.
    pub wait: Duration,
    /// Groups whose members may answer for others, besides admins.
    pub approvers: Vec<String>,
    /// Which calls leave a row in the audit.
    pub audited: Audited,
    /// What becomes of results.
    pub results: ResultTerms,
    /// What becomes of calls that failed for good.
    pub letters: LetterTerms,
    /// The gateway's own model, where servers may ask one.
    pub sampler: Option<Arc<Sampler>>,
    /// How calls are routed, tried again and bounded.
    pub routing: RoutingTerms,
    /// The quality that a tool needs to pass the lint, from 0 to 100.
    pub min_quality: u8,
    /// Whether anybody but the owner may call.
    pub audience: Audience,
    /// Which tools enter the catalog at all.
    pub gate: Gate,
    /// What clients are shown.
    pub exposure: Arc<exposure::Terms>,
    /// The encoder that search goes by, where one is configured.
    pub encoder: Option<Arc<Encoder>>,
    /// Secret values of the configuration, masked in everything that is kept for people to read.
    pub secrets: KnownSecrets,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// The owner of the gateway alone (`auth.mode` `local`).
    Owner,
    /// Callers who are told apart.
    Many,
}

/// What becomes of results.
#[derive(Debug, Clone)]
pub struct ResultTerms {
    /// Whether they are looked into.
    pub inspecting: Inspecting,
    /// How long they may be.
    pub budget: Option<Budget>,
    /// The most files of one call.
    pub max_artifacts: usize,
    /// The most bytes of them together.
    pub max_artifact_bytes: u64,
    /// Hosts whose pages may stand in a frame.
    pub iframe_hosts: Vec<String>,
}

/// Whether results are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspecting {
    /// Files in them are kept, and what the contract keeps from models is taken out.
    Yes,
    /// They are passed on as they are.
    No,
}

impl Default for ResultTerms {
    fn default() -> Self {
        Self {
            inspecting: Inspecting::Yes,
            budget: Budget::of_tokens(25_000),
            max_artifacts: 50,
            max_artifact_bytes: 100 << 20,
            iframe_hosts: Vec::new(),
        }
    }
}

/// Which calls leave a row in the audit. Decisions always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Audited {
    /// Every call.
    #[default]
    All,
    /// Those that may change something, and those that were not made.
    Writes,
    /// None.
    None,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            expires: Duration::from_secs(300),
            wait: Duration::from_secs(50),
            approvers: Vec::new(),
            audited: Audited::All,
            results: ResultTerms::default(),
            letters: LetterTerms::default(),
            sampler: None,
            routing: RoutingTerms::default(),
            min_quality: toolbooth_core::lint::PASS_MARK,
            audience: Audience::Owner,
            gate: Gate::default(),
            exposure: Arc::default(),
            encoder: None,
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
    /// Whether a caller may answer for others.
    pub fn is_approver(&self, caller: &Caller) -> bool {
        caller.admin == Admin::Yes || self.approvers.iter().any(|group| caller.groups.contains(group))
    }
}
