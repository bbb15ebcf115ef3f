//! Records of the store: discoveries, and the journal's intents and outcomes.

use bytes::Bytes;
use std::fmt;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::names::ServerName;
use toolbooth_core::outcome::OutcomeKind;
use uuid::Uuid;

/// The discovery of one server, stored so that the gateway can start without asking the server again.
#[derive(Clone, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// The server.
    pub server: ServerName,
    /// The hash of its configuration entry; a different hash means a different server.
    pub entry_hash: String,
    /// The protocol era that the server used.
    pub era: String,
    /// When it was saved.
    pub saved_at_ms: i64,
    /// The discovery itself, in the engine's own format.
    pub payload: Bytes,
}

// A payload can be megabytes long, so a log line shows its size instead.
impl fmt::Debug for DiscoveryRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryRecord")
            .field("server", &self.server)
            .field("entry_hash", &self.entry_hash)
            .field("era", &self.era)
            .field("saved_at_ms", &self.saved_at_ms)
            .field("payload_bytes", &self.payload.len())
            .finish()
    }
}

/// A call with side effects that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The call.
    pub call_id: Uuid,
    /// When it was recorded, just before the call is sent.
    pub at_ms: i64,
    /// The user who makes the call.
    pub user: String,
    /// The server it is sent to.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The SHA-256 of the arguments; the arguments themselves are not stored here.
    pub arguments_sha256: [u8; 32],
    /// The name of the tool's side-effect level.
    pub side_effect: String,
}

impl Intent {
    /// The audit entry of a call that was still open when the gateway died.
    pub(crate) fn interrupted_entry(&self, at_ms: i64) -> AuditEntry {
        AuditEntry {
            call_id: Some(self.call_id),
            server: Some(self.server.shared()),
            tool: Some(self.tool.as_str().into()),
            arguments_sha256: Some(self.arguments_sha256),
            ..AuditEntry::new(at_ms, AuditKind::Call.as_str(), &self.user, OutcomeKind::Unknown.as_str())
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// The call.
    pub call_id: Uuid,
    /// When the call ended.
    pub at_ms: i64,
    /// The kind of outcome.
    pub kind: OutcomeKind,
    /// The fault's stable code, if the call failed.
    pub error_code: Option<String>,
    /// How long the call took.
    pub duration_ms: u64,
}

/// One call of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// The call's intent.
    pub intent: Intent,
    /// The call's outcome; absent while the call runs.
    pub outcome: Option<CallOutcome>,
}

/// Whether a nonce was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonceUse {
    /// This is its first use.
    First,
    /// It was used before.
    Again,
}

/// What happens to a new outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeWrite {
    /// It becomes the call's outcome.
    Write,
    /// It is the stored outcome.
    Repeat,
    /// The stored outcome stays; the new one adds nothing.
    Keep,
    /// It contradicts the stored outcome.
    Conflict,
}

/// Decides by the call's stored outcome. Every backend uses this function, so that all of them agree.
pub(crate) fn outcome_write(present: Option<&CallOutcome>, arriving: &CallOutcome) -> OutcomeWrite {
    match present {
        None => OutcomeWrite::Write,
        Some(present) if present == arriving => OutcomeWrite::Repeat,
        Some(_) if arriving.kind == OutcomeKind::Unknown => OutcomeWrite::Keep,
        Some(present) if present.kind == OutcomeKind::Unknown => OutcomeWrite::Write,
        Some(_) => OutcomeWrite::Conflict,
    }
}
