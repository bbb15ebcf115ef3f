//! Plans: calls queued in order, for review as a whole before any of them runs.

use crate::persona::is_same_name;
use crate::words::words;
use uuid::Uuid;

words! {
    /// Whether a plan accepts further steps.
    pub enum PlanState ("plan state") {
        /// Calls are queued in it.
        Open = "open",
        /// It accepts no further steps; existing ones can still be decided.
        Closed = "closed",
    }
}

/// An ordered group of held calls. While one is open, its scope is in plan mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its id.
    pub id: Uuid,
    /// The user whose calls it queues.
    pub user: String,
    /// Only calls with this persona.
    pub persona: Option<String>,
    /// Only calls of this session.
    pub session: Option<String>,
    /// Whether it accepts further steps.
    pub state: PlanState,
    /// When it was opened.
    pub created_ms: i64,
    /// When it was closed.
    pub closed_ms: Option<i64>,
}

/// The position of a held call in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanStep {
    /// The plan's id.
    pub plan: Uuid,
    /// Its number, counted from 1.
    pub step: u32,
}

impl Plan {
    /// Whether the plan queues the calls of `user` with `persona` in `session`.
    pub fn covers(&self, user: &str, persona: Option<&str>, session: Option<&str>) -> bool {
        // A plan without a persona or session covers all of them; one with either covers only that one.
        let is = |one: &str, other: Option<&str>| other.is_some_and(|other| is_same_name(one, other));
        self.state == PlanState::Open
            && self.user == user
            && self.persona.as_deref().is_none_or(|bound| is(bound, persona))
            && self.session.as_deref().is_none_or(|bound| Some(bound) == session)
    }

    /// Whether it is an open plan of `user`.
    pub fn is_open_of(&self, user: &str) -> bool {
        self.state == PlanState::Open && self.user == user
    }

    /// Whether it covers the same calls as another plan.
    pub fn has_scope_of(&self, other: &Self) -> bool {
        self.user == other.user && self.persona == other.persona && self.session == other.session
    }

    /// The plan, closed at `at_ms`. A plan that is already closed keeps its time.
    #[must_use]
    pub fn close(&self, at_ms: i64) -> Self {
        let closed_ms = Some(self.closed_ms.unwrap_or(at_ms));
        Self { state: PlanState::Closed, closed_ms, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_covers_its_own_scope() {
        let plan = |persona: Option<&str>, session: Option<&str>| Plan {
            id: Uuid::nil(),
            user: "ann".into(),
            persona: persona.map(Into::into),
            session: session.map(Into::into),
            state: PlanState::Open,
            created_ms: 0,
            closed_ms: None,
        };
        let cases = [
            (None, None, None, None, true),
            (None, None, Some("dev"), Some("s1"), true),
            (Some("dev"), None, Some("dev"), Some("s1"), true),
            (Some("dev"), None, None, None, false),
            (Some("dev"), None, Some("ops"), None, false),
            (None, Some("s1"), None, Some("s1"), true),
            (None, Some("s1"), None, Some("s2"), false),
            (Some("dev"), Some("s1"), Some("dev"), Some("s2"), false),
        ];
        for (bound_persona, bound_session, persona, session, expected) in cases {
            let plan = plan(bound_persona, bound_session);
            assert_eq!(plan.covers("ann", persona, session), expected, "{plan:?} {persona:?} {session:?}");
            assert!(!plan.covers("bo", persona, session));
            assert!(!plan.close(1).covers("ann", persona, session));
        }
    }
}
