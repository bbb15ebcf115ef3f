//! Stage 7, route: what serves a call.

use super::seal::Sealed;
use crate::manifest::ProviderSpec;
use crate::names::ServerName;

/// One way to have a call served by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider<'a> {
    /// The server that runs the tool.
    pub server: &'a ServerName,
    /// The server's own name for the tool.
    pub tool: &'a str,
}

/// What serves a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Route<'a> {
    /// The tool's own server, and nothing else.
    Server(Provider<'a>),
    /// One of these providers: which, the state of each decides when it is tried.
    Providers(&'a [ProviderSpec]),
}

/// What serves a call. A discovered tool that no manifest gives providers has its own server.
pub fn route(call: &Sealed) -> Route<'_> {
    let tool = call.tool();
    match tool.terms.providers.as_slice() {
        [] => Route::Server(Provider { server: &tool.server.name, tool: &tool.name }),
        providers => Route::Providers(providers),
    }
}
