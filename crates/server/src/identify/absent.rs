//! Users who are not there: whose held calls run after they have gone.

use super::Claimed;
use crate::mcp::Door;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use toolbooth_core::caller::Caller;
use toolbooth_engine::Roster;

/// How many users are remembered.
const MAX_USERS: usize = 10_000;
/// How long what a signed token said is believed where the token itself says nothing.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);

/// What credentials said of users when they were last here.
#[derive(Debug, Default)]
pub(super) struct Acquaintances {
    users: Mutex<HashMap<String, (Claimed, SystemTime)>>,
}

impl Acquaintances {
    /// Notes what a credential said.
    pub(super) fn note(&self, claimed: &Claimed) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= MAX_USERS {
            users.clear();
        }
        let until = claimed.until.unwrap_or_else(|| SystemTime::now() + BELIEVED_FOR);
        users.insert(claimed.user.clone(), (claimed.clone(), until));
    }

    /// Believes nothing of what was noted so far.
    pub(super) fn forget(&self) {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is still believed of a user.
    pub(super) fn claim(&self, user: &str, now: SystemTime) -> Option<Claimed> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.get(user).filter(|(_, until)| *until > now).map(|(claimed, _)| claimed.clone())
    }
}

#[async_trait]
impl Roster for Door {
    async fn caller(&self, user: &str, persona: Option<&str>, session: Option<&str>) -> Option<Arc<Caller>> {
        let tokens = self.engine.store().tokens().await.ok()?;
        let caller = self.identity.absent(user, persona, &tokens).await.ok()?;
        Some(match session {
            None => caller,
            Some(session) => Arc::new(Caller { session: Some(session.into()), ..Caller::clone(&caller) }),
        })
    }
}
