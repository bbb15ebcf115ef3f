//! Tracing: a span for each call and for each request to a server, sent to a collector.
//!
//! A call's trace context is in its `_meta`, where MCP puts the W3C trace context: the call's span replaces the
//! client's context, and each request to a server carries a child span. If tracing is off, the client's context is
//! passed on unchanged.

mod otlp;
mod span;
mod trace_span;

pub use otlp::Collector;
pub(crate) use span::{AttemptSpan, CallSpan};

use arc_swap::ArcSwapOption;
use otlp::Exporter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use toolbooth_core::call::{IncomingCall, Sealed};
use toolbooth_core::clock::Clock;
use toolbooth_core::json::{Member, RawJson};
use toolbooth_core::names::ServerName;
use toolbooth_core::trace::{Sampled, TRACEPARENT, TRACESTATE, TraceContext};
use trace_span::TraceSpan;

/// Whether calls are traced, and where their spans are sent.
#[derive(Debug)]
pub struct Tracing {
    clock: Arc<Clock>,
    /// Read by every call; the only cost while tracing is off.
    on: AtomicBool,
    exporter: ArcSwapOption<Exporter>,
    counts: Arc<SpanCounts>,
}

/// The numbers of spans that were sent and dropped.
#[derive(Debug, Default)]
struct SpanCounts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Statistics of tracing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracingReport {
    /// Spans that the collector accepted.
    pub sent: u64,
    /// Spans that were lost, because the collector was too slow or not reachable.
    pub dropped: u64,
}

impl Tracing {
    /// Tracing that is off.
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self { clock, on: AtomicBool::new(false), exporter: ArcSwapOption::empty(), counts: Arc::default() }
    }

    /// Sends spans to this collector from now on; `None` switches tracing off.
    pub fn set_collector(&self, collector: Option<Collector>) {
        if self.exporter.load().as_ref().map(|exporter| exporter.collector()) == collector.as_ref() {
            return;
        }
        let exporter = collector.and_then(|collector| Exporter::start(collector, self.counts.clone()));
        self.on.store(exporter.is_some(), Ordering::Relaxed);
        self.exporter.store(exporter.map(Arc::new));
    }

    /// The statistics now.
    pub fn report(&self) -> TracingReport {
        TracingReport {
            sent: self.counts.sent.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }

    /// Sends the remaining spans, within a short time.
    pub(crate) async fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
        if let Some(exporter) = self.exporter.swap(None) {
            exporter.end().await;
        }
    }

    fn exporter(&self) -> Option<Arc<Exporter>> {
        if self.on.load(Ordering::Relaxed) { self.exporter.load_full() } else { None }
    }

    /// Begins the span of a call, as a child of its client's span if there is one, and puts it into the call's
    /// `_meta`.
    pub(crate) fn begin(&self, incoming: &mut IncomingCall) -> Option<Box<CallSpan>> {
        let exporter = self.exporter()?;
        let parent = context_of(&incoming.meta);
        let context = match parent {
            // The client does not want the call to be recorded.
            Some(TraceContext { sampled: Sampled::No, .. }) => return None,
            Some(parent) => TraceContext { span: random()?, ..parent },
            None => {
                // Without a valid parent, a `tracestate` has no meaning.
                incoming.meta.retain(|member| member.key != TRACESTATE);
                TraceContext { trace: random()?, span: random()?, sampled: Sampled::Yes }
            }
        };
        put(&mut incoming.meta, &context);
        let span = TraceSpan::begin(context, parent.map(|parent| parent.span), now_ns(&self.clock));
        Some(Box::new(CallSpan { span, exporter, clock: self.clock.clone() }))
    }

    /// Begins the span of one request to a server, as a child of its call's span.
    pub(crate) fn attempt(&self, call: &Sealed, server: &ServerName) -> Option<Box<AttemptSpan>> {
        let exporter = self.exporter()?;
        let parent = context_of(call.meta()).filter(|context| context.sampled == Sampled::Yes)?;
        let context = TraceContext { span: random()?, ..parent };
        let mut meta = call.meta().to_vec();
        put(&mut meta, &context);
        let mut span = TraceSpan::begin(context, Some(parent.span), now_ns(&self.clock));
        span.about(server, &call.tool().name);
        Some(Box::new(AttemptSpan { span: Some(span), meta, exporter, clock: self.clock.clone() }))
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

/// A random id; `None` without randomness, and then nothing is traced.
fn random<const N: usize>() -> Option<[u8; N]> {
    let mut id = [0; N];
    getrandom::fill(&mut id).ok()?;
    // An id of zeros is invalid.
    id[N - 1] |= u8::from(id == [0; N]);
    Some(id)
}

fn now_ns(clock: &Clock) -> u64 {
    u64::try_from(clock.wall().as_nanos()).unwrap_or(u64::MAX)
}
