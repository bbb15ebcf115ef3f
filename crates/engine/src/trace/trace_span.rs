//! The data of a trace span.

use std::borrow::Cow;
use std::sync::Arc;
use toolbooth_core::names::ServerName;
use toolbooth_core::trace::TraceContext;
use uuid::Uuid;

/// A trace span.
#[derive(Debug)]
pub(super) struct TraceSpan {
    pub(super) context: TraceContext,
    pub(super) parent: Option<[u8; 8]>,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) server: Option<Arc<str>>,
    pub(super) tool: Option<Arc<str>>,
    /// The id of the call, if it is the span of a call.
    pub(super) call: Option<Uuid>,
    pub(super) outcome: Option<&'static str>,
    pub(super) error: Option<Cow<'static, str>>,
}

impl TraceSpan {
    pub(super) fn begin(context: TraceContext, parent: Option<[u8; 8]>, start_ns: u64) -> Self {
        Self {
            context,
            parent,
            start_ns,
            end_ns: 0,
            server: None,
            tool: None,
            call: None,
            outcome: None,
            error: None,
        }
    }

    pub(super) fn about(&mut self, server: &ServerName, tool: &Arc<str>) {
        self.server = Some(server.shared());
        self.tool = Some(tool.clone());
    }
}
