//! Connections that read: at most two, opened when first needed.
//!
//! sqlx's own pool would run timers and a task for this. A start should not pay for them, and a
//! test that owns the clock would see its waiting callers time out.

use super::file::{DatabaseFile, discard};
use crate::StoreError;
use sqlx::SqliteConnection;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

const MAX_READERS: u32 = 2;

/// Hands out connections that read.
#[derive(Debug)]
pub(super) struct Readers {
    file: DatabaseFile,
    turns: Semaphore,
    idle: Mutex<Vec<SqliteConnection>>,
}

/// A borrowed connection. One that is not given back, after an error or a hang-up, is closed.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    readers: &'a Readers,
    connection: SqliteConnection,
    _turn: SemaphorePermit<'a>,
}

impl Readers {
    pub(super) fn new(file: DatabaseFile) -> Self {
        Self { file, turns: Semaphore::new(MAX_READERS as usize), idle: Mutex::default() }
    }

    /// Waits for a turn.
    pub(super) async fn take(&self) -> Result<Reader<'_>, StoreError> {
        let turn = self.turns.acquire().await.map_err(|_| StoreError::Closed)?;
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.file.connect_reader().await?,
        };
        Ok(Reader { readers: self, connection, _turn: turn })
    }

    /// Waits for those who read, and turns away whoever comes later.
    pub(super) async fn close(&self) {
        let Ok(turns) = self.turns.acquire_many(MAX_READERS).await else { return };
        self.turns.close();
        drop(turns);
        let idle = std::mem::take(&mut *self.idle());
        for connection in idle {
            discard(connection).await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SqliteConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<'_> {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Keeps the connection for the next reader.
    pub(super) fn give_back(self) {
        self.readers.idle().push(self.connection);
    }
}
