//! Argument schemas: the arguments that they declare, and their objections to the arguments of a call.
//!
//! Checking arguments helps callers; the tool's server checks them again. So a schema with mistakes is checked as far
//! as it makes sense, a schema that could make a check too expensive is not checked at all, and no tool is dropped for
//! either. The declared arguments are read from the text itself and do not depend on any of this.
//!
//! At admission one pass over the text finds out whether the whole schema can be checked. The schema is compiled on the
//! first call of the tool, so that ten thousand tools need no more memory than their texts.

mod checkable;
mod compiled;
mod cost;
mod coverage;
mod declared;
mod explain;
mod fast_path;
mod fault;
mod graph;
mod keyword;
mod normalise;
mod pattern;
mod place;
mod survey;
mod unique;

pub use compiled::PublicSchema;
pub use coverage::Coverage;
pub use explain::Objection;
pub use fault::SchemaFault;
pub(crate) use fault::shortened;
pub use pattern::Patterns;
pub(crate) use place::{SchemaCompleteness, in_place, resolve};
pub use survey::survey;

/// Maximum length of a schema that is checked.
pub const MAX_BYTES: usize = 128 * 1024;
/// Maximum depth of subschemas that are checked and searched for arguments.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of subschemas that are checked and searched for arguments.
pub const MAX_SUBSCHEMAS: usize = 1_000;
/// Maximum number of patterns of one schema that are checked.
pub const MAX_PATTERNS: usize = 64;
/// Maximum size of a compiled pattern.
pub const MAX_PATTERN_BYTES: usize = 256 * 1024;
