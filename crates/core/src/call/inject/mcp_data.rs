//! `_mcp_data`: the tools that the caller may call, for tools that plan with other tools.

use super::{InjectionContext, Injector, Supplied};
use crate::call::CallFault;
use crate::caller::Caller;
use crate::catalog::{Catalog, MCP_DATA, ServerCatalog, Tool};
use crate::json::{Member, ObjectWriter, RawJson};
use crate::permission::{Permission, on_tool};
use std::sync::Arc;

/// The default size limit of `_mcp_data`.
pub const MAX_MCP_DATA: usize = 256 * 1024;

/// Replaces a schema that does not fit into the budget. It accepts anything.
const ANY_SCHEMA: &str = r#"{"type":"object"}"#;

/// Supplies `_mcp_data`: first names and descriptions, then schemas, as far as the budget allows.
#[derive(Debug)]
pub struct McpDataInjector {
    budget_bytes: usize,
}

impl Default for McpDataInjector {
    fn default() -> Self {
        Self { budget_bytes: MAX_MCP_DATA }
    }
}

impl McpDataInjector {
    /// An injector with another budget.
    pub fn with_budget(budget_bytes: usize) -> Self {
        Self { budget_bytes }
    }
}

impl Injector for McpDataInjector {
    fn supply(&self, context: &InjectionContext<'_>) -> Result<Supplied, CallFault> {
        if !context.tool.injected.as_ref().is_some_and(|injected| injected.mcp_data) {
            return Ok(Supplied::default());
        }
        let catalog = context.seal_context.catalog;
        let value = catalog.mcp_data(context.caller, || build(catalog, context.caller, self.budget_bytes));
        Ok(vec![Member { key: MCP_DATA.to_owned(), value }].into())
    }
}

/// A tool in `_mcp_data`, and its schema if it fits.
struct McpDataTool<'c> {
    tool: &'c Tool,
    description: String,
    parameters: Option<RawJson>,
}

impl McpDataTool<'_> {
    /// Its size, without the schema.
    fn size(&self) -> usize {
        // 48 bytes are more than the keys and punctuation need.
        let escaped = |text: &str| RawJson::from_value(text).as_bytes().len();
        escaped(&self.tool.exposed) + escaped(&self.description) + ANY_SCHEMA.len() + 48
    }
}

fn build(catalog: &Catalog, caller: &Caller, budget: usize) -> RawJson {
    let mut left = budget.saturating_sub(64);
    let mut complete = true;
    let mut servers: Vec<(&ServerCatalog, String, Vec<McpDataTool<'_>>)> = Vec::new();
    'servers: for server in
        catalog.visible(caller).filter(|server| !server.tools.is_empty() && !server.entry.is_own())
    {
        let about = &server.entry.about;
        let description =
            about.description.clone().or_else(|| about.short_description.clone()).unwrap_or_default();
        let head = RawJson::from_value(&description).as_bytes().len() + server.entry.name.as_str().len() + 64;
        let mut entries = Vec::new();
        let included = |tool: &&Arc<Tool>| !is_canvas(tool) && on_tool(caller, tool) == Permission::Granted;
        for tool in server.tools.iter().filter(included) {
            let entry =
                McpDataTool { tool, description: tool.description().unwrap_or_default(), parameters: None };
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
    write(&servers, if complete { Completeness::Whole } else { Completeness::Cut })
}

/// Whether everything fitted into the budget.
#[derive(PartialEq)]
enum Completeness {
    Whole,
    Cut,
}

fn write(servers: &[(&ServerCatalog, String, Vec<McpDataTool<'_>>)], extent: Completeness) -> RawJson {
    let any_schema = RawJson::trusted(ANY_SCHEMA);
    let servers = list(servers.iter().map(|(server, description, entries)| {
        let tools = list(entries.iter().map(|entry| {
            let mut tool = ObjectWriter::default();
            tool.text("name", &entry.tool.exposed).text("description", &entry.description);
            tool.raw("parameters", entry.parameters.as_ref().unwrap_or(&any_schema));
            tool.finish()
        }));
        let mut writer = ObjectWriter::default();
        writer
            .text("server_name", server.entry.name.as_str())
            .text("description", description)
            .raw("tools", &tools);
        writer.finish()
    }));
    let mut writer = ObjectWriter::default();
    writer.raw("available_servers", &servers);
    if extent == Completeness::Cut {
        writer.raw("truncated", &RawJson::trusted("true"));
    }
    writer.finish()
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

/// Whether it is the drawing surface of some clients, which no server runs.
fn is_canvas(tool: &Tool) -> bool {
    &*tool.name == "canvas" && matches!(tool.server.name.as_str(), "canvas")
        || matches!(&*tool.exposed, "canvas" | "canvas_canvas")
}
