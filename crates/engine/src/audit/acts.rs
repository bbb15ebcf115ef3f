//! Administrative acts, and their audit rows.

use toolbooth_core::audit::{AuditEntry, AuditKind};
use toolbooth_core::json::{ObjectWriter, RawJson};
use toolbooth_core::names::ServerName;

/// An administrative act.
#[derive(Debug, Clone)]
pub struct Act<'a> {
    /// The kind of its audit row.
    pub kind: AuditKind,
    /// The acting user.
    pub by: &'a str,
    /// The owner of the token, file or consent; the acting user if the act has no such owner.
    pub user: Option<&'a str>,
    /// The word for it, such as `created`, `revoked` or `reloaded`.
    pub outcome: &'a str,
    /// The server, if the act is about one.
    pub server: Option<&'a ServerName>,
    /// The fault's code, if the act failed.
    pub code: Option<&'static str>,
    /// Further details; never a secret.
    pub detail: Option<RawJson>,
}

impl<'a> Act<'a> {
    /// An act without further details.
    pub fn new(kind: AuditKind, by: &'a str, outcome: &'a str) -> Self {
        Self { kind, by, user: None, outcome, server: None, code: None, detail: None }
    }

    /// Adds details, each a name and a text.
    #[must_use]
    pub fn with(self, details: &[(&str, &str)]) -> Self {
        let mut detail = ObjectWriter::default();
        for (name, text) in details {
            detail.text(name, text);
        }
        Self { detail: Some(detail.finish()), ..self }
    }

    /// The audit row of the act.
    pub fn entry(&self, at_ms: i64) -> AuditEntry {
        AuditEntry {
            by: Some(self.by.into()),
            server: self.server.map(ServerName::shared),
            code: self.code.map(Into::into),
            detail: self.detail.clone(),
            ..AuditEntry::new(at_ms, self.kind.as_str(), self.user.unwrap_or(self.by), self.outcome)
        }
    }
}
