//! Records that gateways on one store share: sessions of legacy clients, the sealed tokens of servers, and leases.
//!
//! A removed record stays for a while with an empty body, so that gateways that poll see the removal.

use crate::StoreError;
use crate::limits::{no_nul, size, text};
use async_trait::async_trait;

/// The maximum size of the body of a shared record.
pub const MAX_SHARED_BYTES: usize = 4 * 1024 * 1024;
/// The most records in one answer or one change.
pub const MAX_SHARED_PAGE: usize = 1_000;
/// The maximum size of a message to another gateway.
pub const MAX_MAIL_BYTES: usize = 8 * 1024 * 1024;
/// How long an unread message is kept, in milliseconds.
pub(crate) const MAIL_MS: i64 = 10 * 60_000;

/// The kind of a shared record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharedKind {
    /// A session of a legacy client.
    Session,
    /// A sealed record of a server's vault.
    Vault,
}

impl SharedKind {
    /// The name of the kind in the database.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Vault => "vault",
        }
    }
}

/// A record that gateways share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRecord {
    /// The kind.
    pub kind: SharedKind,
    /// The name, unique among the records of its kind.
    pub name: String,
    /// The user that it belongs to; empty if it belongs to none.
    pub user: String,
    /// The content; empty if the record was removed.
    pub body: String,
    /// When it was changed last; 0 for a new session, which no other gateway has a copy of.
    pub changed_ms: i64,
    /// When it can be deleted.
    pub expires_ms: i64,
}

/// Stores shared records and leases.
#[async_trait]
pub trait SharedRecordStore: Send + Sync {
    /// Saves a record, and replaces an earlier one with its name.
    async fn save_shared(&self, record: SharedRecord) -> Result<(), StoreError>;

    /// Returns a record, even if it has expired or was removed.
    async fn shared_record(&self, kind: SharedKind, name: &str) -> Result<Option<SharedRecord>, StoreError>;

    /// Returns records of a kind that were changed at this time or later, at most `MAX_SHARED_PAGE`, newest first. New
    /// sessions are left out.
    async fn changed_records(&self, kind: SharedKind, since_ms: i64)
    -> Result<Vec<SharedRecord>, StoreError>;

    /// Sets the expiry of existing records that were not removed; accepts at most `MAX_SHARED_PAGE` names.
    async fn extend_shared(
        &self,
        kind: SharedKind,
        names: Vec<String>,
        expires_ms: i64,
    ) -> Result<(), StoreError>;

    /// Takes or renews a lease; `false` if another holder has it and it has not expired.
    async fn take_lease(
        &self,
        name: &str,
        holder: &str,
        now_ms: i64,
        until_ms: i64,
    ) -> Result<bool, StoreError>;

    /// Ends a lease of this holder.
    async fn end_lease(&self, name: &str, holder: &str) -> Result<(), StoreError>;
}

pub(crate) fn check_shared(record: &SharedRecord) -> Result<(), StoreError> {
    size("name", record.name.len(), 1, 1_024)?;
    text("name", &record.name)?;
    text("user", &record.user)?;
    no_nul("body", &record.body)?;
    size("body", record.body.len(), 0, MAX_SHARED_BYTES)
}

pub(crate) fn check_names(names: &[String]) -> Result<(), StoreError> {
    size("names", names.len(), 0, MAX_SHARED_PAGE)?;
    names.iter().try_for_each(|name| text("name", name))
}

pub(crate) fn check_lease(name: &str, holder: &str) -> Result<(), StoreError> {
    text("lease", name)?;
    text("holder", holder)
}

pub(crate) fn check_mail(to: &str, body: &str) -> Result<(), StoreError> {
    text("recipient", to)?;
    no_nul("message", body)?;
    size("message", body.len(), 1, MAX_MAIL_BYTES)
}
