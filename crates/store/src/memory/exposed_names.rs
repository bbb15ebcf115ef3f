//! Exposed names of tools in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::exposed_names::{ExposedName, ExposedNameStore, MAX_EXPOSED_NAMES, check_claims};
use async_trait::async_trait;
use std::collections::BTreeMap;
use toolbooth_core::names::ServerName;

/// The server of each name.
#[derive(Debug, Default)]
pub(super) struct ExposedNameTable(BTreeMap<String, ServerName>);

#[async_trait]
impl ExposedNameStore for MemoryStore {
    async fn claim_names(
        &self,
        claims: Vec<ExposedName>,
        _at_ms: i64,
    ) -> Result<Vec<ExposedName>, StoreError> {
        check_claims(&claims)?;
        self.with(|state| {
            let table = &mut state.exposed_names.0;
            let mut of_others = Vec::new();
            for ExposedName { name, server } in claims {
                match table.get(&name) {
                    Some(owner) if *owner == server => {}
                    Some(owner) => of_others.push(ExposedName { server: owner.clone(), name }),
                    None if table.len() >= MAX_EXPOSED_NAMES => {}
                    None => drop(table.insert(name, server)),
                }
            }
            Ok(of_others)
        })
    }

    async fn release_names(&self, server: &ServerName) -> Result<(), StoreError> {
        self.with(|state| {
            state.exposed_names.0.retain(|_, owner| *owner != *server);
            Ok(())
        })
    }
}
