//! The pool of idle connections to one origin.

use super::client::{IDLE_LIMIT, MAX_IDLE, OriginClient};
use super::connection::HttpConnection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How often idle connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The idle connections of one thread, most recently used last.
#[derive(Debug, Default)]
pub(super) struct IdlePool {
    idle: Mutex<IdleConnections>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    connections: Vec<(HttpConnection, Instant)>,
    /// Whether a cleanup task is running.
    has_cleanup_task: bool,
}

impl IdlePool {
    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection that can be reused.
    pub(super) fn take(&self) -> Option<HttpConnection> {
        let mut idle = self.idle();
        while let Some((mut connection, since)) = idle.connections.pop() {
            if since.elapsed() > IDLE_LIMIT {
                idle.connections.clear(); // The rest are older.
                return None;
            }
            if connection.is_reusable() {
                return Some(connection);
            }
        }
        None
    }

    /// Adds a connection. `shard` is the index of this pool in its client.
    pub(super) fn put(&self, connection: HttpConnection, client: &Arc<OriginClient>, shard: usize) {
        let mut idle = self.idle();
        if idle.connections.len() >= MAX_IDLE {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        if !idle.has_cleanup_task
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            idle.has_cleanup_task = true;
            runtime.spawn(clean_up(Arc::downgrade(client), shard));
        }
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        self.idle().connections.clear();
    }

    /// Closes connections that are closed by the server or too old. Returns whether any are left.
    fn close_expired(&self) -> bool {
        let mut idle = self.idle();
        idle.connections
            .retain_mut(|(connection, since)| since.elapsed() <= IDLE_LIMIT && connection.is_reusable());
        for (connection, _) in
            idle.connections.iter_mut().filter(|(_, since)| since.elapsed() > CHECK_INTERVAL)
        {
            connection.release_buffer();
        }
        idle.has_cleanup_task = !idle.connections.is_empty();
        idle.has_cleanup_task
    }
}

/// Cleans up periodically while there are idle connections, which have no task that would notice a close.
async fn clean_up(client: Weak<OriginClient>, shard: usize) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(client) = client.upgrade() else { return };
        if !client.idle_pool(shard).close_expired() {
            return;
        }
    }
}
