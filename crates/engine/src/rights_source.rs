//! Looks up callers who are not connected, for calls that run later than they were made.

use async_trait::async_trait;
use std::sync::{Arc, OnceLock, Weak};
use toolbooth_core::caller::{Caller, IdentifiedBy};
use toolbooth_core::dead_letter::DeadLetter;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::held::HeldCall;

/// The caller of an earlier call, as it was stored. It contains no rights: these are looked up.
#[derive(Debug, Clone, Copy)]
pub struct AbsentCaller<'a> {
    /// The user.
    pub user: &'a str,
    /// The persona that they had chosen.
    pub persona: Option<&'a str>,
    /// The session of the call.
    pub session: Option<&'a str>,
    /// The compliance level of the call.
    pub level: Option<&'a str>,
    /// The credential that identified them; `None` in records of earlier versions.
    pub identified_by: Option<&'a IdentifiedBy>,
}

impl<'a> AbsentCaller<'a> {
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
    pub fn of_letter(letter: &'a DeadLetter) -> Self {
        Self {
            user: &letter.user,
            persona: letter.persona.as_deref(),
            session: letter.session.as_deref(),
            level: letter.level.as_deref(),
            identified_by: letter.identified_by.as_ref(),
        }
    }
}

/// The current rights of a caller.
#[derive(Debug, Clone)]
pub enum Rights {
    /// The caller, with the rights that their credential gives them now.
    Known(Arc<Caller>),
    /// They have no rights any more: their token was revoked or has expired, or their persona was removed.
    Gone,
    /// The rights cannot be looked up now, but perhaps later.
    Unknown(String),
}

/// Looks up callers by name. The server implements it, because it knows how callers are identified.
#[async_trait]
pub trait RightsSource: Send + Sync {
    /// The current rights of the caller of an earlier call.
    async fn rights(&self, caller: AbsentCaller<'_>) -> Rights;
}

/// The engine's link to the source of rights, which is set after the engine has started.
#[derive(Default)]
pub(crate) struct RightsSourceLink(OnceLock<Weak<dyn RightsSource>>);

impl RightsSourceLink {
    /// Sets the source. Only the first call has an effect.
    pub(crate) fn set(&self, rights_source: &Arc<dyn RightsSource>) {
        let _ = self.0.set(Arc::downgrade(rights_source));
    }

    /// The current rights of the caller of an earlier call.
    pub(crate) async fn rights(&self, caller: AbsentCaller<'_>) -> Rights {
        match self.0.get().and_then(Weak::upgrade) {
            Some(rights_source) => rights_source.rights(caller).await,
            None => Rights::Unknown(format!("the rights of {} cannot be looked up", caller.user)),
        }
    }
}

/// The error if the caller of an earlier call may no longer use its tool.
pub(crate) fn rights_gone(exposed: &str, user: &str) -> Problem {
    Problem {
        code: "call.rights-gone",
        blame: Blame::Caller,
        message: format!("`{exposed}` was not run: {user} may no longer use it"),
        hint: None,
    }
}
