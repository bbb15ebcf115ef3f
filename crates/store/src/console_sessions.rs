//! Sessions of the console, which all gateways on the store share.

use crate::StoreError;
use crate::limits::{size, text};
use async_trait::async_trait;

/// The most sessions that are stored; beyond it, those that end first are deleted.
pub const MAX_CONSOLE_SESSIONS: usize = 10_000;
/// The most sessions of one user; beyond it, those that end first are deleted.
pub const MAX_CONSOLE_SESSIONS_OF_USER: usize = 32;
/// The most bytes of a sealed credential.
pub const MAX_CONSOLE_CREDENTIAL_BYTES: usize = 32 * 1024;

/// A session of the console.
#[derive(Clone, PartialEq, Eq)]
pub struct ConsoleSessionRecord {
    /// The digest of the secret in the browser's cookie.
    pub digest: [u8; 32],
    /// The user who opened it.
    pub user: String,
    /// The credential of the user, sealed with a key that is derived from the secret in the cookie.
    pub credential: Vec<u8>,
    /// When it ends if it is not used again.
    pub until_ms: i64,
    /// When it ends at the latest.
    pub ends_ms: i64,
}

impl std::fmt::Debug for ConsoleSessionRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSessionRecord").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Stores sessions of the console.
#[async_trait]
pub trait ConsoleSessionStore: Send + Sync {
    /// Adds a session. If the user or the store has too many, those that end first are deleted.
    async fn add_console_session(&self, session: ConsoleSessionRecord) -> Result<(), StoreError>;

    /// Returns the session with this digest, even if it is over.
    async fn console_session(&self, digest: &[u8; 32]) -> Result<Option<ConsoleSessionRecord>, StoreError>;

    /// Changes when a session ends if it is not used again. A session that was deleted stays deleted.
    async fn extend_console_session(&self, digest: &[u8; 32], until_ms: i64) -> Result<(), StoreError>;

    /// Replaces the sealed credential of a session. A session that was deleted stays deleted.
    async fn replace_console_credential(
        &self,
        digest: &[u8; 32],
        credential: Vec<u8>,
    ) -> Result<(), StoreError>;

    /// Deletes a session, if it exists.
    async fn end_console_session(&self, digest: &[u8; 32]) -> Result<(), StoreError>;
}

pub(crate) fn check_console_session(session: &ConsoleSessionRecord) -> Result<(), StoreError> {
    text("user", &session.user)?;
    check_console_credential(&session.credential)
}

pub(crate) fn check_console_credential(credential: &[u8]) -> Result<(), StoreError> {
    size("credential", credential.len(), 1, MAX_CONSOLE_CREDENTIAL_BYTES)
}
