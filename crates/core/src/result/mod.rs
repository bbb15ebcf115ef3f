//! Results: what a tool returned, and what of it its caller is shown. Stage 9, shape, is made of these rooms.
//!
//! Most results need nothing: one glance at the text tells, and they go on byte for byte. The others are taken
//! apart as far as they must be, and what is not meant stays the text that it was.

pub mod artifact;
pub mod budget;
pub mod contract;
pub mod display;
pub mod echo;
pub mod encoded;
pub mod glance;
pub mod inspect;
pub mod media;
pub mod reading;
pub mod shrink;
#[cfg(test)]
mod tests;
pub mod update;

pub use artifact::{Artifact, Content, Kept, Refused};
pub use budget::{Budget, Spill};
pub use glance::{Glance, glance};
pub use inspect::{Inspection, Rules};

/// Where a result tells of the files that were kept.
pub const ARTIFACTS: &str = "toolbooth/artifacts";
/// Where a result tells how it wants to be shown.
pub const DISPLAY: &str = "toolbooth/display";
