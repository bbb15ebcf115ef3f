//! Health windows in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::health::{HEALTH_MS, HealthRow, HealthStore, MAX_HEALTH, check_health};
use async_trait::async_trait;
use std::collections::BTreeMap;

/// Windows by subject, server and name.
#[derive(Debug, Default)]
pub(super) struct HealthTable(BTreeMap<(String, String, String), HealthRow>);

impl HealthTable {
    pub(super) fn purge(&mut self, now_ms: i64) {
        self.0.retain(|_, row| row.saved_ms >= now_ms.saturating_sub(HEALTH_MS));
    }
}

#[async_trait]
impl HealthStore for MemoryStore {
    async fn save_health(&self, rows: Vec<HealthRow>) -> Result<(), StoreError> {
        check_health(&rows)?;
        self.with(|state| {
            for row in rows {
                let key = (row.subject.clone(), row.server.clone(), row.name.clone());
                state.health.0.insert(key, row);
            }
            Ok(())
        })
    }

    async fn health(&self) -> Result<Vec<HealthRow>, StoreError> {
        self.with(|state| {
            let mut rows: Vec<HealthRow> = state.health.0.values().cloned().collect();
            rows.sort_by_key(|row| std::cmp::Reverse(row.saved_ms));
            rows.truncate(MAX_HEALTH);
            Ok(rows)
        })
    }
}
