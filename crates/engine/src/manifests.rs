//! Manifests in force: what the operator says of tools, and what became of each entry.

use crate::engine::Engine;
use crate::keeper::Part;
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::Arc;
use toolbooth_core::catalog::EntryStanding;
use toolbooth_core::manifest::Manifest;

/// What the configuration says about manifests. A reload replaces it whole.
#[derive(Debug, Clone, Default)]
pub struct Manifests {
    /// The entries.
    pub entries: Arc<[Manifest]>,
    /// Files that cannot be read any more, of which the last good content is in force.
    pub kept: Vec<String>,
    /// Names of the variables that have a value, for telling whether credentials are there.
    pub variables: BTreeSet<String>,
}

/// Manifests in force.
#[derive(Debug, Default)]
pub(crate) struct ManifestState {
    said: ArcSwap<Manifests>,
    standing: ArcSwap<Vec<EntryStanding>>,
}

impl Engine {
    /// Puts other manifests in force and waits until the catalog has them.
    pub async fn offer_manifests(&self, manifests: Manifests) {
        let entries = manifests.entries.clone();
        self.manifest_state().said.store(Arc::new(manifests));
        self.offer(Part::Manifests(entries)).await;
    }

    /// What the configuration says about manifests.
    pub fn manifests(&self) -> Arc<Manifests> {
        self.manifest_state().said.load_full()
    }

    /// What became of the entries.
    pub fn manifest_entries(&self) -> Arc<Vec<EntryStanding>> {
        self.manifest_state().standing.load_full()
    }

    pub(crate) fn set_manifest_entries(&self, entries: Vec<EntryStanding>) {
        let standing = &self.manifest_state().standing;
        if **standing.load() != entries {
            standing.store(Arc::new(entries));
        }
    }
}
