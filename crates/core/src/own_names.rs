//! The names of the gateway's own tools.

/// The name of the server that the gateway's own tools and prompts belong to.
pub const OWN_SERVER: &str = "_toolbooth";

/// Finds tools by what they do.
pub const SEARCH: &str = "mcp_tool_search";
/// Lists tools, page by page.
pub const LIST: &str = "mcp_tool_list";
/// Returns one tool's full definition.
pub const DESCRIBE: &str = "mcp_tool_describe";
/// Calls any tool by name.
pub const CALL: &str = "mcp_tool_call";
/// Returns context statistics: the tokens of the tools that the calling client is shown. Not listed, to save tokens.
pub const STATS: &str = "mcp_context_stats";
/// Reads artifacts: results that were stored because they are over their budget.
pub const READER: &str = "artifact_read";

/// Shows content on the canvas of the console. Not listed: only clients with a canvas have a use for it.
pub const CANVAS: &str = "canvas_canvas";

/// All of them. No server and no manifest may use them.
pub const RESERVED: [&str; 7] = [SEARCH, LIST, DESCRIBE, CALL, STATS, READER, CANVAS];

/// Whether clients in `search` mode are shown a tool of the gateway's own.
pub fn is_listed(name: &str) -> bool {
    !matches!(name, STATS | CANVAS)
}

/// Whether this is the name of a meta tool, which finds, lists, describes, calls or counts other tools, or is for
/// special clients.
pub fn is_meta(name: &str) -> bool {
    matches!(name, SEARCH | LIST | DESCRIBE | CALL | STATS | CANVAS)
}
