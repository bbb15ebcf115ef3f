//! Stage 7, route: which providers serve a call, best first.

use super::seal::Sealed;
use crate::names::ServerName;

/// One way to have a call served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider<'a> {
    /// The server that runs the tool.
    pub server: &'a ServerName,
    /// The server's own name for the tool.
    pub tool: &'a str,
}

/// The providers of a call in the order to try them. A discovered tool has one: its own server.
pub fn route(call: &Sealed) -> Vec<Provider<'_>> {
    let tool = call.tool();
    if tool.server.is_virtual() {
        return Vec::new();
    }
    vec![Provider { server: &tool.server.name, tool: &tool.name }]
}
