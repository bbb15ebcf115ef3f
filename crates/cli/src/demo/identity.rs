//! `identity`: returns the arguments it received, to show what the gateway supplies.

use super::conversation::{BundledCall, BundledReply, BundledServer};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// The server.
#[derive(Debug, Default)]
pub(super) struct IdentityServer {
    records: AtomicU64,
}

#[async_trait]
impl BundledServer for IdentityServer {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn tools(&self) -> Value {
        let username = json!({"type": "string", "description": "Who calls; supplied by the gateway."});
        let user = json!({"type": "string", "description": "Who calls, under another name; supplied by the gateway."});
        let catalog =
            json!({"type": "object", "description": "What the caller may use; supplied by the gateway."});
        json!([
            {"name": "whoami", "description": "Tells who the gateway says you are, and every argument that arrived.",
             "annotations": {"readOnlyHint": true, "idempotentHint": true},
             "inputSchema": {"type": "object", "properties": {
                "username": username, "_atlas_user": user, "_mcp_data": catalog}, "required": []}},
            {"name": "create_record", "description": "Makes a record that belongs to you, regardless of the claimed name. It is not kept.",
             "annotations": {"readOnlyHint": false, "destructiveHint": false},
             "inputSchema": {"type": "object", "properties": {
                "title": {"type": "string", "description": "What the record is called."}, "username": username},
                "required": ["title"]}},
            {"name": "override_attempt", "description": "Tries to act as another user, and tells whether that worked. It does not.",
             "annotations": {"readOnlyHint": true, "idempotentHint": true},
             "inputSchema": {"type": "object", "properties": {
                "claimed_user": {"type": "string", "description": "Whom to act as."}, "username": username},
                "required": ["claimed_user"]}},
        ])
    }

    async fn call(&self, call: BundledCall) -> Option<BundledReply> {
        let acting_as = &call.arguments["username"];
        let mut report = match call.tool.as_str() {
            "whoami" => json!({"user": acting_as}),
            "create_record" => {
                let number = self.records.fetch_add(1, Ordering::Relaxed) + 1;
                json!({"record": {"number": number, "title": call.arguments["title"], "owner": acting_as}})
            }
            "override_attempt" => {
                let claimed = &call.arguments["claimed_user"];
                json!({"claimed": claimed, "acting_as": acting_as, "override_occurred": claimed == acting_as})
            }
            _ => return None,
        };
        report["received"] = received(&call.arguments);
        Some(BundledReply::object(&json!({"results": report})))
    }
}

/// The received arguments. The catalog is reduced to tool names, because it may be long.
fn received(arguments: &Value) -> Value {
    let mut received = arguments.as_object().cloned().unwrap_or_else(Map::new);
    if let Some(catalog) = received.get_mut("_mcp_data") {
        let servers = catalog["available_servers"].as_array().cloned().unwrap_or_default();
        let names = |server: &Value| {
            let tools = server["tools"].as_array().cloned().unwrap_or_default();
            let names: Vec<Value> = tools.iter().map(|tool| tool["name"].clone()).collect();
            (server["server_name"].as_str().unwrap_or_default().to_owned(), Value::from(names))
        };
        *catalog = Value::Object(servers.iter().map(names).collect());
    }
    Value::Object(received)
}

#[cfg(test)]
mod tests {
    use super::super::conversation::tests::call;
    use super::*;

    #[tokio::test]
    async fn it_returns_the_received_arguments() {
        let data = json!({"available_servers": [{"server_name": "demo", "tools": [{"name": "demo_echo"}]}]});
        let cases = [
            (
                "whoami",
                json!({"username": "ann", "_mcp_data": data}),
                json!({"user": "ann", "received": {"username": "ann", "_mcp_data": {"demo": ["demo_echo"]}}}),
            ),
            (
                "create_record",
                json!({"title": "t", "username": "ann"}),
                json!({"record": {"number": 1, "title": "t", "owner": "ann"}, "received": {"title": "t", "username": "ann"}}),
            ),
            (
                "override_attempt",
                json!({"claimed_user": "root", "username": "ann"}),
                json!({"claimed": "root", "acting_as": "ann", "override_occurred": false,
                    "received": {"claimed_user": "root", "username": "ann"}}),
            ),
        ];
        for (tool, arguments, expected) in cases {
            let result = call(IdentityServer::default(), tool, arguments).await;
            assert_eq!(result["structuredContent"]["results"], expected, "{tool}");
        }
    }
}
