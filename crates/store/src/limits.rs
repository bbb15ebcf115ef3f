//! Bounds on what is kept, the same for every backend.

use crate::StoreError;
use crate::records::{DiscoveryRecord, Intent, Outcome};
use std::time::Duration;
use toolbooth_core::token::TokenRecord;

/// The most bytes one server's discovery may have.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;
/// The most calls one reading of the journal returns.
pub const MAX_RECENT_CALLS: u32 = 1_000;
/// The most open intents one reading returns.
pub const MAX_OPEN_INTENTS: u32 = 10_000;

/// The most tokens that are kept; dead ones count until they are purged.
pub const MAX_TOKENS: usize = 10_000;

const MAX_TEXT_BYTES: usize = 1_024;
const MAX_SECRET_BYTES: usize = 4_096;
const MAX_NONCE_BYTES: usize = 256;
const MAX_GROUPS: usize = 256;
const MAX_ID_BYTES: usize = 64;

/// How long the journal remembers closed calls. Open intents are never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Calls that began longer ago are dropped.
    pub max_age: Duration,
    /// Of more calls than this, the oldest are dropped.
    pub max_rows: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(90 * 24 * 3600), max_rows: 200_000 }
    }
}

impl Retention {
    /// The time before which calls are dropped.
    pub(crate) fn horizon_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(i64::try_from(self.max_age.as_millis()).unwrap_or(i64::MAX))
    }
}

pub(crate) fn check_discovery(record: &DiscoveryRecord) -> Result<(), StoreError> {
    text("entry_hash", &record.entry_hash)?;
    text("era", &record.era)?;
    size("payload", record.payload.len(), 0, MAX_PAYLOAD_BYTES)
}

pub(crate) fn check_intent(intent: &Intent) -> Result<(), StoreError> {
    text("user", &intent.user)?;
    text("tool", &intent.tool)?;
    text("side_effect", &intent.side_effect)
}

pub(crate) fn check_outcome(outcome: &Outcome) -> Result<(), StoreError> {
    text("error_code", outcome.error_code.as_deref().unwrap_or_default())?;
    // The databases count in signed numbers.
    match i64::try_from(outcome.duration_ms) {
        Ok(_) => Ok(()),
        Err(_) => Err(StoreError::Unfit { field: "duration_ms", expected: "a number below 2^63".into() }),
    }
}

pub(crate) fn check_secret_name(name: &str) -> Result<(), StoreError> {
    size("secret name", name.len(), 1, MAX_TEXT_BYTES)?;
    text("secret name", name)
}

pub(crate) fn check_secret(value: &[u8]) -> Result<(), StoreError> {
    size("secret", value.len(), 1, MAX_SECRET_BYTES)
}

pub(crate) fn check_nonce(nonce: &[u8]) -> Result<(), StoreError> {
    size("nonce", nonce.len(), 1, MAX_NONCE_BYTES)
}

pub(crate) fn check_token(token: &TokenRecord) -> Result<(), StoreError> {
    size("token id", token.id.len(), 1, MAX_ID_BYTES)?;
    size("groups", token.groups.len(), 0, MAX_GROUPS)?;
    text("token id", &token.id)?;
    text("user", &token.user)?;
    optional("persona", token.persona.as_deref())?;
    optional("note", token.note.as_deref())?;
    token.groups.iter().try_for_each(|group| text("group", group))
}

fn optional(field: &'static str, value: Option<&str>) -> Result<(), StoreError> {
    value.map_or(Ok(()), |value| text(field, value))
}

fn text(field: &'static str, text: &str) -> Result<(), StoreError> {
    // PostgreSQL has no NUL in text, and what one backend refuses all refuse.
    if text.contains('\0') {
        return Err(StoreError::Unfit { field, expected: "text without NUL characters".into() });
    }
    size(field, text.len(), 0, MAX_TEXT_BYTES)
}

fn size(field: &'static str, length: usize, least: usize, most: usize) -> Result<(), StoreError> {
    if (least..=most).contains(&length) {
        return Ok(());
    }
    Err(StoreError::Unfit { field, expected: format!("{least} to {most} bytes") })
}
