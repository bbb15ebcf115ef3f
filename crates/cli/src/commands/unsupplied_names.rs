//! Finds tools that take the caller's name as an argument and get it from the model, for `toolbooth doctor` and
//! `toolbooth tools lint`.

use crate::gateway_handle::GatewayHandle;
use serde_json::Value;
use std::collections::BTreeMap;
use toolbooth_config::Settings;
use toolbooth_config::settings::AuthMode;

/// The maximum number of pages of tools that are examined.
const MAX_PAGES: usize = 32;
/// The maximum number of tools that a sentence names.
const MAX_NAMED: usize = 3;
/// The argument that Atlas UI supplies. The gateway does not list arguments that it supplies.
const ARGUMENT: &str = "username";

/// One sentence for each server whose tools take `username` from the model. In local mode there is one user only.
pub async fn find(gateway: &GatewayHandle, settings: &Settings) -> Vec<String> {
    if settings.auth.mode == AuthMode::Local {
        return Vec::new();
    }
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut cursor = String::new();
    for _ in 0..MAX_PAGES {
        let Ok(page) = gateway.get(&format!("/tools?view=full&limit=1000{cursor}")).await else { break };
        for tool in page["tools"].as_array().into_iter().flatten().filter(|tool| takes_name(tool)) {
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            servers.entry(text("server")).or_default().push(text("name"));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    servers.iter().map(|(server, tools)| sentence(server, tools)).collect()
}

/// What to do about a sentence of [`find`].
pub const FIX: &str =
    "if it means the caller, set `inject: true` in the server's entry, and the gateway supplies it";

fn takes_name(tool: &Value) -> bool {
    tool["parameters"]["properties"].get(ARGUMENT).is_some()
}

fn sentence(server: &str, tools: &[String]) -> String {
    let named: Vec<String> = tools.iter().take(MAX_NAMED).map(|tool| format!("`{tool}`")).collect();
    let more = match tools.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("server `{server}`: the model chooses `{ARGUMENT}` of {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_listed_username_is_reported() {
        let tool =
            |properties: Value| json!({ "parameters": { "type": "object", "properties": properties } });
        assert!(takes_name(&tool(json!({ "username": { "type": "string" } }))));
        assert!(!takes_name(&tool(json!({ "user": { "type": "string" } }))));
        assert!(!takes_name(&json!({})));
        let tools = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(
            sentence("s", &tools),
            "server `s`: the model chooses `username` of `a`, `b`, `c` and 1 more"
        );
    }
}
