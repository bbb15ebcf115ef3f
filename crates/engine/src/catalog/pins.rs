//! Pinned definitions: which tools have changed since they were accepted, how, and accepting the change.
//!
//! A definition is pinned at the tool's first use, not when it is first listed: clients list automatically, before
//! anyone has read a definition, and every first call of a tool under development would be held.
//!
//! `DecisionCache` has the pinned digests for every call. The store has the pinned texts, which `core/difference.rs`
//! compares.

use super::LiveCatalog;
use crate::decision_cache::{pin, pinned_text};
use std::sync::Arc;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Tool;
use toolbooth_core::consent::Pin;
use toolbooth_core::difference::{DefinitionDifference, differences};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::hex::encode as hex;
use toolbooth_core::json::ObjectWriter;

/// A tool compared with its pinned definition.
#[derive(Debug)]
pub struct Comparison {
    /// The pinned definition; `None` if the tool was never used.
    pub pin: Option<Pin>,
    /// The digest of the current definition.
    pub digest: [u8; 32],
    /// The differences; `None` if the text of the pinned definition was not stored.
    pub differences: Option<Vec<DefinitionDifference>>,
}

impl Comparison {
    /// Whether the current definition differs from the pinned one.
    pub fn is_changed(&self) -> bool {
        self.pin.as_ref().is_some_and(|pin| pin.digest != self.digest)
    }
}

impl LiveCatalog {
    /// Pins the definition of a tool at its first use.
    pub(crate) fn pin_first_use(&self, tool: &Tool) {
        if tool.server.is_own() {
            return;
        }
        if let Some(pin) = self.shared.decisions.first_use(tool, &self.shared.clock) {
            let store = self.shared.store.clone();
            tokio::spawn(async move {
                if let Err(error) = store.save_pins(vec![pin]).await {
                    tracing::error!("the pin of a tool could not be saved: {error}");
                }
            });
        }
    }

    /// The pinned digest of a tool, if the tool has a different one now.
    pub fn pinned_before(&self, tool: &Tool) -> Option<[u8; 32]> {
        self.shared.decisions.pinned_before(tool)
    }

    /// The tools that this caller may use and that differ from their pinned definition, by name.
    pub fn changed_tools(&self, caller: &Arc<Caller>) -> Vec<Arc<Tool>> {
        let catalog = self.load();
        let tools = catalog.tools_by_name(std::slice::from_ref(caller));
        tools.filter(|tool| self.pinned_before(tool).is_some()).cloned().collect()
    }

    /// Compares a tool with its pinned definition.
    pub async fn compare(&self, tool: &Tool) -> Result<Comparison, Problem> {
        let pin = self.shared.store.pin(&tool.server.name, &tool.name).await;
        let pin = pin.map_err(|error| Problem::of(&error))?;
        let before = pin.as_ref().and_then(|pin| pin.definition.as_deref());
        let differences = before.map(|before| differences(before, pinned_text(tool)));
        Ok(Comparison { pin, digest: *tool.digest(), differences })
    }

    /// Pins a tool's current definition. If a digest is given, only if it is the current one.
    pub async fn accept(&self, tool: &Tool, seen: Option<[u8; 32]>, by: &Caller) -> Result<(), Problem> {
        if seen.is_some_and(|seen| seen != *tool.digest()) {
            return Err(Problem {
                code: "tool.changed-again",
                blame: Blame::Caller,
                message: format!("`{}` has changed again since you looked at it", tool.exposed),
                hint: Some(format!("`toolbooth tools diff {}` shows the current definition", tool.exposed)),
            });
        }
        let mut detail = ObjectWriter::default();
        detail.text("digest", &hex(tool.digest()));
        if let Some(before) = self.pinned_before(tool) {
            detail.text("before", &hex(&before));
        }
        let accepted = pin(tool, &by.user, self.shared.clock.now_ms());
        self.shared.store.save_pins(vec![accepted]).await.map_err(|error| Problem::of(&error))?;
        self.shared.decisions.accept(tool);
        let entry = AuditEntry {
            server: Some(tool.server.name.shared()),
            tool: Some(tool.name.clone()),
            detail: Some(detail.finish()),
            ..AuditEntry::new(self.shared.clock.now_ms(), "tool", &by.user, "accepted")
        };
        self.shared.store.audit_now(vec![entry]).await.map_err(|error| Problem::of(&error))
    }
}
