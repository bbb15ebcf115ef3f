//! The call pipeline: the parts of the engine that the stages of a call use.

use super::allowance::AllowanceMeter;
use super::recent_results::RecentResults;
use super::seal::CallSealer;
use crate::approvals::{Approvals, Plans};
use crate::audit::AuditLog;
use crate::call_metrics::CallMetrics;
use crate::catalog::LiveCatalog;
use crate::dead_letters::DeadLetters;
use crate::decision_cache::DecisionCache;
use crate::events::EventRing;
use crate::exposure::Exposure;
use crate::files::CallerFiles;
use crate::health::HealthMonitor;
use crate::own::OwnTools;
use crate::routing::Routing;
use crate::server_table::ServerTable;
use crate::shared_state::SharedState;
use crate::skills::Skills;
use crate::terms::SharedTerms;
use crate::trace::Tracing;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::clock::Clock;
use toolbooth_core::sampling::TokenBudget;
use toolbooth_store::Store;

/// Runs calls through the stages. Holds the parts that the stages use, and what only calls need.
pub struct CallPipeline {
    pub(super) clock: Arc<Clock>,
    pub(super) store: Arc<dyn Store>,
    pub(super) terms: SharedTerms,
    pub(super) catalog: Arc<LiveCatalog>,
    pub(super) servers: Arc<ServerTable>,
    pub(super) decisions: Arc<DecisionCache>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) plans: Arc<Plans>,
    pub(super) dead_letters: Arc<DeadLetters>,
    pub(super) exposure: Arc<Exposure>,
    pub(super) own_tools: Arc<OwnTools>,
    pub(super) routing: Arc<Routing>,
    pub(super) skills: Arc<Skills>,
    pub(super) files: Arc<CallerFiles>,
    pub(super) health: Arc<HealthMonitor>,
    pub(super) audit: Arc<AuditLog>,
    pub(super) events: Arc<EventRing>,
    pub(super) tracing: Arc<Tracing>,
    pub(super) metrics: CallMetrics,
    pub(super) recent_results: RecentResults,
    pub(super) allowances: Arc<AllowanceMeter>,
    pub(super) sealer: CallSealer,
    /// The hard limit on the duration of a call.
    pub(super) max_call: Duration,
    /// An audit entry with the fields that all calls share.
    pub(super) blank_entry: AuditEntry,
    /// How much servers have used the gateway's model today. A reload does not reset it.
    pub(super) day_book: Arc<Mutex<TokenBudget>>,
}

impl std::fmt::Debug for CallPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallPipeline").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

/// The parts that the stages of a call use.
pub(crate) struct PipelineParts {
    pub(crate) catalog: Arc<LiveCatalog>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) dead_letters: Arc<DeadLetters>,
    pub(crate) exposure: Arc<Exposure>,
    pub(crate) own_tools: Arc<OwnTools>,
    pub(crate) routing: Arc<Routing>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) files: Arc<CallerFiles>,
    pub(crate) health: Arc<HealthMonitor>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) tracing: Arc<Tracing>,
}

impl CallPipeline {
    /// The calls that wait for a person.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// A pipeline of these parts, with a hard limit on the duration of a call and a size limit of `_mcp_data`.
    pub(crate) fn new(
        shared: &SharedState,
        parts: PipelineParts,
        max_call: Duration,
        mcp_data_bytes: usize,
    ) -> Self {
        let SharedState { clock, store, terms, events, servers, decisions, rights_source: _, replica_mail } =
            shared.clone();
        Self {
            allowances: Arc::new(AllowanceMeter::new(terms.clone(), clock.clone(), replica_mail)),
            sealer: CallSealer::new(mcp_data_bytes),
            metrics: CallMetrics::default(),
            recent_results: RecentResults::default(),
            max_call,
            blank_entry: AuditEntry::new(0, "call", "", ""),
            day_book: Arc::default(),
            clock,
            store,
            terms,
            events,
            servers,
            decisions,
            catalog: parts.catalog,
            approvals: parts.approvals,
            plans: parts.plans,
            dead_letters: parts.dead_letters,
            exposure: parts.exposure,
            own_tools: parts.own_tools,
            routing: parts.routing,
            skills: parts.skills,
            files: parts.files,
            health: parts.health,
            audit: parts.audit,
            tracing: parts.tracing,
        }
    }

    /// The results of recent calls.
    pub fn recent_results(&self) -> &RecentResults {
        &self.recent_results
    }

    /// Metrics of finished calls.
    pub fn metrics(&self) -> &CallMetrics {
        &self.metrics
    }
}
