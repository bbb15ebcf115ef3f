//! What a policy must know of a call besides the call itself: looked up by the engine, judged here.

use super::licence::Licence;
use uuid::Uuid;

/// How things stand when a call is made.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// A person's yes to this very call, if this is the run it was given for.
    pub licence: Option<Licence>,
    /// The plan that takes this caller's writes, if plan mode is on.
    pub plan: Option<Uuid>,
    /// Whether the call serves a step of a plan that a person approved.
    pub planned: Planned,
    /// Whether the caller has agreed to this tool before.
    pub consent: Consented,
    /// Whether the tool is the one that was accepted.
    pub change: Change,
}

/// Whether a call serves a step of a plan that a person approved: as the tool behind the step's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planned {
    /// It does not.
    #[default]
    No,
    /// It does, so it is not queued again.
    Yes,
}

/// Whether the caller has agreed to a tool before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consented {
    /// Not that anybody knows.
    #[default]
    No,
    /// To this version of it.
    Yes,
}

/// Whether a tool is the one that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Change {
    /// It is, or it is new.
    #[default]
    None,
    /// Its definition has changed since.
    Changed,
}
