//! The audit log: administrative acts, refused attempts, tokens, and the rows as callers may read them.
//!
//! The rows of calls are written where calls end (`call/record/close.rs`), and those of decisions together with the decision
//! (`approvals`).

mod acts;
mod refusals;
mod tokens;
mod trust;

pub use acts::Act;
pub use refusals::RefusedAttempt;
pub use tokens::{BearerTokens, MadeToken, NewToken};
pub use trust::audit_trust;

use crate::events::EventRing;
use refusals::RefusalLog;
use std::sync::Arc;
use toolbooth_core::audit::{AuditReport, AuditRow};
use toolbooth_core::call::CallFault;
use toolbooth_core::caller::{Admin, Caller};
use toolbooth_core::catalog::Catalog;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::permission::why_hidden;
use toolbooth_store::{AuditFilter, CallCountQuery, CallCounts, ResultSizeQuery, ResultSizes, Store};

/// The audit log.
pub struct AuditLog {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    events: Arc<EventRing>,
    refusals: RefusalLog,
}

/// The user whose calls are counted: others than administrators see only their own.
fn counted_user(caller: &Caller, wanted: Option<String>) -> Option<String> {
    match caller.admin {
        Admin::No => Some(caller.user.to_string()),
        Admin::Yes => wanted,
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("refusals", &self.refusals).finish_non_exhaustive()
    }
}

impl AuditLog {
    pub(crate) fn new(clock: Arc<Clock>, store: Arc<dyn Store>, events: Arc<EventRing>) -> Self {
        Self { clock, store, events, refusals: RefusalLog::default() }
    }

    /// Writes an administrative act; it is on disk when this returns.
    pub async fn record_act(&self, act: Act<'_>) -> Result<(), Problem> {
        let entry = act.entry(self.clock.wall_ms());
        self.store.audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))
    }

    /// Rows, newest first: the caller's own, or those of all users for an administrator.
    pub async fn rows(&self, caller: &Caller, mut filter: AuditFilter) -> Result<Vec<AuditRow>, Problem> {
        if caller.admin == Admin::No {
            filter.user = Some(caller.user.to_string());
        }
        self.store.flush().await.map_err(|error| Problem::of(&error))?;
        self.store.audit_rows(filter).await.map_err(|error| Problem::of(&error))
    }

    /// Counts ended calls: the caller's own, or for an administrator those of the user in the query or of all users.
    pub async fn call_counts(&self, caller: &Caller, query: CallCountQuery) -> Result<CallCounts, Problem> {
        let query = CallCountQuery { user: counted_user(caller, query.user), ..query };
        self.store.flush().await.map_err(|error| Problem::of(&error))?;
        self.store.call_counts(query).await.map_err(|error| Problem::of(&error))
    }

    /// Adds up the sizes of results, of the same calls as [`Self::call_counts`].
    pub async fn result_sizes(
        &self,
        caller: &Caller,
        query: ResultSizeQuery,
    ) -> Result<ResultSizes, Problem> {
        let query = ResultSizeQuery { user: counted_user(caller, query.user), ..query };
        self.store.flush().await.map_err(|error| Problem::of(&error))?;
        self.store.result_sizes(query).await.map_err(|error| Problem::of(&error))
    }

    /// Verifies the hash chain of the whole log; for administrators only.
    pub async fn verify(&self, caller: &Caller) -> Result<AuditReport, Problem> {
        if caller.admin == Admin::No {
            return Err(Problem {
                code: "auth.admin-only",
                blame: Blame::Caller,
                message: "only an admin may check the audit".into(),
                hint: None,
            });
        }
        self.store.flush().await.map_err(|error| Problem::of(&error))?;
        self.store.verify_audit().await.map_err(|error| Problem::of(&error))
    }

    /// Records that an identified caller tried to use what they may not: an event and a row with the user. For
    /// operators only, because it may contain what the caller must not know: that such a tool or held call exists.
    pub fn record_denied(&self, by: &Caller, code: &'static str, attempt: &str) {
        let source = format!("user {}", by.user);
        // The user is in `by`: callers can read the rows of which they are the user.
        self.note_refusal(RefusedAttempt { code, source: &source, user: None, attempt }, Some(&by.user));
    }

    /// Records a call of a tool that exists but that the caller may not use. The caller gets the answer that it does not
    /// exist.
    pub fn record_hidden_tool(&self, catalog: &Catalog, caller: &Caller, fault: &CallFault) {
        let CallFault::UnknownTool { name } = fault else { return };
        let Some(tool) = catalog.unrestricted_tool(name) else { return };
        let attempt = format!("call of {}: denied by {}", tool.canonical(), why_hidden(caller, tool));
        self.record_denied(caller, "call.denied", &attempt);
    }
}
