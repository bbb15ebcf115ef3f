//! The wire format of the Model Context Protocol: both eras, over raw JSON.
//!
//! *Modern* is 2026-07-28 (stateless, metadata on every request); *legacy* is everything before it
//! (`initialize`, sessions). This crate does not deal with callers, policies or the catalog.

#![forbid(unsafe_code)]

pub mod codes;
pub mod envelope;
pub mod era;
pub mod long;
pub mod meta;
pub mod mirror;
mod outline;
pub mod sse;
pub mod state;
pub mod strict;

pub use codes::RpcError;
pub use envelope::{Id, Message, Notification, Request, Response};
pub use era::{Era, Revision};
