//! Consent: a person agrees before a tool's first use.

use super::{Policy, Verdict};
use crate::call::draft::Draft;
use crate::call::situation::Consented;
use crate::catalog::Tool;
use crate::held::Answerer;

/// Holds the first call of a tool that `requires_consent`. Only for gateways whose clients' own prompts
/// do not count as consent.
#[derive(Debug, Clone, Copy)]
pub struct AskForConsent;

impl Policy for AskForConsent {
    fn judge(&self, draft: &Draft) -> Verdict {
        if draft.situation.consent == Consented::Yes || !requires_consent(&draft.tool) {
            return Verdict::Run;
        }
        let reason = format!("`{}` needs your consent before its first use", draft.tool.exposed);
        Verdict::Ask { reason, answerer: Answerer::CallerOrApprover }
    }
}

/// Whether a tool needs consent: its own override, else its server's default.
fn requires_consent(tool: &Tool) -> bool {
    let own = tool.server.tools.overrides.get(&*tool.name).and_then(|fields| fields.get("requires_consent"));
    own.and_then(serde_json::Value::as_bool).unwrap_or(tool.server.defaults.requires_consent)
}
