//! Context statistics: the token cost of a caller's tools in full, as summaries, and as sent to a client.

use super::summary;
use crate::caller::Caller;
use crate::catalog::{Catalog, ListBytes, Lookup, Tool};
use crate::names::ServerName;
use crate::permission::{Permission, on_tool};
use crate::weigh::definition_tokens;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The token counts of the same tools in each form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Number of tools.
    pub tools: u64,
    /// Tokens of their full definitions.
    pub full: u64,
    /// Tokens of their names and the starts of their descriptions.
    pub summary: u64,
    /// Tokens of what a client was sent.
    pub sent: u64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.tools += other.tools;
        self.full += other.full;
        self.summary += other.summary;
        self.sent += other.sent;
    }
}

/// The token cost of a caller's tools: in total, by server and by tool.
#[derive(Debug, Default)]
pub struct Statistics {
    /// All tools.
    pub total: Weight,
    /// The tools of each server.
    pub servers: BTreeMap<ServerName, Weight>,
    /// Each tool, ordered by server and name.
    pub tools: Vec<(Arc<Tool>, Weight)>,
}

impl Statistics {
    /// Counts the tokens of the tools that a caller may use. `sent` is the list that a client was sent, if known.
    /// Entries of tools that the caller may no longer use count in the total only.
    pub fn of(catalog: &Catalog, caller: &Caller, sent: Option<&ListBytes>, limit: usize) -> Self {
        let mut statistics = Self::default();
        let listed = sent.map(ListBytes::entries).unwrap_or_default();
        let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in &listed {
            let name = entry.member("name").and_then(|name| name.string().map(|name| name.into_owned()));
            let found = catalog.tool(name.as_deref().unwrap_or_default(), caller);
            let Lookup::Found(tool) = found else {
                statistics.total.sent += u64::from(definition_tokens(entry));
                continue;
            };
            // Most entries are the catalog's own definition, whose cost is cached.
            let is_whole = tool.definition.as_bytes() == entry.as_bytes();
            let cost = if is_whole { tool.token_cost() } else { definition_tokens(entry) };
            *sent.entry(&tool.exposed).or_default() += u64::from(cost);
        }
        let parts: Vec<_> = catalog.visible(caller).collect();
        let has_others = catalog.tools(caller).next().is_some();
        for tool in parts.iter().flat_map(|part| &part.tools) {
            // The gateway's own tools are listed only together with others.
            if on_tool(caller, tool) != Permission::Granted || (tool.server.is_own() && !has_others) {
                continue;
            }
            let sent = sent.get(&*tool.exposed).copied().unwrap_or(0);
            let Some(weight) = weigh(tool, sent, limit) else { continue };
            statistics.total.add(weight);
            statistics.servers.entry(tool.server.name.clone()).or_default().add(weight);
            statistics.tools.push((tool.clone(), weight));
        }
        statistics
    }
}

/// The token counts of a tool; `None` for a meta tool that the client was not sent.
fn weigh(tool: &Tool, sent: u64, limit: usize) -> Option<Weight> {
    // A client that gets all definitions does not need meta tools.
    if tool.is_meta() {
        return (sent > 0).then_some(Weight { sent, ..Weight::default() });
    }
    let full = u64::from(tool.token_cost());
    let short = match tool.server.is_own() {
        true => full,
        false => u64::from(definition_tokens(&summary(tool, &tool.exposed, limit))),
    };
    Some(Weight { tools: 1, full, summary: short, sent })
}
