//! Routing: which providers may serve a call of a caller, in which order, and reports on them.
//!
//! The state of providers is in `providers`, `core/provider` decides which may be tried, and `call/serving` tries
//! them.

mod choice;
mod report;

pub(crate) use choice::ProviderTarget;
pub use report::{ProviderReport, RouterReport, instance_key};

use crate::catalog::LiveCatalog;
use crate::providers::ProviderStates;
use crate::server_table::ServerTable;
use crate::shared_state::SharedState;
use crate::terms::SharedTerms;
use std::sync::Arc;
use toolbooth_core::clock::Clock;

/// The `_meta` key with the id of the provider that served the call.
pub const PROVIDER: &str = "toolbooth/provider";
/// The `_meta` key with the number of attempts, if more than one.
pub const ATTEMPTS: &str = "toolbooth/attempts";

/// Chooses the providers of calls.
pub struct Routing {
    clock: Arc<Clock>,
    catalog: Arc<LiveCatalog>,
    providers: Arc<ProviderStates>,
    servers: Arc<ServerTable>,
    terms: SharedTerms,
}

impl std::fmt::Debug for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routing").field("providers", &self.providers).finish_non_exhaustive()
    }
}

impl Routing {
    pub(crate) fn new(
        shared: &SharedState,
        catalog: Arc<LiveCatalog>,
        providers: Arc<ProviderStates>,
    ) -> Self {
        let SharedState { clock, servers, terms, .. } = shared.clone();
        Self { clock, catalog, providers, servers, terms }
    }

    /// The state of providers.
    pub(crate) fn providers(&self) -> &ProviderStates {
        &self.providers
    }
}
