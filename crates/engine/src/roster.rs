//! Who users are when they are not there: for calls that run after their caller has gone.

use async_trait::async_trait;
use std::sync::Arc;
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_core::dead_letter::Letter;
use toolbooth_core::held::HeldCall;

/// The caller of an earlier call, by what is kept of them. None of it is a right: rights are looked up.
#[derive(Debug, Clone, Copy)]
pub struct Absentee<'a> {
    /// The user.
    pub user: &'a str,
    /// The persona they had chosen.
    pub persona: Option<&'a str>,
    /// The session of the call.
    pub session: Option<&'a str>,
    /// The level of data they had named.
    pub level: Option<&'a str>,
    /// What they were identified by; unknown for what earlier versions kept.
    pub identified_by: Option<&'a IdentifiedBy>,
}

impl<'a> Absentee<'a> {
    /// The caller of a held call.
    pub fn of_held(held: &'a HeldCall) -> Self {
        Self {
            user: &held.user,
            persona: held.persona.as_deref(),
            session: held.session.as_deref(),
            level: held.level.as_deref(),
            identified_by: held.identified_by.as_ref(),
        }
    }

    /// The caller of a dead letter.
    pub fn of_letter(letter: &'a Letter) -> Self {
        Self {
            user: &letter.user,
            persona: letter.persona.as_deref(),
            session: letter.session.as_deref(),
            level: letter.level.as_deref(),
            identified_by: letter.identified_by.as_ref(),
        }
    }
}

/// What is known of a user's rights at this moment.
#[derive(Debug, Clone)]
pub enum Rights {
    /// The user, with the rights they have now by what they were identified by.
    Known(Arc<Caller>),
    /// They have none any more: their token was revoked or is over, or their persona was taken away.
    Gone,
    /// It cannot be told now, and may be told later.
    Unknown(String),
}

/// Knows users by name. The doors know how callers are recognised, so they bring one.
#[async_trait]
pub trait Roster: Send + Sync {
    /// The rights that the caller of an earlier call has now.
    async fn rights(&self, absentee: Absentee<'_>) -> Rights;
}
