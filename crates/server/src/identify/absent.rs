//! Users who are not there: whose held calls run after they have gone.

use super::Claimed;
use crate::mcp::Door;
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_engine::{Absentee, Rights, Roster, SignIn, clock};

/// How many users are remembered here; the store remembers more.
const MAX_USERS: usize = 10_000;
/// How long what a signed token said is believed where the token itself says nothing.
const BELIEVED_FOR: Duration = Duration::from_secs(3600);

/// What signed tokens said of users when they were last here. The latest counts, so that a group that was taken away
/// is gone for calls that wait, too.
#[derive(Debug, Default)]
pub(super) struct Acquaintances {
    users: Mutex<HashMap<String, SignIn>>,
}

impl Acquaintances {
    /// Notes what a signed token said; what is to be kept, where it says something new.
    pub(super) fn note(&self, claimed: &Claimed, issuer: &str) -> Option<SignIn> {
        let until = claimed.until.unwrap_or_else(|| clock::now() + BELIEVED_FOR);
        let sign_in = SignIn {
            user: claimed.user.clone(),
            issuer: issuer.to_owned(),
            groups: claimed.groups.clone(),
            persona: claimed.persona.clone(),
            level: claimed.level.clone(),
            until_ms: millis(until),
        };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |known: &SignIn| match claimed.until {
            Some(_) => *known == sign_in,
            // Believed a moment longer than before is nothing new.
            None => {
                let fresh = known.until_ms > sign_in.until_ms - millis(UNIX_EPOCH + BELIEVED_FOR) / 2;
                fresh && SignIn { until_ms: 0, ..known.clone() } == SignIn { until_ms: 0, ..sign_in.clone() }
            }
        };
        if users.get(&sign_in.user).is_some_and(is_known) {
            return None;
        }
        if users.len() >= MAX_USERS {
            users.clear();
        }
        users.insert(sign_in.user.clone(), sign_in.clone());
        Some(sign_in)
    }

    /// Believes nothing of what was noted so far.
    pub(super) fn forget(&self) {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What is still believed of a user: what was heard in this life of the gateway, else what was kept. The word of
    /// an issuer that is not configured any more is ignored.
    pub(super) fn claim(
        &self,
        user: &str,
        kept: Option<SignIn>,
        issuer: &str,
        now: SystemTime,
    ) -> Option<Claimed> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = users.get(user).cloned().or(kept)?;
        if latest.until_ms <= millis(now) || latest.issuer != issuer {
            return None;
        }
        let SignIn { user, issuer: _, groups, persona, level, until_ms: _ } = latest;
        let identified_by = IdentifiedBy::SignedToken;
        Some(Claimed { user, groups, persona, level, identified_by, until: None })
    }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[async_trait]
impl Roster for Door {
    async fn rights(&self, absentee: Absentee<'_>) -> Rights {
        let store = self.engine.store();
        let (tokens, kept) = match (store.tokens().await, store.sign_in(absentee.user).await) {
            (Ok(tokens), Ok(kept)) => (tokens, kept),
            (Err(error), _) | (_, Err(error)) => {
                return Rights::Unknown(format!("the rights of {} cannot be read: {error}", absentee.user));
            }
        };
        match self.identity.absent(absentee, &tokens, kept).await {
            Ok(Rights::Known(caller)) => Rights::Known(match absentee.session {
                None => caller,
                Some(session) => Arc::new(Caller { session: Some(session.into()), ..Caller::clone(&caller) }),
            }),
            Ok(rights) => rights,
            // The persona is not theirs any more, or the name is none.
            Err(_) => Rights::Gone,
        }
    }
}
