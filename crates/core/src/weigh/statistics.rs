//! Context statistics: what a caller's tools cost a model in full, as summaries, and as a client was sent them.

use super::definition;
use crate::caller::Caller;
use crate::catalog::{Catalog, ListBytes, Lookup, Tool};
use crate::exposure::{meta, summary};
use crate::names::ServerName;
use crate::permission::{Permission, on_tool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens of the same tools in each form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// How many tools there are.
    pub tools: u64,
    /// Their definitions.
    pub full: u64,
    /// Their names, and the starts of their descriptions.
    pub summary: u64,
    /// What a client was sent of them.
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

/// What the tools of a caller cost, together, by server and one by one.
#[derive(Debug, Default)]
pub struct Statistics {
    /// All of them.
    pub total: Weight,
    /// Those of each server.
    pub servers: BTreeMap<ServerName, Weight>,
    /// Each of them, in the order of servers and names.
    pub tools: Vec<(Arc<Tool>, Weight)>,
}

impl Statistics {
    /// Weighs the tools that a caller may use. `sent` is the list that a client was sent, if that is known;
    /// what stands in it and is no longer the caller's counts, but belongs to no tool.
    pub fn of(catalog: &Catalog, caller: &Caller, sent: Option<&ListBytes>, limit: usize) -> Self {
        let mut statistics = Self::default();
        let listed = sent.map(ListBytes::entries).unwrap_or_default();
        let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in &listed {
            let name = entry.member("name").and_then(|name| name.string().map(|name| name.into_owned()));
            let found = catalog.tool(name.as_deref().unwrap_or_default(), caller);
            let Lookup::Found(tool) = found else {
                statistics.total.sent += u64::from(definition(entry));
                continue;
            };
            // Most entries are the catalog's own definition, whose cost is known.
            let is_whole = tool.definition.as_bytes() == entry.as_bytes();
            let cost = if is_whole { tool.token_cost() } else { definition(entry) };
            *sent.entry(&tool.exposed).or_default() += u64::from(cost);
        }
        let parts: Vec<_> = catalog.visible(caller).collect();
        let has_others = catalog.tools(caller).next().is_some();
        for tool in parts.iter().flat_map(|part| &part.tools) {
            // The gateway's own tools are listed beside others only.
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

/// A tool in each form; nothing of a meta tool that the client was not sent.
fn weigh(tool: &Tool, sent: u64, limit: usize) -> Option<Weight> {
    // Whoever is shown everything needs none of them.
    if meta::is_meta(tool) {
        return (sent > 0).then_some(Weight { sent, ..Weight::default() });
    }
    let full = u64::from(tool.token_cost());
    let short = match tool.server.is_own() {
        true => full,
        false => u64::from(definition(&summary(tool, &tool.exposed, limit))),
    };
    Some(Weight { tools: 1, full, summary: short, sent })
}
