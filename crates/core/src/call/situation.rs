//! The context of a call that policies need, looked up by the engine.

use super::approval::Approval;
use uuid::Uuid;

/// The context of a call for policies.
#[derive(Debug, Clone, Default)]
pub struct Situation {
    /// A person's approval of this call, if this is the run it was given for.
    pub approval: Option<Approval>,
    /// The plan that queues this caller's writes, if plan mode is on.
    pub plan: Option<Uuid>,
    /// Whether the call serves an approved step of a plan.
    pub planned: ServesPlanStep,
    /// Whether the caller has consented to this tool before.
    pub consent: Consented,
    /// Whether the tool has changed since it was accepted.
    pub change: DefinitionChange,
}

/// Whether a call serves an approved step of a plan, as the tool behind the step's tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServesPlanStep {
    /// It does not.
    #[default]
    No,
    /// It does, so it is not queued again.
    Yes,
}

/// Whether the caller has consented to a tool before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consented {
    /// No consent is known.
    #[default]
    No,
    /// The caller consented to this version.
    Yes,
}

/// Whether a tool has changed since it was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefinitionChange {
    /// It has not changed, or it is new.
    #[default]
    None,
    /// Its definition has changed.
    Changed,
}
