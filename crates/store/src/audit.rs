//! The filter for audit rows.

use toolbooth_core::audit::AuditRow;
use uuid::Uuid;

/// Selects rows of the audit; all given fields must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Rows of this user.
    pub user: Option<String>,
    /// Rows of this server.
    pub server: Option<String>,
    /// Rows of this tool, by the server's own name.
    pub tool: Option<String>,
    /// Rows of this kind.
    pub kind: Option<String>,
    /// Rows with this outcome.
    pub outcome: Option<String>,
    /// Rows of this call.
    pub call_id: Option<Uuid>,
    /// Rows with a higher number.
    pub after_seq: Option<u64>,
    /// Rows with a lower number.
    pub before_seq: Option<u64>,
    /// The page size; at most `MAX_AUDIT_PAGE`.
    pub limit: Option<u32>,
}

impl AuditFilter {
    /// Whether the filter matches a row.
    pub(crate) fn matches(&self, row: &AuditRow) -> bool {
        let entry = &row.entry;
        let given =
            |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        given(&self.user, Some(&entry.user))
            && given(&self.server, entry.server.as_deref())
            && given(&self.tool, entry.tool.as_deref())
            && given(&self.kind, Some(&entry.kind))
            && given(&self.outcome, Some(&entry.outcome))
            && self.call_id.is_none_or(|id| entry.call_id == Some(id))
            && self.after_seq.is_none_or(|after| row.seq > after)
            && self.before_seq.is_none_or(|before| row.seq < before)
    }
}
