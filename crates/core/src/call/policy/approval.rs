//! Calls that are asked about because the operator says so.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::call::situation::Consented;
use crate::held::Answerer;

/// `require_approval` and `approval` of a server or tool: asked about every time, whatever was said before.
#[derive(Debug, Clone, Copy)]
pub struct AskFirst;

impl Policy for AskFirst {
    fn judge(&self, draft: &Draft) -> Verdict {
        let Some(answerer) = draft.tool.asks() else { return Verdict::Run };
        let reason = match answerer {
            Answerer::ApproverOnly => format!("`{}` needs the approval of somebody else", draft.tool.exposed),
            _ => format!("`{}` needs approval", draft.tool.exposed),
        };
        Verdict::Ask { reason, answerer }
    }
}

/// `approval.default`: which calls are asked about when nothing else says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultAsk {
    /// None.
    #[default]
    Never,
    /// Those that change something.
    Writes,
    /// All.
    Always,
}

impl Policy for DefaultAsk {
    fn judge(&self, draft: &Draft) -> Verdict {
        // Whoever answers may have said that once is enough.
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
