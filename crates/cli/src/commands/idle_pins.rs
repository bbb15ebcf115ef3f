//! Finds the patterns of `exposure.always_load_tools` that match no tool, for `toolbooth doctor`.

use crate::gateway_handle::GatewayHandle;
use serde_json::Value;
use toolbooth_core::catalog::ToolPatterns;

/// The maximum number of pages of tools that are compared.
const MAX_PAGES: usize = 32;
/// The maximum number of patterns that are reported.
const MAX_REPORTED: usize = 20;

/// The patterns that match no tool of the gateway. None if its tools cannot be listed completely.
pub async fn find(gateway: &GatewayHandle, pins: &[String]) -> Vec<String> {
    let mut idle: Vec<(&String, ToolPatterns)> = pins
        .iter()
        .filter_map(|pin| ToolPatterns::new(std::slice::from_ref(pin)).ok().map(|pattern| (pin, pattern)))
        .collect();
    let mut cursor = String::new();
    for _ in 0..MAX_PAGES {
        if idle.is_empty() {
            break;
        }
        let Ok(page) = gateway.get(&format!("/tools?limit=1000{cursor}")).await else { return Vec::new() };
        for tool in page["tools"].as_array().into_iter().flatten() {
            idle.retain(|(_, pattern)| !is_pinned(pattern, tool));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return idle.into_iter().take(MAX_REPORTED).map(|(pin, _)| pin.clone()).collect(),
        }
    }
    Vec::new()
}

/// Whether a pattern matches any name of a tool.
fn is_pinned(pattern: &ToolPatterns, tool: &Value) -> bool {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    let (server, own) = (text("server"), text("tool"));
    pattern.match_any_pair(server, own) || pattern.permit_pair(server, own, text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pin_matches_in_every_naming_form() {
        let tool = json!({ "name": "playwright_browser_snapshot", "server": "playwright", "tool": "browser_snapshot" });
        let cases = [
            ("mcp_playwright_browser_snapshot", true),
            ("mcp__playwright__browser_snapshot", true),
            ("mcp.playwright.browser_snapshot", true),
            ("playwright_*", true),
            ("browser_snapshot", true),
            ("mcp_playwright_no_such_tool", false),
        ];
        for (pin, expected) in cases {
            let pattern = ToolPatterns::new(&[pin.to_owned()]).expect("a pattern");
            assert_eq!(is_pinned(&pattern, &tool), expected, "{pin}");
        }
    }
}
