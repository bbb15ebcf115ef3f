//! Health windows: saved periodically, loaded when a gateway starts. A kill loses the changes since the last save.
//!
//! Gateways that share a store replace each other's windows. Only a gateway that starts reads them, as a first estimate of
//! how the servers behave, and the latest window of any gateway is one; what a running gateway reports and acts on is its
//! own window in memory. Windows per gateway would have to be merged then, and a gateway has a new id at each start.

use crate::StoreError;
use crate::limits::{size, text};
use async_trait::async_trait;

/// The most windows that are stored.
pub const MAX_HEALTH: usize = 50_000;
/// The most windows in one save.
pub const MAX_HEALTH_BATCH: usize = 1_000;
/// The most bytes one window may have as text.
pub const MAX_WINDOW_BYTES: usize = 64 << 10;
/// How long a window is kept after its last save.
pub const HEALTH_MS: i64 = 30 * 24 * 3_600_000;

/// A health window as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthRow {
    /// The kind of subject: `tool` or `provider`.
    pub subject: String,
    /// The tool's server; empty for a provider.
    pub server: String,
    /// The server's own name of the tool, or the provider's id.
    pub name: String,
    /// When it was saved.
    pub saved_ms: i64,
    /// The window as text.
    pub window: String,
}

/// Stores health windows.
#[async_trait]
pub trait HealthStore: Send + Sync {
    /// Saves windows and replaces earlier ones; all of them or none, at most `MAX_HEALTH_BATCH` at once.
    async fn save_health(&self, rows: Vec<HealthRow>) -> Result<(), StoreError>;

    /// Returns every window, newest first, at most `MAX_HEALTH`.
    async fn health(&self) -> Result<Vec<HealthRow>, StoreError>;
}

pub(crate) fn check_health(rows: &[HealthRow]) -> Result<(), StoreError> {
    size("windows", rows.len(), 0, MAX_HEALTH_BATCH)?;
    for row in rows {
        if !matches!(row.subject.as_str(), "tool" | "provider") {
            return Err(StoreError::Unfit { field: "subject", expected: "tool or provider".into() });
        }
        text("server", &row.server)?;
        text("name", &row.name)?;
        size("window", row.window.len(), 1, MAX_WINDOW_BYTES)?;
    }
    Ok(())
}
