//! The store, the settings and the state that several parts of the engine use.

use crate::decision_cache::DecisionCache;
use crate::events::EventRing;
use crate::replica_mail::ReplicaMail;
use crate::rights_source::RightsSourceLink;
use crate::server_table::ServerTable;
use crate::terms::{SharedTerms, Terms};
use arc_swap::ArcSwap;
use std::sync::Arc;
use toolbooth_core::clock::Clock;
use toolbooth_store::{Store, StoreError};

/// The lowest layer of the engine, from which each part takes what it needs.
#[derive(Clone)]
pub(crate) struct SharedState {
    pub(crate) clock: Arc<Clock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) terms: SharedTerms,
    pub(crate) events: Arc<EventRing>,
    pub(crate) servers: Arc<ServerTable>,
    pub(crate) decisions: Arc<DecisionCache>,
    pub(crate) rights_source: Arc<RightsSourceLink>,
    pub(crate) replica_mail: Arc<ReplicaMail>,
}

impl SharedState {
    /// The state at the start, with a ring of this many events.
    pub(crate) async fn load(
        clock: Arc<Clock>,
        store: Arc<dyn Store>,
        terms: Terms,
        event_ring: usize,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            decisions: Arc::new(DecisionCache::load(&*store).await?),
            replica_mail: Arc::new(ReplicaMail::new(store.clone(), clock.clone())),
            store,
            terms: Arc::new(ArcSwap::from_pointee(terms)),
            events: EventRing::new(event_ring, clock.clone()),
            clock,
            servers: Arc::default(),
            rights_source: Arc::default(),
        })
    }
}
