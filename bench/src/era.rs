//! The two eras of MCP, as far as a load generator and a server of test data must know them.

use serde_json::{Value, json};

/// The `_meta` key that tells a modern request from a legacy one.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Era {
    /// Sessions that begin with `initialize`.
    Legacy,
    /// No sessions; every request says what it is.
    Modern,
}

impl Era {
    /// The newest revision of the era.
    pub fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// These params, as the era wants them.
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

    /// The members that every result of the era carries, as the tail of a JSON object.
    pub fn result_tail(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => ",\"resultType\":\"complete\"",
        }
    }

    /// The members that a result which may be cached carries besides.
    ///
    /// It holds for an hour, so that nothing is asked again in the middle of a measurement.
    pub fn cache_tail(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => ",\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"public\"",
        }
    }
}
