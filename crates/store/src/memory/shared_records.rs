//! Shared records and leases in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::shared_records::{
    MAX_SHARED_PAGE, SharedKind, SharedRecord, SharedRecordStore, check_lease, check_names, check_shared,
};
use async_trait::async_trait;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(super) struct SharedRecordTable {
    records: BTreeMap<(SharedKind, String), SharedRecord>,
    /// The holder and the end of each lease.
    leases: HashMap<String, (String, i64)>,
}

impl SharedRecordTable {
    pub(super) fn purge(&mut self, now_ms: i64) {
        self.records.retain(|_, record| record.expires_ms > now_ms);
        self.leases.retain(|_, (_, until_ms)| *until_ms > now_ms);
    }
}

#[async_trait]
impl SharedRecordStore for MemoryStore {
    async fn save_shared(&self, record: SharedRecord) -> Result<(), StoreError> {
        check_shared(&record)?;
        self.with(|state| {
            let key = (record.kind, record.name.clone());
            let earlier = state.shared_records.records.get(&key);
            let has_ended =
                earlier.is_some_and(|earlier| earlier.kind == SharedKind::Session && earlier.body.is_empty());
            if !has_ended {
                state.shared_records.records.insert(key, record);
            }
            Ok(())
        })
    }

    async fn shared_record(&self, kind: SharedKind, name: &str) -> Result<Option<SharedRecord>, StoreError> {
        self.with(|state| Ok(state.shared_records.records.get(&(kind, name.to_owned())).cloned()))
    }

    async fn changed_records(
        &self,
        kind: SharedKind,
        since_ms: i64,
    ) -> Result<Vec<SharedRecord>, StoreError> {
        self.with(|state| {
            let is_changed = |record: &&SharedRecord| {
                record.kind == kind && record.changed_ms >= since_ms && record.changed_ms > 0
            };
            let mut found: Vec<SharedRecord> =
                state.shared_records.records.values().filter(is_changed).cloned().collect();
            found.sort_by_key(|record| std::cmp::Reverse(record.changed_ms));
            found.truncate(MAX_SHARED_PAGE);
            Ok(found)
        })
    }

    async fn extend_shared(
        &self,
        kind: SharedKind,
        names: Vec<String>,
        expires_ms: i64,
    ) -> Result<(), StoreError> {
        check_names(&names)?;
        self.with(|state| {
            for name in names {
                if let Some(record) = state.shared_records.records.get_mut(&(kind, name))
                    && !record.body.is_empty()
                {
                    record.expires_ms = expires_ms;
                }
            }
            Ok(())
        })
    }

    async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<bool, StoreError> {
        check_lease(name, holder)?;
        self.with(|state| {
            let leases = &mut state.shared_records.leases;
            let is_taken = leases.get(name).is_some_and(|(by, until)| by != holder && *until > now_ms);
            if !is_taken {
                leases.insert(name.to_owned(), (holder.to_owned(), until_ms));
            }
            Ok(!is_taken)
        })
    }

    async fn end_lease(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        check_lease(name, holder)?;
        self.with(|state| {
            let leases = &mut state.shared_records.leases;
            if leases.get(name).is_some_and(|(by, _)| by == holder) {
                leases.remove(name);
            }
            Ok(())
        })
    }
}
