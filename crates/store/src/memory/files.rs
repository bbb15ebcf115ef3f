//! Files in memory.

use crate::StoreError;
use crate::files::{FileFilter, FileQuota};
use crate::limits::MAX_FILES_PAGE;
use std::collections::HashMap;
use toolbooth_core::file::FileRow;
use uuid::Uuid;

#[derive(Debug, Default)]
pub(super) struct FileTable {
    // In the order they were added.
    rows: Vec<FileRow>,
    grants: HashMap<Uuid, i64>,
}

impl FileTable {
    pub(super) fn usage(&self, user: &str) -> (u64, u64) {
        let own = self.rows.iter().filter(|row| row.user == user);
        own.fold((0, 0), |(files, bytes), row| (files + 1, row.size_bytes.saturating_add(bytes)))
    }

    pub(super) fn before(&self, created_ms: i64) -> Vec<Uuid> {
        let old = self.rows.iter().filter(|row| row.created_ms < created_ms);
        old.take(MAX_FILES_PAGE as usize).map(|row| row.id).collect()
    }

    pub(super) fn add(&mut self, mut new: FileRow, quota: FileQuota) -> Result<FileRow, StoreError> {
        if let Some(kept) = self.find(new.id) {
            new.version = kept.version;
            let taken = StoreError::Taken { what: "file", name: new.id.to_string() };
            return if kept == new { Ok(kept) } else { Err(taken) };
        }
        let (files, bytes) = self.usage(&new.user);
        quota.check(files, bytes, new.size_bytes)?;
        let same =
            |row: &&FileRow| row.user == new.user && row.session == new.session && row.name == new.name;
        let last = self.rows.iter().filter(same).map(|row| row.version).max();
        new.version = last.unwrap_or(0).saturating_add(1);
        self.rows.push(new.clone());
        Ok(new)
    }

    pub(super) fn find(&self, id: Uuid) -> Option<FileRow> {
        self.rows.iter().find(|row| row.id == id).cloned()
    }

    pub(super) fn named(&self, user: &str, session: Option<&str>, name: &str) -> Option<FileRow> {
        let meant = self.rows.iter().filter(|row| row.user == user && row.name.as_str() == name);
        let meant = meant.filter(|row| row.session.is_none() || row.session.as_deref() == session);
        meant.max_by_key(|row| (row.session.is_some(), row.version)).cloned()
    }

    pub(super) fn list(&self, filter: &FileFilter) -> Vec<FileRow> {
        let limit = filter.limit.unwrap_or(MAX_FILES_PAGE).min(MAX_FILES_PAGE) as usize;
        let end = match filter.before {
            None => self.rows.len(),
            Some(before) => self.rows.iter().position(|row| row.id == before).unwrap_or(0),
        };
        self.rows[..end].iter().rev().filter(|row| filter.matches(row)).take(limit).cloned().collect()
    }

    pub(super) fn known(&self, ids: &[Uuid]) -> Vec<Uuid> {
        self.rows.iter().map(|row| row.id).filter(|id| ids.contains(id)).collect()
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<FileRow> {
        let place = self.rows.iter().position(|row| row.id == id)?;
        Some(self.rows.remove(place))
    }

    pub(super) fn open_grant(&mut self, call: Uuid, until_ms: i64) {
        self.grants.insert(call, until_ms);
    }

    pub(super) fn end_grant(&mut self, call: Uuid, until_ms: i64) {
        if let Some(until) = self.grants.get_mut(&call) {
            *until = until_ms.min(*until);
        }
    }

    pub(super) fn end_grants(&mut self, until_ms: i64) {
        self.grants.values_mut().for_each(|until| *until = until_ms.min(*until));
    }

    pub(super) fn grant(&self, call: Uuid) -> Option<i64> {
        self.grants.get(&call).copied()
    }

    pub(super) fn purge(&mut self, now_ms: i64) {
        self.grants.retain(|_, until_ms| *until_ms > now_ms);
    }
}
