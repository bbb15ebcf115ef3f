//! The gateway's front ends: MCP over HTTP, MCP over a local socket, REST, and the web console.
//!
//! A front end identifies the caller, parses the request, and writes the engine's answer. It reaches the store and the
//! servers only through the engine.

#![forbid(unsafe_code)]

pub mod access_log;
pub mod body;
pub mod connections;
pub mod console;
mod console_cookies;
pub mod control;
mod cors;
mod event_stream;
mod front_ends;
pub mod guard;
mod http_connection;
pub mod identify;
pub mod listen;
pub mod mcp;
mod owner_browsers;
mod pace;
pub mod peer;
mod peer_info;
pub mod rest;
pub mod runtime;
mod stall;

pub use front_ends::FrontEnds;
pub use listen::{ListenError, ServeOptions, serve};
