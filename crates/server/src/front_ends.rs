//! The front ends of one gateway, shared by all of its threads.

use crate::access_log::AccessLog;
use crate::connections::Connections;
use crate::mcp::FrontEndState;
use axum::Router;
use std::sync::Arc;

/// Everything that serves the requests of one gateway.
#[derive(Debug, Clone)]
pub struct FrontEnds {
    /// The state that they share.
    pub state: Arc<FrontEndState>,
    /// The router for all other paths.
    pub rest: Router,
    /// Open connections of all threads.
    pub connections: Arc<Connections>,
    /// The log of requests, if it is configured.
    pub access_log: Option<Arc<AccessLog>>,
}
