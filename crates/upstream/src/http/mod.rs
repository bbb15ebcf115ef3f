//! Streamable HTTP, in both eras.

mod client;
mod connection;
mod fetch;
mod idle_pool;
mod incoming_body;
mod peer;
mod post_target;
mod request_headers;
mod response_head;
mod send_error;
mod sent_at;
mod tls;

pub use crate::credential::ServerCredential;
pub use client::{HttpOrigin, OriginClient, OriginError, PooledConnection};
pub use fetch::Fetch;
pub use peer::{HttpParts, HttpPeer};
pub use post_target::{PostError, PostTarget};
pub use send_error::SendError;
pub use sent_at::sent_at;
pub use tls::connector;
