//! Policies that ask for approval because the operator configured it.

use super::{Policy, Verdict};
use crate::answerer::ApprovalBy;
use crate::call::draft::Draft;
use crate::call::situation::Consented;
use crate::held::Answerer;

/// `require_approval`, `approval` and `safety_level` of a server or tool: asks every time, whatever was approved before.
#[derive(Debug, Clone, Copy)]
pub struct RequireApproval;

impl Policy for RequireApproval {
    fn judge(&self, draft: &Draft) -> Verdict {
        let Some(mut answerer) = draft.tool.asks() else { return Verdict::Run };
        // In `local` mode there is no other person to approve the call of a critical tool. `approval = "approver"` still
        // needs one.
        if draft.caller.is_local_owner() && draft.tool.terms.approval != ApprovalBy::Approver {
            answerer = answerer.min(Answerer::InPerson);
        }
        let reason = match answerer {
            Answerer::ApproverOnly => {
                format!("`{}` needs the approval of another person", draft.tool.exposed)
            }
            _ => format!("`{}` needs approval", draft.tool.exposed),
        };
        Verdict::Ask { reason, answerer }
    }
}

/// `approval.default`: which calls need approval if nothing else decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultAsk {
    /// No calls.
    #[default]
    Never,
    /// Calls that change something.
    Writes,
    /// All calls.
    Always,
}

impl Policy for DefaultAsk {
    fn judge(&self, draft: &Draft) -> Verdict {
        // The approver may have chosen to remember the answer.
        if draft.situation.consent == Consented::Yes {
            return Verdict::Run;
        }
        let asks = match self {
            Self::Never => false,
            Self::Writes => draft.tool.effect().rung.writes(),
            Self::Always => true,
        };
        if !asks {
            return Verdict::Run;
        }
        let reason = format!("`{}` is a {} tool", draft.tool.exposed, draft.tool.effect().rung);
        Verdict::Ask { reason, answerer: Answerer::CallerOrApprover }
    }
}
