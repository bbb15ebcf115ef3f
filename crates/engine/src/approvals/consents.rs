//! Consents: decisions that are remembered for one user and tool version.

use super::Approvals;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::Caller;
use toolbooth_core::consent::Consent;
use toolbooth_core::fault::{Blame, Problem};
use uuid::Uuid;

impl Approvals {
    /// The caller's consents; those of all users for an approver.
    pub async fn consents(&self, caller: &Caller) -> Result<Vec<Consent>, Problem> {
        let user = (!self.terms.load().is_approver(caller)).then_some(&*caller.user);
        self.store.consents(user).await.map_err(|error| Problem::of(&error))
    }

    /// Revokes a consent: the next call of that tool asks again.
    pub async fn revoke_consent(&self, caller: &Caller, id: Uuid) -> Result<Consent, Problem> {
        let unknown = || Problem {
            code: "consent.unknown",
            blame: Blame::Caller,
            message: format!("there is no consent {id}"),
            hint: Some("`toolbooth approvals consents` shows yours".into()),
        };
        if !self.consents(caller).await?.iter().any(|consent| consent.id == id) {
            return Err(unknown());
        }
        let revoked = self.store.revoke_consent(id).await.map_err(|error| Problem::of(&error))?;
        self.decisions.revoke(id);
        let revoked = revoked.ok_or_else(unknown)?;
        let entry = AuditEntry {
            by: Some(caller.user.clone()),
            server: Some(revoked.server.shared()),
            tool: Some(revoked.tool.as_str().into()),
            ..AuditEntry::new(self.clock.now_ms(), "consent", &revoked.user, "revoked")
        };
        self.store.audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))?;
        Ok(revoked)
    }
}
