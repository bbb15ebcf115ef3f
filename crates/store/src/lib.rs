//! Everything durable: the trait `Store`, its backends, and the rules both of them keep.
//!
//! A method that returns `Ok` after a write means that the write survives kill -9; a caller that
//! stops waiting earlier learns nothing about its write. Times come in as parameters, in
//! milliseconds since 1970: no backend reads a clock.

mod error;
mod limits;
mod memory;
mod records;
mod sql;
mod sqlite;
mod url;

pub use error::{StoreError, Trouble};
pub use limits::{MAX_OPEN_INTENTS, MAX_PAYLOAD_BYTES, MAX_RECENT_CALLS, MAX_TOKENS, Retention};
pub use memory::MemoryStore;
pub use records::{CallRow, DiscoveryRecord, Intent, NonceUse, Outcome};
pub use sqlite::SqliteStore;
pub use toolbooth_core::outcome::OutcomeKind;
pub use url::{StoreUrl, StoreUrlError};

use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::names::ServerName;
use toolbooth_core::token::TokenRecord;

/// Keeps what must outlive the process; shared by every part of the gateway as `Arc<dyn Store>`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Keeps what was discovered on a server, in place of what was kept before.
    async fn save_discovery(&self, record: DiscoveryRecord) -> Result<(), StoreError>;

    /// Everything kept about servers, by name.
    async fn discoveries(&self) -> Result<Vec<DiscoveryRecord>, StoreError>;

    /// Drops what was kept about a server; fine if there was nothing.
    async fn forget_discovery(&self, server: &ServerName) -> Result<(), StoreError>;

    /// Notes that a call with side effects is about to be sent.
    ///
    /// Writing the same intent again is fine; another one under the same id is a conflict.
    async fn write_intent(&self, intent: Intent) -> Result<(), StoreError>;

    /// Notes how a call ended.
    ///
    /// The first known outcome stands: the same again is fine, another one is a conflict.
    /// `Unknown` yields to any known outcome, and changes nothing that is known.
    async fn write_outcome(&self, outcome: Outcome) -> Result<(), StoreError>;

    /// Intents without an outcome, oldest first, at most `MAX_OPEN_INTENTS`.
    async fn open_intents(&self) -> Result<Vec<Intent>, StoreError>;

    /// Marks every open intent `Unknown` and says how many there were; for the start of a gateway.
    async fn close_interrupted(&self, at_ms: i64) -> Result<u64, StoreError>;

    /// The newest calls of the journal, newest first, at most `MAX_RECENT_CALLS`.
    async fn recent_calls(&self, limit: u32) -> Result<Vec<CallRow>, StoreError>;

    /// The secret of that name; made once, then the same bytes for every caller and replica.
    ///
    /// `create` may be asked for bytes that are thrown away because somebody else was faster.
    async fn get_or_create_secret(
        &self,
        name: &str,
        create: &(dyn Fn() -> Vec<u8> + Send + Sync),
    ) -> Result<Vec<u8>, StoreError>;

    /// Uses up a nonce: `First` for exactly one caller until it expires and is purged.
    ///
    /// A caller must refuse expired handles itself, since their nonces are forgotten.
    async fn use_nonce(&self, nonce: &[u8], expires_at_ms: i64) -> Result<NonceUse, StoreError>;

    /// Keeps a token; the same again is fine, another under its id or hash is `store.taken`.
    async fn add_token(&self, token: TokenRecord) -> Result<(), StoreError>;

    /// The token with this hash, also one that is expired or revoked: ask its `standing`.
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>, StoreError>;

    /// Every token, oldest first; at most `MAX_TOKENS`.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError>;

    /// Revokes a token and returns it; the first revocation stands. `None`: there is no such token.
    async fn revoke_token(&self, id: &str, at_ms: i64) -> Result<Option<TokenRecord>, StoreError>;

    /// Drops expired nonces, and closed calls and dead tokens beyond the retention.
    async fn purge(&self, now_ms: i64) -> Result<(), StoreError>;

    /// Waits until everything written before is durable.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Finishes queued writes and lets go of the data; later calls answer `store.closed`.
    async fn close(&self);
}

/// Opens the store at `url` with the default retention.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    open_with(url, Retention::default()).await
}

/// Opens the store at `url`, to keep journal rows as `retention` says.
pub async fn open_with(url: &StoreUrl, retention: Retention) -> Result<Arc<dyn Store>, StoreError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(retention))),
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteStore::open(path, retention).await?)),
        StoreUrl::Postgres(_) => Err(StoreError::NotBuilt { backend: "PostgreSQL" }),
    }
}
