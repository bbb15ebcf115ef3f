//! Detects a second manifest entry for the same tool.

use std::collections::BTreeMap;
use toolbooth_core::catalog::Naming;
use toolbooth_core::manifest::{Manifest, ManifestScope};

/// The tools that entries describe so far, under every name form that is known without the server's tool list.
#[derive(Default)]
pub(super) struct ToolClaims {
    entries: BTreeMap<(ManifestScope, String), ToolClaim>,
}

/// The first entry that describes a tool.
#[derive(Clone)]
pub(super) struct ToolClaim {
    /// The entry's name.
    pub name: String,
    /// The location of the entry.
    pub origin: String,
}

impl ToolClaims {
    /// Adds an entry. Returns the earlier entry of the same scope that describes the same tool, if there is one.
    pub(super) fn note(&mut self, entry: &Manifest) -> Option<ToolClaim> {
        let mut earlier = None;
        for spelling in spellings(entry) {
            let claim = ToolClaim { name: entry.name.clone(), origin: entry.origin.clone() };
            let known = self.entries.entry((entry.scope.clone(), spelling)).or_insert_with(|| claim.clone());
            if known.origin != entry.origin && earlier.is_none() {
                earlier = Some(known.clone());
            }
        }
        earlier
    }
}

/// All names of the tool that an entry describes. An entry that wraps a tool describes that tool.
fn spellings(entry: &Manifest) -> Vec<String> {
    let mut spellings = vec![entry.name.clone()];
    if let Some((server, tool)) = entry.wrapped() {
        let [prefixed, with_mcp, doubled, id, _bare] = Naming::forms(server.as_str(), tool);
        spellings.extend([prefixed, with_mcp, doubled, id]);
    }
    spellings
}
