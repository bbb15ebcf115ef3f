//! The state of providers: circuit breakers, health checks, and the queues of tools that take one call at a time.
//!
//! Tools without providers and without a limit on concurrent calls have no state here. `instance` keeps the state of
//! each provider, and `checks` tests on a timer whether it works. `routing` chooses among them.

mod call_queue;
mod checks;
mod instance;

pub(crate) use instance::Instance;

use crate::server_table::ServerTable;
use call_queue::CallQueue;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use toolbooth_core::catalog::{Catalog, Tool};
use toolbooth_core::manifest::{Parallel, ToolTerms};
use toolbooth_core::provider::by_priority;

/// The providers of one tool, in the order to try them.
#[derive(Debug)]
pub(crate) struct Providers {
    terms: Arc<ToolTerms>,
    /// Each with its index in the tool's terms.
    pub(crate) ordered: Vec<(usize, Arc<Instance>)>,
}

/// The state of all providers.
#[derive(Debug)]
pub(crate) struct ProviderStates {
    servers: Arc<ServerTable>,
    started: Instant,
    tools: Mutex<HashMap<String, Arc<Providers>>>,
    /// Queues of tools that have no providers and take one call at a time.
    queues: Mutex<HashMap<String, Arc<CallQueue>>>,
    /// Whether the health checks were started.
    checks_started: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProviderStates {
    pub(crate) fn new(servers: Arc<ServerTable>) -> Self {
        Self {
            servers,
            started: Instant::now(),
            tools: Mutex::default(),
            queues: Mutex::default(),
            checks_started: AtomicBool::new(false),
        }
    }

    /// Milliseconds since the gateway started, by a monotonic clock.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Updates the state for a new catalog, and starts the health checks if any provider needs them. A provider whose
    /// entry did not change keeps its state.
    pub(crate) fn follow(self: &Arc<Self>, catalog: &Catalog) {
        let tools = catalog.servers().values().flat_map(|server| &server.tools);
        let mut after = HashMap::new();
        let mut one_at_a_time = HashSet::new();
        let mut needs_checks = false;
        for tool in tools {
            if !tool.terms.providers.is_empty() {
                let providers = self.of(tool);
                needs_checks |=
                    providers.ordered.iter().any(|(_, one)| !one.spec.health_check_interval.is_zero());
                after.insert(tool.canonical(), providers);
            } else if tool.terms.parallel == Parallel::OneAtATime {
                one_at_a_time.insert(tool.canonical());
            }
        }
        *locked(&self.tools) = after;
        locked(&self.queues).retain(|name, _| one_at_a_time.contains(name));
        if needs_checks && !self.checks_started.swap(true, Ordering::AcqRel) {
            checks::run_checks(Arc::downgrade(self));
        }
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

/// A random number from 0 to 1. Without randomness it is 1, which only makes pauses longer.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    if getrandom::fill(&mut bytes).is_err() {
        return 1.0;
    }
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
