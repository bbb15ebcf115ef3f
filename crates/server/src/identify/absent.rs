//! Rights of users who are offline: their held calls may run later.

use super::ClaimedIdentity;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::clock::{Clock, milliseconds, unix_ms};
use toolbooth_engine::SignInRecord;

/// Maximum number of users in memory; the store has more.
const MAX_USERS: usize = 10_000;
/// How long the claims of a signed token without an expiry are valid.
const VALID_FOR: Duration = Duration::from_secs(3600);

/// The latest claims of each user's signed tokens. Only the latest count, so that a revoked group also ends for calls
/// that wait.
#[derive(Debug, Default)]
pub(super) struct SignInCache {
    users: Mutex<HashMap<String, SignInRecord>>,
}

impl SignInCache {
    /// Records the claims of a signed token; returns them for storage if they are new.
    pub(super) fn note(
        &self,
        claimed: &ClaimedIdentity,
        issuer: &str,
        clock: &Clock,
    ) -> Option<SignInRecord> {
        let until = claimed.until.unwrap_or_else(|| clock.now() + VALID_FOR);
        let sign_in = SignInRecord {
            user: claimed.user.clone(),
            issuer: issuer.to_owned(),
            groups: claimed.groups.clone(),
            persona: claimed.persona.clone(),
            level: claimed.level.clone(),
            until_ms: unix_ms(until),
        };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |known: &SignInRecord| match claimed.until {
            Some(_) => *known == sign_in,
            // A slightly later expiry alone is not new.
            None => {
                let fresh = known.until_ms > sign_in.until_ms - milliseconds(VALID_FOR) / 2;
                fresh
                    && SignInRecord { until_ms: 0, ..known.clone() }
                        == SignInRecord { until_ms: 0, ..sign_in.clone() }
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

    /// Drops all recorded sign-ins.
    pub(super) fn forget(&self) {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The valid claims of a user: those recorded since the start of the gateway, else the stored ones. Claims of an
    /// issuer that is no longer configured are ignored.
    pub(super) fn claim(
        &self,
        user: &str,
        kept: Option<SignInRecord>,
        issuer: &str,
        now: SystemTime,
    ) -> Option<ClaimedIdentity> {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = users.get(user).cloned().or(kept)?;
        if latest.until_ms <= unix_ms(now) || latest.issuer != issuer {
            return None;
        }
        let SignInRecord { user, issuer: _, groups, persona, level, until_ms: _ } = latest;
        let identified_by = IdentifiedBy::SignedToken;
        Some(ClaimedIdentity { user, groups, persona, level, identified_by, until: None })
    }
}
