//! Streamable HTTP, in both eras.

mod client;
mod connection;
mod fetch;
mod idle_pool;
mod incoming_body;
mod notices;
mod peer;
mod post_target;
mod request_headers;
mod response_head;
mod response_reader;
mod tls;

pub use crate::credential::ServerCredential;
pub use client::{HttpOrigin, OriginClient, OriginError, PooledConnection, SendError};
pub use fetch::Fetch;
pub use peer::{HttpParts, HttpPeer};
pub use post_target::{PostError, PostTarget};
pub use tls::connector;
