//! The domain of Toolbooth and every decision it takes.
//!
//! Nothing here does IO, awaits, reads a clock or the environment, or knows the wire or SQL.

pub mod allowance;
pub mod audit;
pub mod call;
pub mod caller;
pub mod catalog;
pub mod compliance;
pub mod consent;
pub mod cursor;
pub mod dead_letter;
pub mod difference;
pub mod effects;
pub mod event;
pub mod exposure;
pub mod fault;
pub mod file;
pub mod health;
pub mod held;
pub mod json;
pub mod lint;
pub mod manifest;
pub mod name_map;
pub mod names;
pub mod outcome;
pub mod percent;
pub mod permission;
pub mod persona;
pub mod plan;
pub mod provider;
pub mod redact;
mod reference;
pub mod registry;
pub mod result;
pub mod retry;
pub mod sampling;
pub mod scan;
pub mod schema;
pub mod search;
pub mod secret;
pub mod server;
pub mod token;
pub mod trace;
pub mod weigh;
pub mod wildcard;
pub mod words;
