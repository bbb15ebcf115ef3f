//! The domain of Toolbooth and every decision it takes.
//!
//! Nothing here does IO, awaits, reads a clock or the environment, or knows the wire or SQL.

pub mod audit;
pub mod call;
pub mod caller;
pub mod catalog;
pub mod compliance;
pub mod consent;
pub mod cursor;
pub mod effects;
pub mod fault;
pub mod file;
pub mod held;
pub mod json;
pub mod manifest;
pub mod names;
pub mod outcome;
pub mod percent;
pub mod permission;
pub mod persona;
pub mod plan;
pub mod redact;
pub mod registry;
pub mod result;
pub mod sampling;
pub mod schema;
pub mod secret;
pub mod server;
pub mod token;
pub mod words;
