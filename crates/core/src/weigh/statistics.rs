//! Context statistics: what a caller's tools cost a model in full, as summaries, and as a client was sent them.

use super::{definition, tokens};
use crate::caller::Caller;
use crate::catalog::{Catalog, ListBytes, Lookup, Tool};
use crate::json::{ObjectWriter, RawJson};
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
            let full = u64::from(tool.token_cost());
            let weight = Weight {
                tools: 1,
                full,
                summary: if tool.server.is_own() { full } else { u64::from(summary(tool, limit)) },
                sent: sent.get(&*tool.exposed).copied().unwrap_or(0),
            };
            statistics.total.add(weight);
            statistics.servers.entry(tool.server.name.clone()).or_default().add(weight);
            statistics.tools.push((tool.clone(), weight));
        }
        statistics
    }
}

/// The tokens of a tool's name and the start of its description.
pub fn summary(tool: &Tool, limit: usize) -> u32 {
    let mut writer = ObjectWriter::with_capacity(tool.exposed.len() + limit + 32);
    writer.text("name", &tool.exposed);
    if let Some(description) = tool.description() {
        let start: String = description.chars().take(limit).collect();
        writer.text("description", &start);
    }
    let text: RawJson = writer.finish();
    tokens(text.as_str())
}
