//! Remembers servers that did not connect, so that the lists of the next start do not wait for them again.
//!
//! A record without a discovery is saved in place of the discovery; the first discovery of the server replaces it.

use crate::catalog::{START_WAIT, source_of};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::clock::Clock;
use toolbooth_store::{DiscoveryRecord, Store};
use toolbooth_upstream::{ServerState, Supervised};

/// How long a server may connect before it is remembered. One that downloads a package at its first start is slow only
/// once, so this is longer than lists wait for it.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The payload of a record without a discovery.
const PAYLOAD: &[u8] = br#"{"connected":false}"#;

/// Whether a record says that the server did not connect.
pub(super) fn is_without_connection(record: &DiscoveryRecord) -> bool {
    record.payload == PAYLOAD
}

/// Saves a record if a new server does not connect while lists wait for it.
pub(super) fn observe(server: &Arc<Supervised>, store: Arc<dyn Store>, clock: Arc<Clock>) {
    let (tried, server) = (server.tried(), Arc::downgrade(server));
    tokio::spawn(async move {
        let start = Instant::now();
        let ended = tokio::time::timeout(CONNECT_LIMIT, tried).await;
        // A server that fails quickly delays no list.
        if ended.is_ok() && start.elapsed() < START_WAIT {
            return;
        }
        let Some(server) = server.upgrade().filter(|server| server.state() != ServerState::Connected) else {
            return;
        };
        let record = DiscoveryRecord {
            server: server.entry.name.clone(),
            entry_hash: source_of(&server.entry),
            era: String::new(),
            saved_at_ms: clock.now_ms(),
            payload: Bytes::from_static(PAYLOAD),
        };
        if let Err(error) = store.save_discovery(record).await {
            tracing::debug!("it was not recorded that `{}` is slow to connect: {error}", server.entry.name);
        }
    });
}
