//! The parts of the engine that handlers take instead of the whole state, such as `State(jobs): State<Arc<Jobs>>`.

use super::RestState;
use axum::extract::FromRef;
use std::sync::Arc;
use toolbooth_engine::{Approvals, AuditLog, CallerFiles, DeadLetters, Inquiries, Jobs, Plans};

macro_rules! parts {
    ($($part:ident: $Type:ty),+ $(,)?) => {
        $(
            impl FromRef<RestState> for Arc<$Type> {
                fn from_ref(rest: &RestState) -> Self {
                    rest.engine().$part().clone()
                }
            }
        )+
    };
}

parts! {
    approvals: Approvals,
    audit: AuditLog,
    dead_letters: DeadLetters,
    files: CallerFiles,
    inquiries: Inquiries,
    jobs: Jobs,
    plans: Plans,
}
