//! Sessions of the console in memory.

use super::MemoryStore;
use crate::StoreError;
use crate::console_sessions::{
    ConsoleSessionRecord, ConsoleSessionStore, MAX_CONSOLE_SESSIONS, MAX_CONSOLE_SESSIONS_OF_USER,
    check_console_credential, check_console_session,
};
use async_trait::async_trait;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(super) struct ConsoleSessionTable(HashMap<[u8; 32], ConsoleSessionRecord>);

impl ConsoleSessionTable {
    pub(super) fn purge(&mut self, now_ms: i64) {
        self.0.retain(|_, session| session.until_ms >= now_ms && session.ends_ms >= now_ms);
    }

    /// Deletes the session that ends first, of one user or of all, if there are as many as `most`.
    fn trim(&mut self, user: Option<&str>, most: usize) {
        let counted = || self.0.values().filter(|session| user.is_none_or(|user| session.user == user));
        if counted().count() < most {
            return;
        }
        let first = counted().min_by_key(|session| session.until_ms).map(|session| session.digest);
        first.and_then(|digest| self.0.remove(&digest));
    }
}

#[async_trait]
impl ConsoleSessionStore for MemoryStore {
    async fn add_console_session(&self, session: ConsoleSessionRecord) -> Result<(), StoreError> {
        check_console_session(&session)?;
        self.with(|state| {
            let table = &mut state.console_sessions;
            table.trim(Some(&session.user), MAX_CONSOLE_SESSIONS_OF_USER);
            table.trim(None, MAX_CONSOLE_SESSIONS);
            table.0.entry(session.digest).or_insert(session);
            Ok(())
        })
    }

    async fn console_session(&self, digest: &[u8; 32]) -> Result<Option<ConsoleSessionRecord>, StoreError> {
        self.with(|state| Ok(state.console_sessions.0.get(digest).cloned()))
    }

    async fn extend_console_session(&self, digest: &[u8; 32], until_ms: i64) -> Result<(), StoreError> {
        self.with(|state| {
            if let Some(session) = state.console_sessions.0.get_mut(digest) {
                session.until_ms = until_ms;
            }
            Ok(())
        })
    }

    async fn replace_console_credential(
        &self,
        digest: &[u8; 32],
        credential: Vec<u8>,
    ) -> Result<(), StoreError> {
        check_console_credential(&credential)?;
        self.with(|state| {
            if let Some(session) = state.console_sessions.0.get_mut(digest) {
                session.credential = credential;
            }
            Ok(())
        })
    }

    async fn end_console_session(&self, digest: &[u8; 32]) -> Result<(), StoreError> {
        self.with(|state| {
            state.console_sessions.0.remove(digest);
            Ok(())
        })
    }
}
