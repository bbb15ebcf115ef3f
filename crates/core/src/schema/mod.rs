//! Schemas of arguments: which are sound, which arguments they declare, and what they say of given ones.
//!
//! A schema is checked for soundness when its tool is admitted, in one pass over its text. It is compiled
//! when the tool is first called, so that ten thousand tools cost no more than their texts.

mod compiled;
mod cost;
mod explain;
mod fault;
mod graph;
mod place;
mod shape;
mod survey;
mod unique;

pub use compiled::PublicSchema;
pub use explain::Objection;
pub use fault::SchemaFault;
pub(crate) use fault::shortened;
pub(crate) use place::{in_place, resolve};
pub use survey::{Patterns, check};

/// The longest schema text.
pub const MAX_BYTES: usize = 64 * 1024;
/// How deep subschemas may nest.
pub const MAX_DEPTH: usize = 32;
/// The most subschemas.
pub const MAX_SUBSCHEMAS: usize = 500;
/// How large a compiled pattern may be.
pub const MAX_PATTERN_BYTES: usize = 256 * 1024;
