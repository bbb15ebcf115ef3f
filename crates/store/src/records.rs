//! What is kept: discoveries, and the journal's intents and outcomes.

use bytes::Bytes;
use std::fmt;
use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::names::ServerName;
use toolbooth_core::outcome::OutcomeKind;
use uuid::Uuid;

/// What was discovered on one server, kept so that a start need not ask it again.
#[derive(Clone, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// The server.
    pub server: ServerName,
    /// The hash of the entry it was configured by; another hash means another server.
    pub entry_hash: String,
    /// The era of the protocol it spoke.
    pub era: String,
    /// When it was kept.
    pub saved_at_ms: i64,
    /// The discovery itself, in the form its owner chose.
    pub payload: Bytes,
}

// A payload can be megabytes long: a log line shows its size instead.
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
    /// When it was about to be sent.
    pub at_ms: i64,
    /// On whose behalf.
    pub user: String,
    /// To which server.
    pub server: ServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The SHA-256 of the arguments; the arguments themselves are not kept here.
    pub arguments_sha256: [u8; 32],
    /// The rung of the side-effect ladder, as its word.
    pub side_effect: String,
}

impl Intent {
    /// The audit entry of a call that was sent, and of which nothing was heard before the gateway died.
    pub(crate) fn cut_off(&self, at_ms: i64) -> AuditEntry {
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
pub struct Outcome {
    /// The call.
    pub call_id: Uuid,
    /// When the outcome was known.
    pub at_ms: i64,
    /// What it was.
    pub kind: OutcomeKind,
    /// The fault's stable code, where there was a fault.
    pub error_code: Option<String>,
    /// How long the call took.
    pub duration_ms: u64,
}

/// One call of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// What was to happen.
    pub intent: Intent,
    /// What happened; absent while the call runs.
    pub outcome: Option<Outcome>,
}

/// Whether a nonce was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonceUse {
    /// This is its first use.
    First,
    /// It was used before.
    Again,
}

/// What to do with an outcome that arrives for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// It becomes the call's outcome.
    Write,
    /// It says nothing new.
    Keep,
    /// It contradicts what is known.
    Conflict,
}

/// Decides by the call's present outcome; every backend asks here, so that they agree.
pub(crate) fn closing(present: Option<&Outcome>, arriving: &Outcome) -> Closing {
    match present {
        None => Closing::Write,
        Some(present) if present == arriving => Closing::Keep,
        Some(_) if arriving.kind == OutcomeKind::Unknown => Closing::Keep,
        Some(present) if present.kind == OutcomeKind::Unknown => Closing::Write,
        Some(_) => Closing::Conflict,
    }
}
