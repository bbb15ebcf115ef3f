//! Schemas of arguments: which arguments they declare, and what they say of given ones.
//!
//! Checking arguments is a service to whoever calls; the tool's server checks them again. So a schema that
//! is only sloppy is checked as far as it makes sense, one that could make a check run away is not checked
//! at all, and no tool is lost for either. Which arguments are declared is read from the text itself and
//! does not depend on any of this.
//!
//! At admission one pass over the text tells whether all of a schema will be checked. It is compiled when
//! the tool is first called, so that ten thousand tools cost no more than their texts.

mod compiled;
mod cost;
mod coverage;
mod explain;
mod fault;
mod graph;
mod keyword;
mod mend;
mod pattern;
mod place;
mod plain;
mod shape;
mod sound;
mod survey;
mod unique;

pub use compiled::PublicSchema;
pub use coverage::Coverage;
pub use explain::Objection;
pub use fault::SchemaFault;
pub(crate) use fault::shortened;
pub use pattern::Patterns;
pub(crate) use place::{Extent, in_place, resolve};
pub use survey::survey;

/// The longest schema text that is checked.
pub const MAX_BYTES: usize = 128 * 1024;
/// How deep subschemas may nest to be checked, and to be searched for arguments.
pub const MAX_DEPTH: usize = 32;
/// The most subschemas that are checked, and that are searched for arguments.
pub const MAX_SUBSCHEMAS: usize = 1_000;
/// The most patterns of one schema that are checked.
pub const MAX_PATTERNS: usize = 64;
/// How large a compiled pattern may be.
pub const MAX_PATTERN_BYTES: usize = 256 * 1024;
