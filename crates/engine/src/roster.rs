//! Who users are when they are not there: for calls that run after their caller has gone.

use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::caller::Caller;

/// Knows users by name. The doors know how callers are recognised, so they bring one.
#[async_trait]
pub trait Roster: Send + Sync {
    /// The user with the rights they have now; nobody, if they have none or it cannot be told.
    async fn caller(&self, user: &str, persona: Option<&str>, session: Option<&str>) -> Option<Arc<Caller>>;
}
