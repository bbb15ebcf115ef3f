//! Stage 7, route: chooses what serves a call.

use super::seal::Sealed;
use crate::manifest::ProviderSpec;
use crate::names::ServerName;

/// A server's tool that serves a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider<'a> {
    /// The server that runs the tool.
    pub server: &'a ServerName,
    /// The server's own name for the tool.
    pub tool: &'a str,
}

/// The route of a call: its own server, or providers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Route<'a> {
    /// The tool's own server.
    Server(Provider<'a>),
    /// One of these providers, chosen by their state when the call is tried.
    Providers(&'a [ProviderSpec]),
}

/// Chooses what serves a call: its providers, or its own server if no manifest gives it providers.
pub fn route(call: &Sealed) -> Route<'_> {
    let tool = call.tool();
    match tool.terms.providers.as_slice() {
        [] => Route::Server(Provider { server: &tool.server.name, tool: &tool.name }),
        providers => Route::Providers(providers),
    }
}
