//! The audit in memory.

use crate::audit::{
    AuditFilter, CallCount, CallCountQuery, CallCounts, RESULT_BYTES, ResultSizeQuery, ResultSizes,
};
use crate::limits::{AuditRetention, MAX_AUDIT_PAGE};
use std::collections::{BTreeMap, VecDeque};
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow, ChainHead, Verifier};

/// The limit in memory, whatever the retention says: memory is scarcer than disk.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct AuditTable {
    rows: VecDeque<AuditRow>,
    base: ChainHead,
    head: ChainHead,
    scratch: Vec<u8>,
}

impl Default for AuditTable {
    fn default() -> Self {
        Self { rows: VecDeque::new(), base: ChainHead::START, head: ChainHead::START, scratch: Vec::new() }
    }
}

impl AuditTable {
    pub(super) fn add(&mut self, entry: AuditEntry) {
        let entry = entry.truncated();
        self.head = self.head.add(&entry, &mut self.scratch);
        let ChainHead { seq, position, hash } = self.head;
        self.rows.push_back(AuditRow { seq, position, hash, entry });
        // `purge` may never be called.
        self.drop_while(|row, head| row.position.saturating_add(MAX_BYTES) <= head.position);
    }

    pub(super) fn list(&self, filter: &AuditFilter) -> Vec<AuditRow> {
        let limit = filter.limit.unwrap_or(MAX_AUDIT_PAGE).min(MAX_AUDIT_PAGE);
        self.rows.iter().rev().filter(|row| filter.matches(row)).take(limit as usize).cloned().collect()
    }

    pub(super) fn call_counts(&self, query: &CallCountQuery) -> CallCounts {
        let mut counts: BTreeMap<(u32, &str), u64> = BTreeMap::new();
        for AuditRow { entry, .. } in &self.rows {
            let is_wanted = query.user.as_deref().is_none_or(|user| *user == *entry.user);
            if let Some(step) = query.step_of(entry.at_ms)
                && is_wanted
                && &*entry.kind == "call"
            {
                *counts.entry((step, &*entry.outcome)).or_default() += 1;
            }
        }
        let counts = counts.into_iter().map(|((step, outcome), calls)| CallCount {
            step,
            outcome: outcome.to_owned(),
            calls,
        });
        CallCounts { counts: counts.collect(), complete_from_ms: query.from_ms }
    }

    pub(super) fn result_sizes(&self, query: &ResultSizeQuery) -> ResultSizes {
        let (mut results, mut bytes) = (0, 0_u64);
        for AuditRow { entry, .. } in &self.rows {
            let is_wanted = query.user.as_deref().is_none_or(|user| *user == *entry.user);
            let is_within = (query.from_ms..query.until_ms).contains(&entry.at_ms);
            let size = entry.detail.as_ref().and_then(|detail| detail.member(RESULT_BYTES));
            if let Some(size) = size.and_then(|size| size.read::<u64>().ok())
                && is_wanted
                && is_within
                && &*entry.kind == "call"
            {
                results += 1;
                bytes = bytes.saturating_add(size);
            }
        }
        ResultSizes { results, bytes, complete_from_ms: query.from_ms }
    }

    pub(super) fn verify(&self) -> AuditReport {
        let mut verifier = Verifier::new(self.base);
        let _ = self.rows.iter().all(|row| verifier.check(row));
        verifier.finish(self.head)
    }

    pub(super) fn purge(&mut self, retention: AuditRetention, now_ms: i64) {
        self.drop_while(|row, head| retention.is_over(row.entry.at_ms, row.position, head.position, now_ms));
    }

    fn drop_while(&mut self, unwanted: impl Fn(&AuditRow, &ChainHead) -> bool) {
        while let Some(row) = self.rows.front()
            && unwanted(row, &self.head)
        {
            self.base = ChainHead { seq: row.seq, position: row.position, hash: row.hash };
            self.rows.pop_front();
        }
    }
}
