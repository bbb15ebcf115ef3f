//! The audit: one entry per call and decision, each bound to the one before it by its hash.
//!
//! What the chain shows: a row that was changed, removed from the middle, added or moved after it
//! was written. The head, recorded apart from the rows, shows rows that were cut off the end. What
//! it cannot show: somebody who may write to the whole database can compute a new chain and a new
//! head. Against that, keep the head's hash, which every report gives, somewhere else.

use crate::json::RawJson;
use std::sync::Arc;
use uuid::Uuid;

/// The most bytes a preview of arguments may have.
pub const MAX_PREVIEW_BYTES: usize = 512;
/// The most bytes the detail of an entry may have.
pub const MAX_DETAIL_BYTES: usize = 16 << 10;

/// Something that happened, for those who must answer for it. Texts are shared, since an entry is
/// made for every call from texts that the call has anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at_ms: i64,
    /// What kind of thing: `call`, `decision`, `token`, `plan`, `config` and so on.
    pub kind: Arc<str>,
    /// The call, or held call, it is about.
    pub call_id: Option<Uuid>,
    /// Whose call it was, or who did it.
    pub user: Arc<str>,
    /// Who decided, where that is somebody.
    pub by: Option<Arc<str>>,
    /// As which persona.
    pub persona: Option<Arc<str>>,
    /// With which client.
    pub client: Option<Arc<str>>,
    /// The server.
    pub server: Option<Arc<str>>,
    /// The server's own name of the tool.
    pub tool: Option<Arc<str>>,
    /// What came of it.
    pub outcome: Arc<str>,
    /// The fault's stable code, where there was a fault.
    pub code: Option<Arc<str>>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The beginning of the arguments, with secrets taken out by whoever made the entry.
    pub arguments_preview: Option<Arc<str>>,
    /// The SHA-256 of the arguments.
    pub arguments_sha256: Option<[u8; 32]>,
    /// Anything else, as JSON.
    pub detail: Option<RawJson>,
}

impl AuditEntry {
    /// An entry that says the least an entry can say.
    pub fn new(at_ms: i64, kind: &str, user: &str, outcome: &str) -> Self {
        Self {
            at_ms,
            kind: kind.into(),
            call_id: None,
            user: user.into(),
            by: None,
            persona: None,
            client: None,
            server: None,
            tool: None,
            outcome: outcome.into(),
            code: None,
            duration_ms: None,
            arguments_preview: None,
            arguments_sha256: None,
            detail: None,
        }
    }
}
