//! Manifests: reads the files that describe tools into manifest entries.
//!
//! A value with the wrong type but a clear meaning is accepted with a warning. Errors are reported with file, line and
//! JSON pointer; an entry with an error is ignored, and the other entries load.
//!
//! If a file no longer parses, a reload keeps its last valid entries; of skills, jobs and tasks also each entry that an
//! edit has broken.

mod auth;
mod check;
mod check_files;
mod claims;
mod entry;
mod fields;
mod folder;
mod gather;
pub(crate) mod overrides;
mod preview;
mod provider;
mod schema;
mod skill_entry;
mod skill_folder;
mod skills;
mod workflow_entry;
mod workflow_files;
mod workflows;

pub use crate::inputs::GoodManifests;
pub use check::CheckedManifests;
pub use check_files::{check, check_all};
pub(crate) use gather::{GatheredManifests, ManifestFolders, ManifestInputs, gather};
pub use schema::schema;
pub(crate) use skills::{GatheredSkills, gather_skills};
pub(crate) use workflows::{GatheredWorkflows, gather_workflows};

/// The maximum number of manifest files.
const MAX_FILES: usize = 2000;
/// The maximum number of entries in all files.
const MAX_ENTRIES: usize = 10_000;

/// A JSON pointer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pointer(String);

impl Pointer {
    pub(crate) fn key(&self, key: &str) -> Self {
        Self(format!("{}/{}", self.0, key.replace('~', "~0").replace('/', "~1")))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}/{index}", self.0))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
