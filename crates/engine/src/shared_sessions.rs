//! Sessions of legacy clients in a shared store, so that any gateway can serve any request of a client.
//!
//! The content of a session is the front end's. It is written when a session begins and when it changes, and read only
//! by a gateway that does not know the session yet, or that learns of a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use toolbooth_core::clock::Clock;
use toolbooth_store::{MAX_SHARED_PAGE, SharedKind, SharedRecord, Store, StoreError};

/// How long an unused session is kept.
const KEPT_MS: i64 = 2 * 3_600_000;
/// How long the end of a session is kept, for gateways that notice it late.
const ENDED_KEPT_MS: i64 = 5 * 60_000;
/// How far the clocks of gateways may differ.
const CLOCK_DIFFERENCE_MS: i64 = 10_000;
/// How often the expiry of used sessions is moved.
const EXTEND_EVERY_MS: i64 = 10 * 60_000;
/// The length of a session id.
const ID_LENGTH: usize = 32;

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Its id.
    pub id: String,
    /// The user that it belongs to.
    pub user: String,
    /// Its content; empty if the session has ended.
    pub body: String,
}

/// The sessions in a shared store.
pub struct SharedSessions {
    store: Arc<dyn Store>,
    clock: Arc<Clock>,
    /// Changes before this time were read.
    read_until_ms: AtomicI64,
    extended_ms: AtomicI64,
}

impl std::fmt::Debug for SharedSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSessions").finish_non_exhaustive()
    }
}

impl SharedSessions {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<Clock>) -> Self {
        let now_ms = clock.now_ms();
        Self { store, clock, read_until_ms: AtomicI64::new(now_ms), extended_ms: AtomicI64::new(now_ms) }
    }

    /// Whether sessions are stored: only if other gateways can use the store.
    pub fn are_stored(&self) -> bool {
        self.store.is_shared()
    }

    /// Stores a new session.
    pub async fn add(&self, session: StoredSession) {
        self.save(session, 0).await;
    }

    /// Stores a changed session; one with an empty body has ended.
    pub async fn change(&self, session: StoredSession) {
        self.save(session, self.clock.now_ms()).await;
    }

    async fn save(&self, session: StoredSession, changed_ms: i64) {
        if !self.are_stored() {
            return;
        }
        let StoredSession { id, user, body } = session;
        let kept_ms = if body.is_empty() { ENDED_KEPT_MS } else { KEPT_MS };
        let expires_ms = self.clock.now_ms().saturating_add(kept_ms);
        let record = SharedRecord { kind: SharedKind::Session, name: id, user, body, changed_ms, expires_ms };
        // The session still works at this gateway.
        if let Err(error) = self.store.save_shared(record).await {
            tracing::warn!("a session could not be stored for other gateways: {error}");
        }
    }

    /// Reads a session. `None` if it is unknown, has expired or ended, or cannot be read.
    pub async fn find(&self, id: &str) -> Option<StoredSession> {
        let found = self.read(id).await.ok().flatten();
        found.filter(|session| !session.body.is_empty())
    }

    /// Reads a session, also one that has ended.
    pub async fn read(&self, id: &str) -> Result<Option<StoredSession>, StoreError> {
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !self.are_stored() || !is_id {
            return Ok(None);
        }
        let found = self.store.shared_record(SharedKind::Session, id).await?;
        let found = found.filter(|record| record.expires_ms > self.clock.now_ms());
        Ok(found.map(stored))
    }

    /// The sessions that were changed since the last call.
    pub async fn changed(&self) -> Vec<StoredSession> {
        let now_ms = self.clock.now_ms();
        let since_ms = self.read_until_ms.load(Ordering::Relaxed).saturating_sub(CLOCK_DIFFERENCE_MS);
        match self.store.changed_records(SharedKind::Session, since_ms).await {
            Ok(records) => {
                self.read_until_ms.store(now_ms, Ordering::Relaxed);
                records.into_iter().map(stored).collect()
            }
            Err(error) => {
                tracing::warn!("changed sessions could not be read: {error}");
                Vec::new()
            }
        }
    }

    /// Whether it is time to move the expiry of used sessions; true once in each interval.
    pub fn is_extension_due(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let last_ms = self.extended_ms.load(Ordering::Relaxed);
        let is_due = self.are_stored() && now_ms.saturating_sub(last_ms) >= EXTEND_EVERY_MS;
        if is_due {
            self.extended_ms.store(now_ms, Ordering::Relaxed);
        }
        is_due
    }

    /// Moves the expiry of sessions that are in use.
    pub async fn extend(&self, ids: Vec<String>) {
        let expires_ms = self.clock.now_ms().saturating_add(KEPT_MS);
        for some in ids.chunks(MAX_SHARED_PAGE) {
            let extended = self.store.extend_shared(SharedKind::Session, some.to_vec(), expires_ms).await;
            if let Err(error) = extended {
                tracing::warn!("the expiry of sessions could not be moved: {error}");
                return;
            }
        }
    }
}

fn stored(record: SharedRecord) -> StoredSession {
    StoredSession { id: record.name, user: record.user, body: record.body }
}
