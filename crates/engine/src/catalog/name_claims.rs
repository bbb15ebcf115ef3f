//! Claims of exposed names in the store. Gateways that share it give a name to the same server, whichever server answers
//! them first.

use super::LiveCatalog;
use crate::server_table::ServerTable;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use toolbooth_core::names::ServerName;
use toolbooth_store::{ExposedName, MAX_EXPOSED_NAMES, MAX_NAMES_OF_CLAIM, StoreError};

/// How long a list waits for the store. After that, the names are given out by this gateway alone.
const CLAIM_LIMIT: Duration = Duration::from_secs(2);

/// The names that this gateway found to belong to another server than the one that listed them.
#[derive(Debug, Default)]
pub(super) struct NameClaims(HashMap<Box<str>, ServerName>);

impl NameClaims {
    /// The server that has a name, if it runs here; it may not have listed the tool yet.
    pub(super) fn owner(&self, name: &str, servers: &ServerTable) -> Option<&ServerName> {
        self.0.get(name).filter(|owner| servers.entry(owner).is_some())
    }

    /// Whether a name belongs to another server.
    pub(super) fn is_of_other(&self, name: &str, server: &ServerName, servers: &ServerTable) -> bool {
        self.owner(name, servers).is_some_and(|owner| owner != server)
    }

    /// Claims names for the servers that listed them, and learns which of them belong to others.
    pub(super) async fn claim(&mut self, claims: &[ExposedName], catalog: &LiveCatalog) {
        for claims in claims.chunks(MAX_NAMES_OF_CLAIM) {
            match tokio::time::timeout(CLAIM_LIMIT, self.claim_some(claims, catalog)).await {
                Ok(Ok(())) => {}
                Ok(Err(StoreError::Closed)) => return,
                Ok(Err(error)) => {
                    tracing::warn!("names of tools could not be claimed in the store: {error}");
                    return;
                }
                Err(_) => {
                    tracing::warn!("names of tools could not be claimed in the store in time");
                    return;
                }
            }
        }
    }

    /// Gives back the names of servers that leave.
    pub(super) async fn release(&mut self, servers: &[&ServerName], catalog: &LiveCatalog) {
        for server in servers {
            self.0.retain(|_, owner| *owner != **server);
            let released = catalog.shared.store.release_names(server);
            match tokio::time::timeout(CLAIM_LIMIT, released).await {
                Ok(Ok(()) | Err(StoreError::Closed)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(server.name = %server, "names of tools could not be released in the store: {error}");
                }
                Err(_) => {
                    tracing::warn!("names of tools could not be released in the store in time");
                    return;
                }
            }
        }
    }

    async fn claim_some(&mut self, claims: &[ExposedName], catalog: &LiveCatalog) -> Result<(), StoreError> {
        let (store, servers) = (&catalog.shared.store, &catalog.shared.servers);
        let at_ms = catalog.shared.clock.now_ms();
        let mut of_others = store.claim_names(claims.to_vec(), at_ms).await?;
        let gone: BTreeSet<ServerName> = of_others
            .iter()
            .filter(|name| servers.entry(&name.server).is_none())
            .map(|name| name.server.clone())
            .collect();
        if !gone.is_empty() {
            for server in &gone {
                store.release_names(server).await?;
            }
            of_others = store.claim_names(claims.to_vec(), at_ms).await?;
        }
        for claim in claims {
            self.0.remove(claim.name.as_str());
        }
        let room = MAX_EXPOSED_NAMES.saturating_sub(self.0.len());
        let learnt = of_others.into_iter().take(room);
        self.0.extend(learnt.map(|name| (name.name.into_boxed_str(), name.server)));
        Ok(())
    }
}
