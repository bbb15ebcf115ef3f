//! Attempts of identified callers to use what they may not. They are recorded for operators only, because the record
//! may contain what the caller must not know: that such a tool or held call exists.

use crate::engine::Engine;
use crate::refusals::RefusedAttempt;
use toolbooth_core::call::CallFault;
use toolbooth_core::caller::Caller;
use toolbooth_core::permission::why_hidden;

impl Engine {
    /// Records that an identified caller tried to use what they may not: an event and an audit row with the user.
    pub fn record_denied(&self, by: &Caller, code: &'static str, attempt: &str) {
        let source = format!("user {}", by.user);
        self.record_refusal(RefusedAttempt { code, source: &source, user: None, attempt });
    }

    /// Records a call of a tool that exists but that the caller may not use. The caller gets the answer that it does not
    /// exist.
    pub(crate) fn record_hidden_tool(&self, caller: &Caller, fault: &CallFault) {
        let CallFault::UnknownTool { name } = fault else { return };
        let catalog = self.catalog();
        let Some(tool) = catalog.unrestricted_tool(name) else { return };
        let attempt = format!("call of {}: denied by {}", tool.canonical(), why_hidden(caller, tool));
        self.record_denied(caller, "call.denied", &attempt);
    }
}
