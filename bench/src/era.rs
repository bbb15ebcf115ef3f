//! The two eras of MCP, as far as the load generator and the test server need them.

use serde_json::{Value, json};

/// The `_meta` key that distinguishes a modern request from a legacy one.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchEra {
    /// Sessions that begin with `initialize`.
    Legacy,
    /// No sessions; every request has metadata.
    Modern,
}

impl BenchEra {
    /// The newest revision of the era.
    pub fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// Adds the members that the era requires to params.
    pub fn complete(self, mut params: Value) -> Value {
        if self == Self::Modern {
            params["_meta"] = json!({
                VERSION_KEY: self.version(),
                "io.modelcontextprotocol/clientInfo": { "name": "bench-load", "version": "1.0.0" },
                "io.modelcontextprotocol/clientCapabilities": {}
            });
        }
        params
    }

    /// The members that every result of the era has, as the tail of a JSON object.
    pub fn result_tail(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => ",\"resultType\":\"complete\"",
        }
    }

    /// The members of a result that may be cached, as the tail of a JSON object.
    ///
    /// It is valid for an hour, so that no list is requested again during a measurement.
    pub fn cache_tail(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => ",\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"public\"",
        }
    }
}
