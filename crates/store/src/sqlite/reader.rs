//! The pool of read connections: at most two, opened on first use.
//!
//! sqlx's own pool runs timers and a task. They would slow the start, and on a paused test clock they would time out
//! waiting callers.

use super::file::{DatabaseFile, discard};
use crate::StoreError;
use sqlx::SqliteConnection;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

const MAX_READERS: u32 = 2;

/// A pool of read connections.
#[derive(Debug)]
pub(super) struct ReadPool {
    file: DatabaseFile,
    turns: Semaphore,
    idle: Mutex<Vec<SqliteConnection>>,
}

/// A borrowed connection. It is closed, not reused, if it is dropped without `give_back`, as after an error.
#[derive(Debug)]
pub(super) struct ReadConnection<'a> {
    readers: &'a ReadPool,
    connection: SqliteConnection,
    _turn: SemaphorePermit<'a>,
}

impl ReadPool {
    pub(super) fn new(file: DatabaseFile) -> Self {
        Self { file, turns: Semaphore::new(MAX_READERS as usize), idle: Mutex::default() }
    }

    /// Takes a connection; waits while all are in use.
    pub(super) async fn take(&self) -> Result<ReadConnection<'_>, StoreError> {
        let turn = self.turns.acquire().await.map_err(|_| StoreError::Closed)?;
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.file.connect_reader().await?,
        };
        Ok(ReadConnection { readers: self, connection, _turn: turn })
    }

    /// Waits for running reads, then closes all connections; later reads fail.
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

impl ReadConnection<'_> {
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Returns the connection to the pool.
    pub(super) fn give_back(self) {
        self.readers.idle().push(self.connection);
    }
}
