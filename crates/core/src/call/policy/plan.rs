//! Plan mode: reads run, other calls become steps of a plan.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::catalog::Tool;
use crate::effects::{self, Basis};

/// How plan mode recognizes a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanReads {
    /// A reading word in the name is sufficient, or the server's `readOnlyHint` if the name says nothing.
    Names,
    /// An operator's label or a trusted annotation is required.
    Trusted,
}

impl PlanReads {
    /// Whether a tool may run in plan mode.
    pub fn lets_pass(self, tool: &Tool) -> bool {
        let effect = tool.effect();
        let claims = || effect.basis == Basis::Unknown && effects::claims_read_only(&tool.definition);
        match self {
            Self::Names => !effect.rung.writes() || claims(),
            Self::Trusted => effect.is_known_read(),
        }
    }
}

/// Queues writes while the caller is in plan mode.
#[derive(Debug, Clone, Copy)]
pub struct PlanMode(pub PlanReads);

impl Policy for PlanMode {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.plan.is_none() || self.0.lets_pass(&draft.tool) {
            return Verdict::Run;
        }
        Verdict::Queue {
            reason: format!("plan mode is on and `{}` may change something", draft.tool.exposed),
        }
    }
}
