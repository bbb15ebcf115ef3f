//! Connections to the servers behind the gateway: transports, supervision and requests.
//!
//! This crate does not know callers' rights or policies: calls arrive here sealed.

mod answer_memory;
mod auth_refusals;
mod backoff;
pub mod bundled;
mod capabilities;
pub mod connection;
mod connection_group;
mod credential;
mod discover;
pub mod duplex;
pub mod embeddings;
pub mod error;
mod handshake;
pub mod http;
pub mod lease;
pub mod legacy_sse;
pub mod link;
mod list_changes;
pub mod llm;
mod masking;
pub mod oauth;
pub mod open;
pub mod peer;
pub mod pool;
pub mod process;
mod question_limits;
pub mod remote_parts;
pub mod rest_tool;
mod retry_after;
mod server_requests;
mod spares;
pub mod state;
pub mod stdio;
pub mod supervisor;
mod unreadable;
pub mod websocket;

pub use connection::Connection;
pub use credential::{KeyChange, MAX_KEY_BYTES, UserKeyError, UserKeyStatus, UserKeys};
pub use error::{Remedy, UpstreamError};
pub use lease::ConnectionLease;
pub use link::{CallLink, ClientQuestion, LinkEvent, LinkEvents, UrlCompletions};
pub use peer::{PeerAnswer, ServerNotice};
pub use state::{ServerState, StateReport};
pub use supervisor::{ServerEvent, Start, Supervised, SupervisorContext};
