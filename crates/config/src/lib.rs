//! Files to types: discovery of configuration files, layers with origins, `${VAR}`, dialects, trust,
//! JSON Schema, errors with file, line and hint, and the import of other clients' files.
//!
//! Nothing is started here, and nothing of the process is read except through [`Sources`].

#![forbid(unsafe_code)]

mod changes;
mod checks;
mod dialect;
mod digest;
mod entry;
mod environment;
pub mod expand;
mod explain;
mod fields;
mod finding;
pub mod import;
mod inputs;
mod layer;
mod layers;
mod load;
mod lookup;
pub mod manifest;
mod merge;
pub mod node;
mod ownership;
pub mod parse;
mod read;
mod report;
mod resolve;
mod schema;
mod secrets;
mod servers;
pub mod settings;
mod show;
mod suggest;
pub mod texts;
pub mod trust;
pub mod watch;

pub use changes::ServerChanges;
pub use environment::RESERVED as RESERVED_VARIABLES;
pub use explain::{Explanation, Overridden, explain};
pub use finding::{Finding, Place, Severity, Snippet, render};
pub use inputs::{Discovery, Sources};
pub use layer::{Layer, Origin};
pub use load::{LoadFailure, Loaded, UntrustedSettings, load, load_with_trust};
pub use read::{ReadError, ReadErrorKind, dotted, read_all};
pub use schema::schema;
pub use servers::{ConfiguredServer, ServerConfigState};
pub use settings::Settings;
pub use show::{View, show};
pub use suggest::nearest;
pub use trust::{Change, Preview, TrustBook, TrustError};
