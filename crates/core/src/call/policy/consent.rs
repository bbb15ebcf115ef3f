//! Consent: a person approves a tool before its first use.

use super::{Policy, Verdict};
use crate::answerer::ConsentTerm;
use crate::call::draft::Draft;
use crate::call::situation::Consented;
use crate::catalog::Tool;
use crate::held::Answerer;

/// Asks before the first call of a tool that `requires_consent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequireConsent {
    /// Only if a file sets `requires_consent`: clients ask their own users before calls, so the default is only
    /// shown.
    Written,
    /// Also by default, except for tools that are known to only read.
    Every,
}

impl Policy for RequireConsent {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.consent == Consented::Yes || !self.asks_consent(&draft.tool) {
            return Verdict::Run;
        }
        let reason = format!("`{}` needs your consent before its first use", draft.tool.exposed);
        Verdict::Ask { reason, answerer: Answerer::CallerOrApprover }
    }

    fn asks_consent(&self, tool: &Tool) -> bool {
        match tool.terms.requires_consent {
            ConsentTerm::NotRequired => false,
            ConsentTerm::Written => true,
            ConsentTerm::ByDefault => *self == Self::Every && !tool.effect().is_known_read(),
        }
    }
}
