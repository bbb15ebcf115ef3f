//! The pools of idle connections to one origin, one for each thread.

use super::connection::HttpConnection;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum age of an idle connection: servers close them at about that age.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of idle connections per origin.
pub(super) const MAX_IDLE: usize = 256;
/// Number of shards of idle connections.
pub(super) const SHARDS: usize = 16;
/// How often idle connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The shard of this thread. A connection is driven by the runtime that opened it, so it is kept for that
/// runtime's thread: using it from another would wake a thread across runtimes for every call.
pub(super) fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

/// The idle connections of all threads.
#[derive(Debug, Default)]
pub(super) struct IdlePools {
    shards: [IdlePool; SHARDS],
}

impl IdlePools {
    /// Takes a connection of this thread that can be reused.
    pub(super) fn take(&self) -> Option<HttpConnection> {
        self.shards[shard()].take()
    }

    /// Adds a connection for this thread.
    pub(super) fn put(self: &Arc<Self>, connection: HttpConnection) {
        let index = shard();
        self.shards[index].put(connection, self, index);
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        self.shards.iter().for_each(IdlePool::clear);
    }
}

/// The idle connections of one thread, most recently used last.
#[derive(Debug, Default)]
struct IdlePool {
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
    fn take(&self) -> Option<HttpConnection> {
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

    /// Adds a connection. `index` is the position of this pool in `pools`.
    fn put(&self, connection: HttpConnection, pools: &Arc<IdlePools>, index: usize) {
        let mut idle = self.idle();
        if idle.connections.len() >= MAX_IDLE {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        if !idle.has_cleanup_task
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            idle.has_cleanup_task = true;
            runtime.spawn(clean_up(Arc::downgrade(pools), index));
        }
    }

    /// Closes all idle connections.
    fn clear(&self) {
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
async fn clean_up(pools: Weak<IdlePools>, index: usize) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(pools) = pools.upgrade() else { return };
        if !pools.shards[index].close_expired() {
            return;
        }
    }
}
