//! Results: what a tool returned, and the part of it that its caller gets. Stage 9, shape, is built from these modules.
//!
//! Most results need no change: one scan of the text shows it, and they pass through byte for byte. The others are
//! taken apart as far as necessary, and everything else keeps its text.

pub mod artifact;
pub mod budget;
pub mod display;
pub mod echo;
pub mod encoded;
pub mod file_result;
pub mod inspect;
pub mod media;
pub mod prescan;
pub mod reading;
pub mod shrink;
#[cfg(test)]
mod tests;
pub mod update;

pub use artifact::{Artifact, ArtifactContent, RefusedArtifact, StoredArtifact};
pub use budget::{Budget, Spill};
pub use inspect::{Inspection, Rules};
pub use prescan::{Prescan, prescan};

/// The `_meta` key for the files that were kept.
pub const ARTIFACTS: &str = "toolbooth/artifacts";
/// The `_meta` key for display hints.
pub const DISPLAY: &str = "toolbooth/display";
