//! The names of the gateway's own tools.

/// Finds tools by what they do.
pub const SEARCH: &str = "mcp_tool_search";
/// Lists tools, page by page.
pub const LIST: &str = "mcp_tool_list";
/// Returns one tool's full definition.
pub const DESCRIBE: &str = "mcp_tool_describe";
/// Calls any tool by name.
pub const CALL: &str = "mcp_tool_call";
/// Reads artifacts: results that were stored because they are over their budget.
pub const READER: &str = "artifact_read";

/// All of them. No server and no manifest may use them.
pub const RESERVED: [&str; 5] = [SEARCH, LIST, DESCRIBE, CALL, READER];

/// Whether this is the name of a meta tool, which finds, lists, describes or calls other tools.
pub fn is_meta(name: &str) -> bool {
    matches!(name, SEARCH | LIST | DESCRIBE | CALL)
}
