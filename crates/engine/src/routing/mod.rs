//! The living state of providers: breakers, health, turns.
//!
//! Tools without providers and without a limit on overlapping calls have nothing here, and pay nothing.

mod attempts;
mod fault;
mod health;
mod hedge;
mod inner;
mod instance;
mod report;
mod serve;
mod turns;
mod value;

pub use attempts::instance_key;
pub(crate) use attempts::{Manner, Overdue, dice};
pub(crate) use fault::ProviderFault;
pub(crate) use inner::{InnerQuestion, Served};
pub use report::{ProviderReport, RouterReport};
pub use value::{ATTEMPTS, PROVIDER};

use crate::engine::Engine;
use instance::Instance;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use toolbooth_core::allowance::{Allowance, Spending};
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::{Catalog, Tool};
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{Need, Parallel, ToolTerms};
use toolbooth_core::provider::by_priority;
use toolbooth_core::retry::RetryTerms;
use toolbooth_upstream::llm::Llm;
use turns::Turns;
use uuid::Uuid;

/// What the configuration says about routing.
#[derive(Debug, Clone)]
pub struct RoutingTerms {
    /// How failed calls are tried again.
    pub retry: RetryTerms,
    /// How many calls may wait for one tool that takes one at a time.
    pub queue: usize,
    /// What one caller may use, where that is limited.
    pub allowance: Option<Allowance>,
    /// The longest answer of an HTTP service.
    pub longest_answer: usize,
    /// The model that answers for tools that a model serves.
    pub assistant: Option<Arc<Assistant>>,
}

/// The model that answers for tools.
#[derive(Debug)]
pub struct Assistant {
    /// The endpoint.
    pub llm: Llm,
    /// Its model where a provider names none.
    pub model: String,
    /// The most tokens of one answer.
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
    /// Each with its place in the tool's terms.
    pub(crate) ordered: Vec<(usize, Arc<Instance>)>,
}

/// The living state of all providers.
#[derive(Debug)]
pub(crate) struct Routing {
    started: Instant,
    tools: Mutex<HashMap<String, Arc<Providers>>>,
    /// Turns of tools that have no providers and take one call at a time.
    turns: Mutex<HashMap<String, Arc<Turns>>>,
    pub(crate) spending: Mutex<Spending>,
    /// Whether somebody looks after health checks already.
    watched: AtomicBool,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            tools: Mutex::default(),
            turns: Mutex::default(),
            spending: Mutex::default(),
            watched: AtomicBool::new(false),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Routing {
    /// Milliseconds since the gateway started: a clock that never goes back.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Brings the state in line with a catalog. A provider whose entry is the same keeps what is known of it.
    pub(crate) fn follow(&self, catalog: &Catalog) -> Watching {
        let tools = catalog.servers().values().flat_map(|server| &server.tools);
        let mut after = HashMap::new();
        let mut one_at_a_time = HashSet::new();
        let mut watching = Watching::Nothing;
        for tool in tools {
            if !tool.terms.providers.is_empty() {
                let providers = self.of(tool);
                if providers.ordered.iter().any(|(_, one)| !one.spec.health_check_interval.is_zero()) {
                    watching = Watching::Something;
                }
                after.insert(tool.canonical(), providers);
            } else if tool.terms.parallel == Parallel::OneAtATime {
                one_at_a_time.insert(tool.canonical());
            }
        }
        *locked(&self.tools) = after;
        locked(&self.turns).retain(|name, _| one_at_a_time.contains(name));
        watching
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

    /// The turns of a tool that takes one call at a time on its own server.
    pub(crate) fn turns(&self, tool: &Tool) -> Arc<Turns> {
        locked(&self.turns).entry(tool.canonical()).or_default().clone()
    }

    fn instances(&self) -> Vec<Arc<Instance>> {
        let tools = locked(&self.tools);
        tools.values().flat_map(|providers| providers.ordered.iter().map(|(_, one)| one.clone())).collect()
    }
}

/// Whether any provider is to be looked at when nobody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    Something,
    Nothing,
}

impl Engine {
    /// Whether a variable is set for the gateway, by the environment or the file of `env_file`. What it holds is not told.
    pub fn has_variable(&self, name: &str) -> bool {
        self.manifests().variables.contains(name)
    }

    /// The variables that a provider cannot do without and that are not set. What they hold, nobody here knows.
    pub(crate) fn missing(&self, terms: &ToolTerms, one: &Instance) -> Vec<String> {
        let hints = [terms.auth.as_ref(), one.spec.auth.as_ref()];
        let needed = hints.into_iter().flatten().flat_map(|auth| &auth.envs);
        let mut needed = needed.filter(|env| env.need == Need::Required).peekable();
        if needed.peek().is_none() {
            return Vec::new();
        }
        let mut missing: Vec<String> =
            needed.filter(|env| !self.has_variable(&env.name)).map(|env| env.name.clone()).collect();
        missing.dedup();
        missing
    }

    /// Brings the providers in line with the catalog, and looks after their health where any asks for it.
    pub(crate) fn follow_providers(&self, catalog: &Catalog) {
        let watching = self.routing().follow(catalog);
        if watching == Watching::Something && !self.routing().watched.swap(true, Ordering::AcqRel) {
            health::watch(self.weak());
        }
    }
}

/// Where a server is told a key that stays the same over all attempts of one call.
pub const IDEMPOTENCY_KEY: &str = "toolbooth/idempotency-key";

/// The same call, with its key where its tool wants one.
pub(crate) fn keyed(mut sealed: Sealed, call: Uuid) -> Sealed {
    if sealed.tool().terms.idempotency_key {
        sealed.say(IDEMPOTENCY_KEY, RawJson::from_value(&call.to_string()));
    }
    sealed
}

/// How often it is looked who is due for a health check.
const TICK: Duration = Duration::from_millis(500);
