//! Plan mode: reads run, everything else becomes a step.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::effects::Effect;

/// How plan mode recognises a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanReads {
    /// A reading verb in the name is enough.
    Names,
    /// An operator's label or a trusted annotation must say so.
    Trusted,
}

impl PlanReads {
    /// Whether a tool of this effect passes.
    pub fn lets_pass(self, effect: Effect) -> bool {
        !effect.rung.writes() && (self == Self::Names || effect.is_vouched_for())
    }
}

/// Queues writes while the caller plans.
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
