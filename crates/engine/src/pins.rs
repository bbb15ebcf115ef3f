//! Tools that are no longer what was accepted: which they are, how they differ, and accepting them.
//!
//! A tool is accepted as it is at its first use, not when it is first listed. Lists come by themselves, before
//! anybody has looked; a definition that nobody ever acted on has nothing to be compared with, and servers that
//! are being written would else have every first call held.

use crate::clock::now_ms;
use crate::engine::Engine;
use crate::memory::{pin, pinned_text};
use crate::quarantine::hex;
use std::sync::Arc;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::consent::Pin;
use toolbooth_core::difference::{Difference, differences};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::ObjectWriter;

/// A tool beside what was accepted of it.
#[derive(Debug)]
pub struct Comparison {
    /// What was accepted; nothing where the tool was never used.
    pub pin: Option<Pin>,
    /// The digest of the definition now.
    pub digest: [u8; 32],
    /// Where the two differ; nothing where the accepted text was not kept.
    pub differences: Option<Vec<Difference>>,
}

impl Comparison {
    /// Whether the definition is another than the one that was accepted.
    pub fn is_changed(&self) -> bool {
        self.pin.as_ref().is_some_and(|pin| pin.digest != self.digest)
    }
}

impl Engine {
    /// The digest that was accepted of a tool, where it has another now.
    pub fn pinned_before(&self, tool: &Tool) -> Option<[u8; 32]> {
        self.memory().pinned_before(tool)
    }

    /// Tools that this caller may use and that are no longer what was accepted, by name.
    pub fn changed_tools(&self, caller: &Arc<Caller>) -> Vec<Arc<Tool>> {
        let catalog = self.catalog();
        let tools = catalog.roll(std::slice::from_ref(caller));
        tools.filter(|tool| self.pinned_before(tool).is_some()).cloned().collect()
    }

    /// Compares a tool with what was accepted of it.
    pub async fn compare(&self, tool: &Tool) -> Result<Comparison, Problem> {
        let pin = self.store().pin(&tool.server.name, &tool.name).await;
        let pin = pin.map_err(|error| Problem::of(&error))?;
        let before = pin.as_ref().and_then(|pin| pin.definition.as_deref());
        let differences = before.map(|before| differences(before, pinned_text(tool)));
        Ok(Comparison { pin, digest: *tool.digest(), differences })
    }

    /// Accepts a tool as it is. Where a digest is given, only if that is the one it has.
    pub async fn accept(&self, tool: &Tool, seen: Option<[u8; 32]>, by: &Caller) -> Result<(), Problem> {
        if seen.is_some_and(|seen| seen != *tool.digest()) {
            return Err(Problem {
                code: "tool.changed-again",
                blame: Blame::Caller,
                message: format!("`{}` has changed again since you looked at it", tool.exposed),
                hint: Some(format!("`toolbooth tools diff {}` shows it as it is now", tool.exposed)),
            });
        }
        let mut detail = ObjectWriter::default();
        detail.text("digest", &hex(tool.digest()));
        if let Some(before) = self.pinned_before(tool) {
            detail.text("before", &hex(&before));
        }
        let accepted = pin(tool, &by.user);
        self.store().save_pins(vec![accepted]).await.map_err(|error| Problem::of(&error))?;
        self.memory().accept(tool);
        let entry = AuditEntry {
            server: Some(tool.server.name.shared()),
            tool: Some(tool.name.clone()),
            detail: Some(detail.finish()),
            ..AuditEntry::new(now_ms(), "tool", &by.user, "accepted")
        };
        self.store().audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))
    }
}
