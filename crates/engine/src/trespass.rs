//! Attempts of known callers at what is not theirs. They are recorded for operators alone, since the record may say what
//! the caller must not know: that there is such a tool or such a held call.

use crate::engine::Engine;
use crate::refusals::Refusal;
use toolbooth_core::call::CallFault;
use toolbooth_core::caller::Caller;
use toolbooth_core::permission::why_hidden;

impl Engine {
    /// Records that a known caller tried what is not theirs: an event and an audit row that name who tried.
    pub fn note_trespass(&self, by: &Caller, code: &'static str, attempt: &str) {
        let source = format!("user {}", by.user);
        self.record_refusal(Refusal { code, source: &source, user: None, attempt });
    }

    /// Records the call of a tool that is there, but not for this caller, who is told that there is none.
    pub(crate) fn note_hidden(&self, caller: &Caller, fault: &CallFault) {
        let CallFault::UnknownTool { name } = fault else { return };
        let catalog = self.catalog();
        let Some(tool) = catalog.anybodys(name) else { return };
        let attempt = format!("call of {}: denied by {}", tool.canonical(), why_hidden(caller, tool));
        self.note_trespass(caller, "call.denied", &attempt);
    }
}
