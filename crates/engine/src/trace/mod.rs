//! Traces: a span for each call and for each request to a server, handed to a collector.
//!
//! The context of a call is in its `_meta`, where W3C trace context stands in MCP: the call's span replaces what
//! its client sent, and each request to a server carries a child of it. With tracing off nothing is looked at and
//! what a client sent goes on as it came.

mod otlp;
mod span;

pub use otlp::Collector;
pub(crate) use span::{AttemptSpan, CallSpan};

use arc_swap::ArcSwapOption;
use otlp::Exporter;
use span::Span;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use toolbooth_core::call::{Incoming, Sealed};
use toolbooth_core::json::{Member, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::trace::{Sampled, TRACEPARENT, TRACESTATE, TraceContext};

/// Whether calls are traced, and where their spans go.
#[derive(Debug, Default)]
pub struct Tracing {
    /// Looked at by every call: off, that is all a call pays.
    on: AtomicBool,
    exporter: ArcSwapOption<Exporter>,
    counts: Arc<Counts>,
}

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// How tracing does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracingReport {
    /// Spans that the collector took.
    pub sent: u64,
    /// Spans that were lost: the collector was too slow, or not there.
    pub dropped: u64,
}

impl Tracing {
    /// Sends spans to this collector from now on; with none, nothing is traced.
    pub fn set_collector(&self, collector: Option<Collector>) {
        if self.exporter.load().as_ref().map(|exporter| exporter.collector()) == collector.as_ref() {
            return;
        }
        let exporter = collector.and_then(|collector| Exporter::start(collector, self.counts.clone()));
        self.on.store(exporter.is_some(), Ordering::Relaxed);
        self.exporter.store(exporter.map(Arc::new));
    }

    /// How tracing does.
    pub fn report(&self) -> TracingReport {
        TracingReport {
            sent: self.counts.sent.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }

    /// Hands over what is left, if that goes quickly.
    pub(crate) async fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
        if let Some(exporter) = self.exporter.swap(None) {
            exporter.end().await;
        }
    }

    fn exporter(&self) -> Option<Arc<Exporter>> {
        if self.on.load(Ordering::Relaxed) { self.exporter.load_full() } else { None }
    }

    /// Begins the span of a call, under its client's where it sent one, and puts it in the call's `_meta`.
    pub(crate) fn begin(&self, incoming: &mut Incoming) -> Option<Box<CallSpan>> {
        let exporter = self.exporter()?;
        let parent = context_of(&incoming.meta);
        let context = match parent {
            // Its client does not want it recorded.
            Some(TraceContext { sampled: Sampled::No, .. }) => return None,
            Some(parent) => TraceContext { span: random()?, ..parent },
            None => {
                // What belongs to a context that is none belongs to nothing.
                incoming.meta.retain(|member| member.key != TRACESTATE);
                TraceContext { trace: random()?, span: random()?, sampled: Sampled::Yes }
            }
        };
        put(&mut incoming.meta, &context);
        let span = Span::begin(context, parent.map(|parent| parent.span));
        Some(Box::new(CallSpan { span, exporter }))
    }

    /// Begins the span of one request to a server, under its call's.
    pub(crate) fn attempt(&self, call: &Sealed, server: &ServerName) -> Option<Box<AttemptSpan>> {
        let exporter = self.exporter()?;
        let parent = context_of(call.meta()).filter(|context| context.sampled == Sampled::Yes)?;
        let context = TraceContext { span: random()?, ..parent };
        let mut meta = call.meta().to_vec();
        put(&mut meta, &context);
        let mut span = Span::begin(context, Some(parent.span));
        span.about(server, &call.tool().name);
        Some(Box::new(AttemptSpan { span: Some(span), meta, exporter }))
    }
}

fn context_of(meta: &[Member]) -> Option<TraceContext> {
    let member = meta.iter().find(|member| member.key == TRACEPARENT)?;
    TraceContext::parse(&member.value.string()?)
}

fn put(meta: &mut Vec<Member>, context: &TraceContext) {
    let value = RawJson::from_value(&context.to_string());
    match meta.iter_mut().find(|member| member.key == TRACEPARENT) {
        Some(member) => member.value = value,
        None => meta.push(Member { key: TRACEPARENT.to_owned(), value }),
    }
}

/// An id; without randomness nothing is traced.
fn random<const N: usize>() -> Option<[u8; N]> {
    let mut id = [0; N];
    getrandom::fill(&mut id).ok()?;
    // All zeros means none.
    id[N - 1] |= u8::from(id == [0; N]);
    Some(id)
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
