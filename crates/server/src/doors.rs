//! The doors of one gateway, shared by all of its threads.

use crate::access_log::AccessLog;
use crate::connections::Connections;
use crate::mcp::Door;
use axum::Router;
use std::sync::Arc;

/// Everything that serves the requests of one gateway.
#[derive(Debug, Clone)]
pub struct Doors {
    /// The MCP endpoint.
    pub door: Arc<Door>,
    /// The router for all other paths.
    pub rest: Router,
    /// Open connections of all threads.
    pub connections: Arc<Connections>,
    /// The log of requests, if it is configured.
    pub access_log: Option<Arc<AccessLog>>,
}
