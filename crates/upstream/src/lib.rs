//! Servers behind the gateway: how they are reached, kept alive and asked.
//!
//! Knows no callers' rights and no policies: a call arrives here sealed.

mod backoff;
mod boxed;
pub mod bundled;
mod capabilities;
pub mod connection;
mod discover;
pub mod duplex;
pub mod embeddings;
pub mod error;
mod handshake;
pub mod http;
pub mod legacy_sse;
pub mod link;
mod listening;
pub mod llm;
mod masking;
pub mod oauth;
pub mod open;
pub mod peer;
pub mod pool;
pub mod process;
mod refusal;
pub mod rest_tool;
pub mod seat;
mod server_requests;
mod spares;
pub mod state;
pub mod stdio;
pub mod supervisor;
mod unreadable;
pub mod websocket;

pub use boxed::boxed;
pub use connection::Connection;
pub use error::{Remedy, UpstreamError};
pub use link::{CallLink, LinkEvent, LinkEvents, Question};
pub use peer::{Notice, PeerAnswer};
pub use seat::Seat;
pub use state::{ServerState, StateReport};
pub use supervisor::{Context, ServerEvent, Start, Supervised};
