//! The gateway's endpoints ("doors"): MCP over HTTP, MCP over a local socket, and REST.
//!
//! A door identifies the caller, parses the request, and writes the engine's answer. It reaches the store and the
//! servers only through the engine.

#![forbid(unsafe_code)]

pub mod body;
pub mod connections;
pub mod control;
mod cors;
pub mod guard;
mod http_connection;
pub mod identify;
pub mod listen;
pub mod mcp;
mod pace;
pub mod peer;
pub mod rest;
pub mod runtime;
mod stall;

pub use listen::{Doors, ListenError, ServeOptions, serve};
