//! Which tools the entries of manifests speak of, so that a second entry for one tool is noticed.

use std::collections::BTreeMap;
use toolbooth_core::catalog::Naming;
use toolbooth_core::manifest::{Manifest, Scope};

/// The tools that entries speak of so far, under every spelling that can be known without a server's list.
#[derive(Default)]
pub(super) struct Claims {
    said: BTreeMap<(Scope, String), Claim>,
}

/// Which entry spoke of a tool first.
#[derive(Clone)]
pub(super) struct Claim {
    /// The entry's name.
    pub name: String,
    /// Where it stands.
    pub origin: String,
}

impl Claims {
    /// Notes an entry. Another of the same scope that speaks of the same tool came before, and counts.
    pub(super) fn note(&mut self, entry: &Manifest) -> Option<Claim> {
        let mut earlier = None;
        for spelling in spellings(entry) {
            let claim = Claim { name: entry.name.clone(), origin: entry.origin.clone() };
            let known = self.said.entry((entry.scope.clone(), spelling)).or_insert_with(|| claim.clone());
            if known.origin != entry.origin && earlier.is_none() {
                earlier = Some(known.clone());
            }
        }
        earlier
    }
}

/// An entry that wraps a tool speaks of that tool, whatever the entry is called.
fn spellings(entry: &Manifest) -> Vec<String> {
    let mut spellings = vec![entry.name.clone()];
    if let Some((server, tool)) = entry.wrapped() {
        let [prefixed, with_mcp, doubled, id, _bare] = Naming::forms(server.as_str(), tool);
        spellings.extend([prefixed, with_mcp, doubled, id]);
    }
    spellings
}
