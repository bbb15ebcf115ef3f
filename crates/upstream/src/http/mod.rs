//! Servers reached over Streamable HTTP, in both eras.

mod answer;
mod client;
mod credential;
mod fetch;
mod head;
mod heading;
mod inbound;
mod line;
mod notices;
mod peer;
mod postbox;
mod shelf;
mod tls;

pub use client::{Client, Failure, Origin, OriginError, PooledConnection};
pub use credential::Credential;
pub use fetch::Fetch;
pub use peer::{HttpParts, HttpPeer};
pub use postbox::{PostError, Postbox};
pub use tls::connector;
