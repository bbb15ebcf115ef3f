//! Consent: a person approves a tool before its first use.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::call::situation::Consented;
use crate::held::Answerer;

/// Asks before the first call of a tool that `requires_consent`. Only for gateways whose clients' own prompts do not
/// count as consent.
#[derive(Debug, Clone, Copy)]
pub struct RequireConsent;

impl Policy for RequireConsent {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.consent == Consented::Yes || !draft.tool.terms.requires_consent {
            return Verdict::Run;
        }
        let reason = format!("`{}` needs your consent before its first use", draft.tool.exposed);
        Verdict::Ask { reason, answerer: Answerer::CallerOrApprover }
    }
}
