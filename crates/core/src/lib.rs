//! The domain of Toolbooth and every decision it takes.
//!
//! Nothing here does IO, awaits, reads a clock or the environment, or knows the wire or SQL.

pub mod call;
pub mod caller;
pub mod catalog;
pub mod compliance;
pub mod fault;
pub mod json;
pub mod names;
pub mod permission;
pub mod persona;
pub mod secret;
pub mod server;
