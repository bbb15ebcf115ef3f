//! `mcp_tool_list` and `mcp_tool_describe`: the catalog page by page, and one whole definition.

use super::{OwnToolResult, OwnTools, text_block};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use toolbooth_core::call::Sealed;
use toolbooth_core::catalog::{Lookup, Tool};
use toolbooth_core::exposure::{cut, meta};
use toolbooth_core::json::RawJson;
use toolbooth_core::weigh;

/// The number of tools on one page.
const PAGE: usize = 50;
/// The length of a shortened text, in characters.
const SHORT: usize = 80;
/// The maximum number of servers that are named if there are more tools than fit one page.
const MAX_SERVERS: usize = 50;

#[derive(Debug, Deserialize)]
struct ListToolsArguments {
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DescribeToolArguments {
    name: String,
}

impl OwnTools {
    /// A page of the tools that the caller may use, by name.
    pub(super) fn list_tools(&self, call: &Sealed) -> OwnToolResult {
        let ListToolsArguments { server, cursor } =
            call.arguments().read().map_err(|error| error.to_string())?;
        let catalog = self.catalog.load();
        let caller = call.caller();
        let of_server =
            |tool: &&Arc<Tool>| server.as_deref().is_none_or(|name| tool.server.name.as_str() == name);
        let mut tools: Vec<&Arc<Tool>> = catalog.tools(caller).filter(of_server).collect();
        if let Some(server) = server.as_deref().filter(|_| tools.is_empty()) {
            return Err(format!("there is no server `{}` with tools that you may use", cut(server, SHORT)));
        }
        tools.sort_unstable_by(|a, b| a.exposed.cmp(&b.exposed));
        let total = tools.len();
        // The cursor is the last name of a page, so it stays valid when tools are added or removed.
        let start = cursor.as_deref().map_or(0, |last| tools.partition_point(|tool| *tool.exposed <= *last));
        let page = &tools[start..(start + PAGE).min(total)];
        let next = (start + PAGE < total).then(|| page.last().map(|tool| tool.exposed.to_string())).flatten();
        let mut lines = Vec::with_capacity(page.len() + 2);
        if next.is_some() && cursor.is_none() && server.is_none() {
            lines.push(server_summary(&tools));
        }
        lines.extend(page.iter().map(|tool| match tool.description() {
            Some(text) if !text.trim().is_empty() => format!("{}: {}", tool.exposed, cut(&text, SHORT)),
            _ => tool.exposed.to_string(),
        }));
        lines.push(match &next {
            Some(next) => {
                format!("[{} to {} of {total}; continue with cursor {next:?}]", start + 1, start + page.len())
            }
            None => format!("[{total} tools; this is the end]"),
        });
        let text = lines.join("\n");
        self.exposure.stats().loaded(caller, call.client(), &[], weigh::tokens(&text));
        let about = json!({ "tools": page.len(), "total": total, "next_cursor": next });
        Ok((vec![text_block(&text)], RawJson::from_value(&about)))
    }

    /// One whole definition.
    pub(super) fn describe_tool(&self, call: &Sealed) -> OwnToolResult {
        let DescribeToolArguments { name } = call.arguments().read().map_err(|error| error.to_string())?;
        let catalog = self.catalog.load();
        let tool = match catalog.served_tool(&name, call.caller()) {
            Lookup::Found(tool) => tool,
            Lookup::Ambiguous(tools) => {
                let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.exposed).collect();
                names.sort_unstable();
                return Err(format!("`{}` names several tools: {}", cut(&name, SHORT), names.join(", ")));
            }
            Lookup::Unknown => {
                let name = cut(&name, SHORT);
                return Err(format!("there is no tool `{name}`; `{}` finds tools", meta::SEARCH));
            }
        };
        self.exposure.load(call.caller(), call.client(), std::iter::once(tool));
        self.exposure.stats().loaded(call.caller(), call.client(), &[&*tool.exposed], tool.token_cost());
        let about = json!({ "name": tool.exposed, "server": tool.server.name.as_str() });
        Ok((vec![text_block(tool.definition.as_str())], RawJson::from_value(&about)))
    }
}

/// The servers, with the number of their tools.
fn server_summary(tools: &[&Arc<Tool>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        *counts.entry(tool.server.name.as_str()).or_default() += 1;
    }
    let more = counts.len().saturating_sub(MAX_SERVERS);
    let mut named: Vec<String> =
        counts.iter().take(MAX_SERVERS).map(|(name, count)| format!("{name} ({count})")).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    format!("[servers: {}]", named.join(", "))
}
