//! The doors of the gateway: MCP over HTTP and over lines, and REST.
//!
//! A door establishes who calls, reads what they ask, and writes down what the engine answers. It
//! touches neither store nor servers except through the engine.

#![forbid(unsafe_code)]

mod alarm;
pub mod body;
pub mod connections;
pub mod control;
mod converse;
mod cors;
pub mod guard;
mod hearing;
pub mod identify;
pub mod listen;
pub mod mcp;
mod pace;
pub mod peer;
pub mod rest;
pub mod runtime;
mod stall;

pub use listen::{Doors, ListenError, Staff, serve};
