//! What is asked of the audit.

use toolbooth_core::audit::AuditRow;

/// Which rows of the audit are asked for; everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Of this user.
    pub user: Option<String>,
    /// On this server.
    pub server: Option<String>,
    /// Of this tool, by the server's own name.
    pub tool: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// With a higher number.
    pub after_seq: Option<u64>,
    /// With a lower number.
    pub before_seq: Option<u64>,
    /// At most so many; `MAX_AUDIT_PAGE` at the most.
    pub limit: Option<u32>,
}

impl AuditFilter {
    /// Whether a row is asked for.
    pub(crate) fn wants(&self, row: &AuditRow) -> bool {
        let entry = &row.entry;
        let given =
            |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        given(&self.user, Some(&entry.user))
            && given(&self.server, entry.server.as_deref())
            && given(&self.tool, entry.tool.as_deref())
            && given(&self.kind, Some(&entry.kind))
            && self.after_seq.is_none_or(|after| row.seq > after)
            && self.before_seq.is_none_or(|before| row.seq < before)
    }
}
