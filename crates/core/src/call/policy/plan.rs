//! Plan mode: reads run, other calls become steps of a plan.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::effects::Effect;

/// How plan mode recognizes a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanReads {
    /// A reading verb in the name is sufficient.
    Names,
    /// An operator's label or a trusted annotation is required.
    Trusted,
}

impl PlanReads {
    /// Whether a tool with this effect may run in plan mode.
    pub fn lets_pass(self, effect: Effect) -> bool {
        !effect.rung.writes() && (self == Self::Names || effect.is_vouched_for())
    }
}

/// Queues writes while the caller is in plan mode.
#[derive(Debug, Clone, Copy)]
pub struct PlanMode(pub PlanReads);

impl Policy for PlanMode {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.plan.is_none() || self.0.lets_pass(draft.tool.effect()) {
            return Verdict::Run;
        }
        Verdict::Queue {
            reason: format!("plan mode is on and `{}` may change something", draft.tool.exposed),
        }
    }
}
