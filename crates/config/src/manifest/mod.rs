//! Manifests: files that describe tools, to entries of the domain.
//!
//! What is written loosely and means one thing is read, with a warning. What is wrong is said with file, place
//! and pointer; an entry with anything wrong in it is set aside, and its siblings load.

mod auth;
mod check;
mod claims;
mod entry;
mod fields;
mod folder;
mod gather;
pub(crate) mod overrides;
mod provider;
mod schema;

pub use check::{Checked, check, check_all};
pub(crate) use gather::{Gathering, Manifests, gather};
pub use schema::schema;

use std::collections::BTreeMap;
use std::path::PathBuf;
use toolbooth_core::manifest::Manifest;

/// The most files of manifests that are read.
const MAX_FILES: usize = 2000;
/// The most entries that are read, of all files.
const MAX_ENTRIES: usize = 10_000;

/// The entries of each file, as they were when the file could last be read. What a broken edit would take away
/// stays.
pub type GoodManifests = BTreeMap<PathBuf, Vec<Manifest>>;

/// A JSON pointer, grown from above.
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
