//! Configuration: finds and parses files, merges layers, expands `${VAR}`, checks trust, and reports errors with file,
//! line and hint. Also generates the JSON Schema and imports the server lists of other clients.
//!
//! The crate starts nothing, and reads the process environment only through [`Sources`].

#![forbid(unsafe_code)]

mod bounded_file;
mod changes;
mod checks;
pub mod clients;
mod context;
mod dialect;
mod digest;
mod entry;
mod env_document;
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
mod loaded_config;
mod lookup;
pub mod manifest;
mod merge;
pub mod node;
pub mod openapi;
mod ownership;
pub mod parse;
mod read;
pub mod registry;
mod report;
mod resolve;
mod schema;
mod sealed_values;
mod secrets;
mod server_document;
mod servers;
pub mod settings;
mod show;
mod suggest;
pub mod texts;
mod toml_removal;
pub mod trust;
pub mod watch;
mod written_values;
mod yaml_edit;

pub use changes::ServerChanges;
pub use context::UntrustedSettings;
pub use env_document::EnvDocument;
pub use environment::RESERVED as RESERVED_VARIABLES;
pub use explain::{Explanation, Overridden, explain};
pub use finding::{Finding, Severity, render, render_without_line};
pub use inputs::{FileDiscovery, ProposedFile, Sources};
pub use layer::{ConfigOrigin, Layer};
pub use load::{LoadFailure, load, load_with_trust};
pub use loaded_config::LoadedConfig;
pub use read::{ReadError, ReadErrorKind, dotted, read_all};
pub use schema::schema;
pub use sealed_values::{SEALED_PREFIX, ValueSealer, is_sealed};
pub use server_document::{MemberChange, ServerListDocument, ServerSwitch};
pub use servers::{ConfiguredServer, ServerConfigState};
pub use settings::Settings;
pub use show::{ShowMode, show};
pub use suggest::nearest;
pub use texts::{Snippet, SourceLocation};
pub use trust::{Preview, TrustBook, TrustChange, TrustError};
