//! Trace spans: one of a call, and those of its requests to servers.

use super::now_ns;
use super::otlp::Exporter;
use super::trace_span::TraceSpan;
use std::borrow::Cow;
use std::sync::Arc;
use toolbooth_core::catalog::Tool;
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::Fault;
use toolbooth_core::hex;
use toolbooth_core::json::Member;
use toolbooth_upstream::{PeerAnswer, UpstreamError};
use uuid::Uuid;

/// The span of a call.
#[derive(Debug)]
pub(crate) struct CallSpan {
    pub(super) span: TraceSpan,
    pub(super) exporter: Arc<Exporter>,
    pub(super) clock: Arc<Clock>,
}

impl CallSpan {
    /// The id of the trace that the span belongs to.
    pub(crate) fn trace_id(&self) -> String {
        hex::encode(&self.span.context.trace)
    }

    /// Ends the span with the call's id, tool and outcome.
    pub(crate) fn end(
        mut self,
        call: Uuid,
        tool: Option<&Arc<Tool>>,
        outcome: &'static str,
        code: Option<&Cow<'static, str>>,
    ) {
        if let Some(tool) = tool {
            self.span.about(&tool.server.name, &tool.name);
        }
        self.span.call = Some(call);
        self.span.outcome = Some(outcome);
        self.span.error = code.cloned().or_else(|| (outcome == "tool_error").then_some("tool_error".into()));
        self.span.end_ns = now_ns(&self.clock);
        self.exporter.take(self.span);
    }
}

/// The span of one request to a server. Dropped without an answer, it ends as cancelled.
#[derive(Debug)]
pub(crate) struct AttemptSpan {
    pub(super) span: Option<TraceSpan>,
    pub(super) meta: Vec<Member>,
    pub(super) exporter: Arc<Exporter>,
    pub(super) clock: Arc<Clock>,
}

impl AttemptSpan {
    /// The `_meta` for the server.
    pub(crate) fn meta(&self) -> &[Member] {
        &self.meta
    }

    /// Ends the span with the server's answer.
    pub(crate) fn end(mut self, answer: &Result<PeerAnswer, UpstreamError>) {
        let error = match answer {
            Err(error) => Some(error.code().into()),
            Ok(PeerAnswer::Whole(Err(error))) => Some(format!("rpc {}", error.code).into()),
            Ok(_) => None,
        };
        self.send(error);
    }

    fn send(&mut self, error: Option<Cow<'static, str>>) {
        if let Some(mut span) = self.span.take() {
            span.error = error;
            span.end_ns = now_ns(&self.clock);
            self.exporter.take(span);
        }
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        self.send(Some("cancelled".into()));
    }
}
