//! What a call or an inquiry came to.

use toolbooth_core::json::RawJson;
use toolbooth_upstream::ResultStream;
use toolbooth_wire::{Era, RpcError};

/// An answer for a door to write down in its client's era.
#[derive(Debug)]
pub enum Answer {
    /// A finished result, as the server gave it.
    Result {
        /// The result.
        result: RawJson,
        /// The era of the server that gave it.
        era: Era,
    },
    /// A long finished result, not read.
    Stream {
        /// The result, and the closing brace of its envelope.
        stream: ResultStream,
        /// The era of the server that gives it.
        era: Era,
    },
    /// The server wants to ask the client first.
    InputRequired {
        /// The questions, by the server's keys.
        requests: Option<RawJson>,
        /// The server's own state.
        state: Option<RawJson>,
        /// The server that asks.
        server: String,
    },
    /// The server's own error.
    Error(RpcError),
}
