//! Export of spans to a collector: OTLP over HTTP in JSON, in batches, from a bounded queue. Ending a span never
//! waits.

use super::SpanCounts;
use super::trace_span::TraceSpan;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use toolbooth_core::hex::encode as hex;
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::http::{HttpOrigin, PostError, PostTarget};

/// The maximum number of spans in the queue.
const QUEUE: usize = 4_096;
/// The maximum number of spans in one request.
const MAX_BATCH: usize = 512;
/// How long spans are collected for one request.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of attempts for one request.
const ATTEMPTS: u32 = 3;
/// How long the remaining spans are sent when the gateway stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The path of the OTLP traces endpoint.
const PATH: &str = "/v1/traces";

/// The collector that spans are sent to.
#[derive(Debug, Clone, PartialEq)]
pub struct Collector {
    /// Its URL; `/v1/traces` is appended if it is missing.
    pub url: SecretText,
    /// Request headers for it.
    pub headers: BTreeMap<String, SecretText>,
}

/// The exporter to one collector.
#[derive(Debug)]
pub(super) struct Exporter {
    collector: Collector,
    queue: Mutex<Option<mpsc::Sender<Box<TraceSpan>>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<SpanCounts>,
}

impl Exporter {
    pub(super) fn start(collector: Collector, counts: Arc<SpanCounts>) -> Option<Self> {
        let Some(target) = post_target(&collector) else {
            tracing::error!("the URL or a header of the collector in `telemetry` is not valid");
            return None;
        };
        let (queue, spans) = mpsc::channel(QUEUE);
        let work = deliver(target, spans, counts.clone());
        let task = Mutex::new(Some(tokio::spawn(work)));
        Some(Self { collector, queue: Mutex::new(Some(queue)), task, counts })
    }

    pub(super) fn collector(&self) -> &Collector {
        &self.collector
    }

    /// Queues a finished span. If the queue is full, the span is dropped and counted.
    pub(super) fn take(&self, span: TraceSpan) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.as_ref().is_some_and(|queue| queue.try_send(Box::new(span)).is_ok());
        if !taken {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes the queue, and waits until it is empty.
    pub(super) async fn end(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = timeout(STOP_TIMEOUT, task).await;
        }
    }
}

fn post_target(collector: &Collector) -> Option<PostTarget> {
    let mut origin = HttpOrigin::parse(collector.url.expose()).ok()?;
    if !origin.path.ends_with(PATH) {
        origin.path = format!("{}{PATH}", origin.path.trim_end_matches('/'));
    }
    let headers = &collector.headers;
    headers.iter().try_fold(PostTarget::at(origin), |target, (name, value)| target.with_header(name, value))
}

async fn deliver(target: PostTarget, mut spans: mpsc::Receiver<Box<TraceSpan>>, counts: Arc<SpanCounts>) {
    while let Some(first) = spans.recv().await {
        let mut batch = vec![first];
        let end = Instant::now() + BATCH_INTERVAL;
        while batch.len() < MAX_BATCH {
            match timeout_at(end, spans.recv()).await {
                Ok(Some(span)) => batch.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        let body = Bytes::from(document(&batch).to_string());
        let counter = match post(&target, &body).await {
            Ok(()) => &counts.sent,
            Err(error) => {
                tracing::warn!("{} spans could not be sent to the collector: {error}", batch.len());
                &counts.dropped
            }
        };
        counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
}

async fn post(target: &PostTarget, body: &Bytes) -> Result<(), PostError> {
    let mut pause = Duration::from_millis(500);
    for _ in 1..ATTEMPTS {
        match target.post(body.clone(), &[]).await {
            Err(PostError::Later(_)) => sleep(pause).await,
            other => return other,
        }
        pause *= 4;
    }
    target.post(body.clone(), &[]).await
}

/// The body of an OTLP/HTTP request in JSON.
fn document(spans: &[Box<TraceSpan>]) -> Value {
    let spans: Vec<Value> = spans.iter().map(|span| span_json(span)).collect();
    let resource = [text("service.name", "toolbooth"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{
            "scope": { "name": "toolbooth", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// A span in OTLP. It does not contain the user, because a collector is another system with other readers.
fn span_json(span: &TraceSpan) -> Value {
    /// The span kinds of OTLP: a request to the gateway, and a request of the gateway to a server.
    const SERVER: u8 = 2;
    const CLIENT: u8 = 3;
    const FAILED: u8 = 2;
    let mut attributes = vec![text("mcp.method.name", "tools/call")];
    attributes.extend(span.tool.as_deref().map(|tool| text("gen_ai.tool.name", tool)));
    attributes.extend(span.server.as_deref().map(|server| text("toolbooth.server", server)));
    attributes.extend(span.call.map(|call| text("toolbooth.call", &call.to_string())));
    attributes.extend(span.outcome.map(|outcome| text("toolbooth.outcome", outcome)));
    attributes.extend(span.error.as_deref().map(|error| text("error.type", error)));
    let tool = span.tool.as_deref().unwrap_or_default();
    let mut written = json!({
        "traceId": hex(&span.context.trace),
        "spanId": hex(&span.context.span),
        "name": format!("tools/call {tool}").trim_end(),
        "kind": if span.call.is_some() { SERVER } else { CLIENT },
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = hex(&parent).into();
    }
    if span.error.is_some() {
        written["status"] = json!({ "code": FAILED });
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::trace::TraceContext;

    #[test]
    fn the_traces_path_is_appended_to_a_collectors_url() {
        let cases = [
            ("http://c:4318", Some("/v1/traces")),
            ("http://c:4318/", Some("/v1/traces")),
            ("http://c/otlp/v1/traces", Some("/otlp/v1/traces")),
            ("http://c/otlp", Some("/otlp/v1/traces")),
            ("grpc://c:4317", None),
        ];
        for (url, path) in cases {
            let collector = Collector { url: SecretText::plain(url), headers: BTreeMap::new() };
            assert_eq!(post_target(&collector).as_ref().map(|target| target.path()), path, "{url}");
        }
    }

    #[test]
    fn a_span_is_written_in_otlp_json() {
        let context =
            TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expect("one");
        let mut span = TraceSpan::begin(context, Some([7; 8]), 1);
        span.end_ns = 2;
        span.tool = Some("echo".into());
        span.error = Some("call.timeout".into());
        let document = document(&[Box::new(span)]);
        let written = &document["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let expected = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
            "parentSpanId": "0707070707070707", "name": "tools/call echo", "kind": 3,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2", "status": { "code": 2 },
            "attributes": [text("mcp.method.name", "tools/call"), text("gen_ai.tool.name", "echo"),
                text("error.type", "call.timeout")],
        });
        assert_eq!(*written, expected);
    }
}
