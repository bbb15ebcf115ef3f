//! Consents and the audit, as callers may read them.

use crate::clock::now_ms;
use crate::engine::Engine;
use toolbooth_core::audit::{AuditEntry, AuditReport, AuditRow};
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::consent::Consent;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_store::AuditFilter;
use uuid::Uuid;

impl Engine {
    /// The caller's consents; those of all users for an approver.
    pub async fn consents_of(&self, caller: &Caller) -> Result<Vec<Consent>, Problem> {
        let user = (!self.terms().is_approver(caller)).then_some(&*caller.user);
        self.store().consents(user).await.map_err(|error| Problem::of(&error))
    }

    /// Revokes a consent: the next call of that tool asks again.
    pub async fn revoke_consent(&self, caller: &Caller, id: Uuid) -> Result<Consent, Problem> {
        let unknown = || Problem {
            code: "consent.unknown",
            blame: Blame::Caller,
            message: format!("there is no consent {id}"),
            hint: Some("`toolbooth approvals consents` shows yours".into()),
        };
        if !self.consents_of(caller).await?.iter().any(|consent| consent.id == id) {
            return Err(unknown());
        }
        let revoked = self.store().revoke_consent(id).await.map_err(|error| Problem::of(&error))?;
        self.decisions().revoke(id);
        let revoked = revoked.ok_or_else(unknown)?;
        let entry = AuditEntry {
            by: Some(caller.user.clone()),
            server: Some(revoked.server.shared()),
            tool: Some(revoked.tool.as_str().into()),
            ..AuditEntry::new(now_ms(), "consent", &revoked.user, "revoked")
        };
        self.store().audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))?;
        Ok(revoked)
    }

    /// Rows of the audit, newest first: the caller's own, or those of all users for an administrator.
    pub async fn audit_rows(
        &self,
        caller: &Caller,
        mut filter: AuditFilter,
    ) -> Result<Vec<AuditRow>, Problem> {
        if caller.admin == Admin::No {
            filter.user = Some(caller.user.to_string());
        }
        self.store().flush().await.map_err(|error| Problem::of(&error))?;
        self.store().audit_rows(filter).await.map_err(|error| Problem::of(&error))
    }

    /// Verifies the hash chain of the whole audit; for administrators only.
    pub async fn verify_audit(&self, caller: &Caller) -> Result<AuditReport, Problem> {
        if caller.admin == Admin::No {
            return Err(Problem {
                code: "auth.admin-only",
                blame: Blame::Caller,
                message: "only an admin may check the audit".into(),
                hint: None,
            });
        }
        self.store().flush().await.map_err(|error| Problem::of(&error))?;
        self.store().verify_audit().await.map_err(|error| Problem::of(&error))
    }
}
