//! The manifests in force, and the state of each of their entries.

use super::{CatalogUpdate, LiveCatalog};
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::Arc;
use toolbooth_core::catalog::EntryReport;
use toolbooth_core::manifest::Manifest;

/// The manifests of a configuration. A reload replaces them as a whole.
#[derive(Debug, Clone, Default)]
pub struct LoadedManifests {
    /// The entries.
    pub entries: Arc<[Manifest]>,
    /// Files that can no longer be parsed, and whose last good entries are in force.
    pub stale_files: Vec<String>,
    /// The names of variables that are set, to tell whether credentials are configured.
    pub variables: BTreeSet<String>,
}

/// The manifests in force.
#[derive(Debug, Default)]
pub(super) struct ManifestState {
    loaded: ArcSwap<LoadedManifests>,
    entries: ArcSwap<Vec<EntryReport>>,
}

impl LiveCatalog {
    /// Replaces the manifests, and waits until the catalog contains them.
    pub async fn set_manifests(&self, manifests: LoadedManifests) {
        let entries = manifests.entries.clone();
        self.manifests.loaded.store(Arc::new(manifests));
        self.update(CatalogUpdate::Manifests(entries)).await;
    }

    /// The manifests in force.
    pub fn manifests(&self) -> Arc<LoadedManifests> {
        self.manifests.loaded.load_full()
    }

    /// The state of each entry.
    pub fn manifest_entries(&self) -> Arc<Vec<EntryReport>> {
        self.manifests.entries.load_full()
    }

    /// Whether a variable is set in the environment or in `env_file`. Its value is not available here.
    pub fn has_variable(&self, name: &str) -> bool {
        self.manifests.loaded.load().variables.contains(name)
    }

    pub(super) fn set_manifest_entries(&self, entries: Vec<EntryReport>) {
        let known = &self.manifests.entries;
        if **known.load() != entries {
            known.store(Arc::new(entries));
        }
    }
}
