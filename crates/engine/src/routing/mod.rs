//! Routing of calls to providers, and the state of providers: circuit breakers, health, queues.
//!
//! Tools without providers and without a limit on concurrent calls have no state here.
//!
//! For a tool with providers, `attempts` tries them in order under one deadline. `instance` keeps the state of each,
//! and `core/provider` decides which may be tried. A provider that is a server's tool gets its own draft
//! (`core/call/reroute.rs`) and is sealed again, so a mapping cannot set arguments that the gateway supplies.

mod attempts;
mod call_queue;
mod fault;
mod health;
mod hedge;
mod inner;
mod instance;
mod report;
mod serve;
mod value;

pub use attempts::instance_key;
pub(crate) use attempts::{DispatchOptions, FromTimeout, random_fraction};
pub(crate) use fault::ProviderFault;
pub(crate) use inner::{InnerQuestion, ProviderOutcome};
pub use report::{ProviderReport, RouterReport};
pub use value::{ATTEMPTS, PROVIDER};

use crate::engine::Engine;
use call_queue::CallQueue;
use instance::Instance;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::allowance::{Allowance, UsageMeter};
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::{Catalog, Tool};
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{CredentialNeed, Parallel, ToolTerms};
use toolbooth_core::provider::by_priority;
use toolbooth_core::retry::RetryTerms;
use toolbooth_upstream::llm::LlmClient;
use uuid::Uuid;

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

/// The providers of one tool, in the order to try them.
#[derive(Debug)]
pub(crate) struct Providers {
    terms: Arc<ToolTerms>,
    /// Each with its index in the tool's terms.
    pub(crate) ordered: Vec<(usize, Arc<Instance>)>,
}

/// The state of all providers.
#[derive(Debug)]
pub(crate) struct Routing {
    started: Instant,
    tools: Mutex<HashMap<String, Arc<Providers>>>,
    /// Queues of tools that have no providers and take one call at a time.
    queues: Mutex<HashMap<String, Arc<CallQueue>>>,
    pub(crate) spending: Mutex<UsageMeter>,
    /// Whether the health checks were started.
    checks_started: AtomicBool,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            tools: Mutex::default(),
            queues: Mutex::default(),
            spending: Mutex::default(),
            checks_started: AtomicBool::new(false),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Routing {
    /// Milliseconds since the gateway started, by a monotonic clock.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Updates the state for a new catalog. A provider whose entry did not change keeps its state.
    pub(crate) fn follow(&self, catalog: &Catalog) -> HealthChecks {
        let tools = catalog.servers().values().flat_map(|server| &server.tools);
        let mut after = HashMap::new();
        let mut one_at_a_time = HashSet::new();
        let mut checks = HealthChecks::Unneeded;
        for tool in tools {
            if !tool.terms.providers.is_empty() {
                let providers = self.of(tool);
                if providers.ordered.iter().any(|(_, one)| !one.spec.health_check_interval.is_zero()) {
                    checks = HealthChecks::Needed;
                }
                after.insert(tool.canonical(), providers);
            } else if tool.terms.parallel == Parallel::OneAtATime {
                one_at_a_time.insert(tool.canonical());
            }
        }
        *locked(&self.tools) = after;
        locked(&self.queues).retain(|name, _| one_at_a_time.contains(name));
        checks
    }

    /// The providers of a tool.
    pub(crate) fn of(&self, tool: &Tool) -> Arc<Providers> {
        let name = tool.canonical();
        let mut tools = locked(&self.tools);
        let before = tools.get(&name);
        if let Some(known) = before.filter(|known| Arc::ptr_eq(&known.terms, &tool.terms)) {
            return known.clone();
        }
        let specs = &tool.terms.providers;
        let instance = |index: usize| {
            let spec = &specs[index];
            let same = before.and_then(|before| {
                before.ordered.iter().map(|(_, one)| one).find(|one| one.spec == *spec).cloned()
            });
            (index, same.unwrap_or_else(|| Arc::new(Instance::new(spec.clone()))))
        };
        let ordered = by_priority(specs).into_iter().map(instance).collect();
        let providers = Arc::new(Providers { terms: tool.terms.clone(), ordered });
        tools.insert(name, providers.clone());
        providers
    }

    /// The queue of a tool that takes one call at a time on its own server.
    pub(crate) fn queue_of(&self, tool: &Tool) -> Arc<CallQueue> {
        locked(&self.queues).entry(tool.canonical()).or_default().clone()
    }

    fn instances(&self) -> Vec<Arc<Instance>> {
        let tools = locked(&self.tools);
        tools.values().flat_map(|providers| providers.ordered.iter().map(|(_, one)| one.clone())).collect()
    }
}

/// Whether any provider needs health checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealthChecks {
    Needed,
    Unneeded,
}

impl Engine {
    /// Whether a variable is set in the environment or in `env_file`. Its value is not available here.
    pub fn has_variable(&self, name: &str) -> bool {
        self.manifests().variables.contains(name)
    }

    /// The names of required variables of a provider that are not set.
    pub(crate) fn missing(&self, terms: &ToolTerms, one: &Instance) -> Vec<String> {
        let hints = [terms.auth.as_ref(), one.spec.auth.as_ref()];
        let needed = hints.into_iter().flatten().flat_map(|auth| &auth.envs);
        let mut needed = needed.filter(|env| env.need == CredentialNeed::Required).peekable();
        if needed.peek().is_none() {
            return Vec::new();
        }
        let mut missing: Vec<String> =
            needed.filter(|env| !self.has_variable(&env.name)).map(|env| env.name.clone()).collect();
        missing.dedup();
        missing
    }

    /// Updates the providers for a new catalog, and starts their health checks if any needs them.
    pub(crate) fn follow_providers(&self, catalog: &Catalog) {
        let checks = self.routing().follow(catalog);
        if checks == HealthChecks::Needed && !self.routing().checks_started.swap(true, Ordering::AcqRel) {
            health::run_checks(self.weak());
        }
    }
}

/// The `_meta` key of the idempotency key, which is the same for all attempts of one call.
pub const IDEMPOTENCY_KEY: &str = "toolbooth/idempotency-key";

/// Adds the idempotency key to a call, if its tool wants one.
pub(crate) fn keyed(mut sealed: Sealed, call: Uuid) -> Sealed {
    if sealed.tool().terms.idempotency_key {
        sealed.add_meta(IDEMPOTENCY_KEY, RawJson::from_value(&call.to_string()));
    }
    sealed
}

/// How often the gateway checks which health checks are due.
const TICK: Duration = Duration::from_millis(500);
