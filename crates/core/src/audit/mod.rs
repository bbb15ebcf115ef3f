//! The audit log: one entry per call, decision and administrative act, chained by hashes.
//!
//! The chain reveals a row that was changed, removed from the middle, added or moved after it was written. The head,
//! recorded separately, reveals rows that were removed from the end. It cannot reveal an attacker who can write to the
//! whole database, because they can compute a new chain and a new head. Against that, store the head's hash, which
//! every report includes, elsewhere.

mod chain;
mod fields;
mod kind;

pub use chain::{AuditReport, ChainHead, Flaw, FlawedRow, Verifier};
pub use fields::FieldValue;
pub use kind::AuditKind;

use crate::json::RawJson;
use std::sync::Arc;
use uuid::Uuid;

/// The size limit of a preview of arguments.
pub const MAX_PREVIEW_BYTES: usize = 512;
/// The size limit of an entry's detail.
pub const MAX_DETAIL_BYTES: usize = 16 << 10;
/// The size limit of any other text of an entry.
pub const MAX_AUDIT_TEXT_BYTES: usize = 1_024;

/// One audit entry. Texts are shared, because an entry is made for every call from texts that the call already has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The time.
    pub at_ms: i64,
    /// The word of an [`AuditKind`].
    pub kind: Arc<str>,
    /// The call or held call.
    pub call_id: Option<Uuid>,
    /// The caller, or the user who acted.
    pub user: Arc<str>,
    /// The person who decided, if any.
    pub by: Option<Arc<str>>,
    /// The persona.
    pub persona: Option<Arc<str>>,
    /// The client.
    pub client: Option<Arc<str>>,
    /// The server.
    pub server: Option<Arc<str>>,
    /// The server's own name of the tool.
    pub tool: Option<Arc<str>>,
    /// The outcome.
    pub outcome: Arc<str>,
    /// The code of the fault, if any.
    pub code: Option<Arc<str>>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The beginning of the arguments, with secrets already masked.
    pub arguments_preview: Option<Arc<str>>,
    /// The SHA-256 of the arguments.
    pub arguments_sha256: Option<[u8; 32]>,
    /// Further details, as JSON.
    pub detail: Option<RawJson>,
}

impl AuditEntry {
    /// An entry with only the required fields.
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

    /// The entry with texts that are short enough for the store. An event must not go unrecorded because of a long
    /// client name.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        // Without `..`, so that a new text cannot stay without a limit.
        let Self {
            at_ms: _,
            kind,
            call_id: _,
            user,
            by,
            persona,
            client,
            server,
            tool,
            outcome,
            code,
            duration_ms,
            arguments_preview,
            arguments_sha256: _,
            detail,
        } = &mut self;
        for text in [kind, user, outcome] {
            truncate_text(text, MAX_AUDIT_TEXT_BYTES);
        }
        for text in [by, persona, client, server, tool, code].into_iter().flatten() {
            truncate_text(text, MAX_AUDIT_TEXT_BYTES);
        }
        if let Some(preview) = arguments_preview {
            truncate_text(preview, MAX_PREVIEW_BYTES);
        }
        // Databases store signed numbers.
        *duration_ms = duration_ms.map(|duration_ms| duration_ms.min(i64::MAX as u64));
        if let Some(detail) = detail {
            // Parsed again, so that it has the same text as when it is read from the store.
            let read = RawJson::parse(detail.bytes().clone()).ok();
            let fitting = read.filter(|detail| detail.as_bytes().len() <= MAX_DETAIL_BYTES);
            *detail = fitting.unwrap_or_else(|| RawJson::trusted(r#"{"cut":true}"#));
        }
        self
    }
}

fn truncate_text(text: &mut Arc<str>, most: usize) {
    // PostgreSQL does not allow NUL in text.
    if text.len() <= most && !text.as_bytes().contains(&0) {
        return;
    }
    let whole = text.replace('\0', "\u{fffd}");
    *text = whole[..whole.floor_char_boundary(most)].into();
}

/// An entry and its position in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number, counted from 1 without gaps.
    pub seq: u64,
    /// The total size of all rows up to this one.
    pub position: u64,
    /// The hash over the row and the previous hash.
    pub hash: [u8; 32],
    /// The entry.
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_entries_are_truncated() {
        let entry = AuditEntry {
            client: Some("é".repeat(600).into()),
            by: Some("a\0b".into()),
            arguments_preview: Some("x".repeat(600).into()),
            duration_ms: Some(u64::MAX),
            detail: Some(RawJson::from_value(&"x".repeat(20_000))),
            ..AuditEntry::new(1, "call", "ann", "done")
        };
        let entry = entry.truncated();
        assert_eq!(entry.client.as_ref().map(|text| text.len()), Some(1_024));
        assert_eq!(entry.by.as_deref(), Some("a\u{fffd}b"));
        assert_eq!(entry.arguments_preview.as_ref().map(|text| text.len()), Some(512));
        assert_eq!(entry.duration_ms, Some(i64::MAX as u64));
        assert_eq!(entry.detail.as_ref().map(RawJson::as_str), Some(r#"{"cut":true}"#));
        assert_eq!(entry.clone().truncated(), entry);
        let spaced = AuditEntry { detail: Some(RawJson::trusted(" {} ")), ..entry }.truncated();
        assert_eq!(spaced.detail, Some(RawJson::empty_object()));
    }
}
