//! `_mcp_data`: what this caller may call, for tools that plan with other tools.

use super::{InjectionContext, Injector};
use crate::call::CallFault;
use crate::caller::Caller;
use crate::catalog::{Catalog, MCP_DATA, ServerCatalog, Tool};
use crate::json::{Member, ObjectWriter, RawJson};
use crate::permission::{Permission, on_tool};
use std::sync::Arc;

/// The longest `_mcp_data`, unless configured otherwise.
pub const MAX_MCP_DATA: usize = 256 * 1024;

/// Written where a tool's own schema does not fit any more: it may take anything.
const UNTOLD: &str = r#"{"type":"object"}"#;

/// Supplies `_mcp_data`: names and descriptions first, then schemas, as far as the budget goes.
#[derive(Debug)]
pub struct McpData {
    budget_bytes: usize,
}

impl Default for McpData {
    fn default() -> Self {
        Self { budget_bytes: MAX_MCP_DATA }
    }
}

impl McpData {
    /// With another budget.
    pub fn with_budget(budget_bytes: usize) -> Self {
        Self { budget_bytes }
    }
}

impl Injector for McpData {
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Vec<Member>, CallFault> {
        if !context.tool.injected.as_ref().is_some_and(|injected| injected.mcp_data) {
            return Ok(Vec::new());
        }
        let catalog = context.moment.catalog;
        let value = catalog.told(context.caller, || tell(catalog, context.caller, self.budget_bytes));
        Ok(vec![Member { key: MCP_DATA.to_owned(), value }])
    }
}

/// A tool as it is told, before its schema.
struct Entry<'c> {
    tool: &'c Tool,
    description: String,
    parameters: Option<RawJson>,
}

impl Entry<'_> {
    /// Its size, without the schema.
    fn size(&self) -> usize {
        // Six more for every character that must be escaped is more than any text here needs.
        let escaped = |text: &str| RawJson::from_value(text).as_bytes().len();
        escaped(&self.tool.exposed) + escaped(&self.description) + UNTOLD.len() + 48
    }
}

fn tell(catalog: &Catalog, caller: &Caller, budget: usize) -> RawJson {
    let mut left = budget.saturating_sub(64);
    let mut complete = true;
    let mut servers: Vec<(&ServerCatalog, String, Vec<Entry<'_>>)> = Vec::new();
    'servers: for server in
        catalog.visible(caller).filter(|server| !server.tools.is_empty() && !server.entry.is_own())
    {
        let about = &server.entry.about;
        let description =
            about.description.clone().or_else(|| about.short_description.clone()).unwrap_or_default();
        let head = RawJson::from_value(&description).as_bytes().len() + server.entry.name.as_str().len() + 64;
        let mut entries = Vec::new();
        let told = |tool: &&Arc<Tool>| !is_canvas(tool) && on_tool(caller, tool) == Permission::Granted;
        for tool in server.tools.iter().filter(told) {
            let entry = Entry { tool, description: tool.description().unwrap_or_default(), parameters: None };
            let size = entry.size() + if entries.is_empty() { head } else { 0 };
            if size > left {
                complete = false;
                if !entries.is_empty() {
                    servers.push((server, description, entries));
                }
                break 'servers;
            }
            left -= size;
            entries.push(entry);
        }
        if !entries.is_empty() {
            servers.push((server, description, entries));
        }
    }
    for entry in servers.iter_mut().flat_map(|(_, _, entries)| entries) {
        let schema = entry.tool.input_schema();
        if schema.as_bytes().len() <= left {
            left -= schema.as_bytes().len();
            entry.parameters = Some(schema);
        } else {
            complete = false;
        }
    }
    write(&servers, if complete { Told::Whole } else { Told::Cut })
}

/// Whether everything fitted.
#[derive(PartialEq)]
enum Told {
    Whole,
    Cut,
}

fn write(servers: &[(&ServerCatalog, String, Vec<Entry<'_>>)], extent: Told) -> RawJson {
    let untold = RawJson::trusted(UNTOLD);
    let servers = list(servers.iter().map(|(server, description, entries)| {
        let tools = list(entries.iter().map(|entry| {
            let mut tool = ObjectWriter::default();
            tool.text("name", &entry.tool.exposed).text("description", &entry.description);
            tool.raw("parameters", entry.parameters.as_ref().unwrap_or(&untold));
            tool.finish()
        }));
        let mut told = ObjectWriter::default();
        told.text("server_name", server.entry.name.as_str())
            .text("description", description)
            .raw("tools", &tools);
        told.finish()
    }));
    let mut told = ObjectWriter::default();
    told.raw("available_servers", &servers);
    if extent == Told::Cut {
        told.raw("truncated", &RawJson::trusted("true"));
    }
    told.finish()
}

fn list(values: impl Iterator<Item = RawJson>) -> RawJson {
    let mut text = String::from("[");
    for value in values {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(value.as_str());
    }
    text.push(']');
    RawJson::trusted(text)
}

/// A drawing surface of some clients, which no server runs.
fn is_canvas(tool: &Tool) -> bool {
    &*tool.name == "canvas" && matches!(tool.server.name.as_str(), "canvas")
        || matches!(&*tool.exposed, "canvas" | "canvas_canvas")
}
