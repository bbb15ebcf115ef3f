//! `demo`: five small tools to try the gateway with.

use super::conversation::{BundledCall, BundledReply, BundledServer};
use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest that `slow` waits.
const LONGEST_WAIT_MS: u64 = 60_000;

/// The server.
#[derive(Debug, Default)]
pub(super) struct BasicsServer {
    flaky_calls: AtomicU64,
}

#[async_trait]
impl BundledServer for BasicsServer {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn tools(&self) -> Value {
        let schema = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
        let read_only = json!({"readOnlyHint": true, "idempotentHint": true});
        json!([
            {"name": "echo", "description": "Returns the text it was given, unchanged.", "annotations": read_only,
             "inputSchema": schema(json!({"text": {"type": "string", "description": "What to return."}}), json!(["text"]))},
            {"name": "time", "description": "Tells the current time in UTC, as seconds since 1970.", "annotations": read_only,
             "inputSchema": schema(json!({}), json!([]))},
            {"name": "hash", "description": "Computes the SHA-256 of a text, in hexadecimal.", "annotations": read_only,
             "inputSchema": schema(json!({"text": {"type": "string", "description": "What to hash."}}), json!(["text"]))},
            {"name": "slow", "description": "Waits for some milliseconds before it answers; shows deadlines at work.", "annotations": read_only,
             "inputSchema": schema(json!({"milliseconds": {"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT_MS, "description": "How long to wait."}}), json!(["milliseconds"]))},
            {"name": "flaky", "description": "Fails on every other call; shows how errors look.", "annotations": read_only,
             "inputSchema": schema(json!({}), json!([]))},
        ])
    }

    #[allow(clippy::disallowed_methods, reason = "the tool `time` shows the system clock")]
    async fn call(&self, call: BundledCall) -> Option<BundledReply> {
        let outcome = match call.tool.as_str() {
            "echo" => call.text("text").map(BundledReply::text),
            "hash" => call.text("text").map(|text| {
                let digest = Sha256::digest(text.as_bytes());
                BundledReply::text(&toolbooth_core::hex::encode(&digest))
            }),
            "time" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(BundledReply::text(&now.as_secs().to_string()))
            }
            "slow" => {
                let wait = call.arguments["milliseconds"].as_u64().unwrap_or(0).min(LONGEST_WAIT_MS);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                Ok(BundledReply::text(&format!("waited {wait} ms")))
            }
            "flaky" => Ok(match self.flaky_calls.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => BundledReply::text("it worked this time"),
                _ => BundledReply::failed("it failed this time"),
            }),
            _ => return None,
        };
        Some(outcome.unwrap_or_else(|refused| refused))
    }
}
