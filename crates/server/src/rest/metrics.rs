//! `GET /metrics` in the Prometheus text format. No label names a user, because the number of users is unbounded.

use super::RestState;
use super::auth::AdminCaller;
use super::extract::NoQuery;
use crate::access_log::AccessLog;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use toolbooth_engine::call_metrics::{BUCKETS_MS, CallMetrics, ServerCallReport};
use toolbooth_engine::log_limit;
use toolbooth_engine::trace::Tracing;
use toolbooth_engine::{EventRing, LiveCatalog, Servers};
use toolbooth_upstream::ServerState;

/// The media type of the Prometheus text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns metrics in the Prometheus text format. Administrators only.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, description = "The metrics.", content_type = "text/plain", body = String),
        (status = 403, description = "`auth.admin-only`."),
    )
)]
pub async fn metrics(State(rest): State<RestState>, _: AdminCaller, _: NoQuery) -> Response {
    let engine = rest.engine();
    let held = engine.approvals().pending_count().await;
    let mut page = MetricsPage::default();
    calls(&mut page, engine.calls().metrics());
    tools(&mut page, &engine.calls().metrics().tools().report());
    servers(&mut page, engine.servers(), engine.catalog());
    page.gauge("toolbooth_held_calls", "Calls that wait for a decision.", held as f64);
    page.gauge(
        "toolbooth_gateways",
        "Running gateways on the store, this one included.",
        engine.replica_mail().live() as f64,
    );
    page.gauge("toolbooth_sessions", "Open legacy sessions.", rest.front_end.sessions.len() as f64);
    events(&mut page, engine.events(), engine.tracing());
    logs(&mut page, rest.access_log.as_deref());
    process(&mut page, engine.uptime());
    ([(CONTENT_TYPE, TEXT)], page.0).into_response()
}

fn calls(page: &mut MetricsPage, tally: &CallMetrics) {
    let name = "toolbooth_calls_total";
    page.head(name, "counter", "Finished calls by outcome.");
    for (outcome, histogram) in tally.by_outcome() {
        let count: u64 = histogram.iter().sum();
        page.line(name, &[("outcome", outcome)], count as f64);
    }
    let name = "toolbooth_call_duration_seconds";
    page.head(name, "histogram", "Duration of calls, from request to answer.");
    let mut sum = vec![0; BUCKETS_MS.len() + 1];
    for (_, histogram) in tally.by_outcome() {
        sum.iter_mut().zip(histogram).for_each(|(sum, count)| *sum += count);
    }
    page.histogram(name, &[], &sum, tally.report().microseconds);
    page.gauge(
        "toolbooth_calls_in_flight",
        "Calls that have begun and not ended, with those that wait for a person.",
        tally.in_flight() as f64,
    );
    page.counter(
        "toolbooth_unrecorded_calls_total",
        "Calls whose end could not be recorded.",
        tally.unrecorded() as f64,
    );
}

/// Calls by server and tool. The engine limits the number of both.
fn tools(page: &mut MetricsPage, servers: &[ServerCallReport]) {
    let name = "toolbooth_server_call_duration_seconds";
    page.head(name, "histogram", "Duration of calls by server, from request to answer.");
    for server in servers {
        page.histogram(name, &[("server", &server.server)], &server.durations, server.microseconds);
    }
    let name = "toolbooth_tool_calls_total";
    page.head(name, "counter", "Finished calls by server, tool and outcome.");
    for server in servers {
        for tool in &server.tools {
            for (outcome, count) in &tool.outcomes {
                let labels = [("server", &*server.server), ("tool", &*tool.tool), ("outcome", *outcome)];
                page.line(name, &labels, *count as f64);
            }
        }
    }
    let name = "toolbooth_tool_call_seconds_total";
    page.head(name, "counter", "Duration of all calls of a tool together.");
    for server in servers {
        for tool in &server.tools {
            let labels = [("server", &*server.server), ("tool", &*tool.tool)];
            page.line(name, &labels, tool.microseconds as f64 / 1e6);
        }
    }
}

fn servers(page: &mut MetricsPage, servers: &Servers, catalog: &LiveCatalog) {
    let servers = servers.all();
    let mut states: BTreeMap<&'static str, u64> = BTreeMap::new();
    for managed in servers.values() {
        *states.entry(managed.state().as_str()).or_default() += 1;
    }
    page.head("toolbooth_servers", "gauge", "Servers by state.");
    for (state, count) in states {
        page.line("toolbooth_servers", &[("state", state)], count as f64);
    }
    page.head("toolbooth_server_connected", "gauge", "Whether a server is connected.");
    for (name, managed) in servers.iter() {
        let connected = managed.state() == ServerState::Connected;
        page.line("toolbooth_server_connected", &[("server", name.as_str())], f64::from(u8::from(connected)));
    }
    page.head("toolbooth_catalog_tools", "gauge", "Tools in the catalog by server.");
    let snapshot = catalog.load();
    for (name, part) in snapshot.servers() {
        page.line("toolbooth_catalog_tools", &[("server", name.as_str())], part.tool_count() as f64);
    }
    let name = "toolbooth_surface_changes_total";
    page.head(name, "counter", "Changes of the lists that clients are shown, by cause.");
    for (cause, count) in catalog.surface_tally().report() {
        page.line(name, &[("cause", cause)], count as f64);
    }
    page.counter(
        "toolbooth_unsolicited_answers_total",
        "Answers of servers that no request was waiting for.",
        toolbooth_upstream::duplex::unsolicited_answers() as f64,
    );
    page.gauge("toolbooth_catalog_revision", "Revision of the catalog.", snapshot.revision as f64);
}

fn events(page: &mut MetricsPage, events: &EventRing, tracing: &Tracing) {
    let report = events.report();
    page.counter("toolbooth_events_total", "Events emitted.", report.emitted as f64);
    page.gauge(
        "toolbooth_event_followers",
        "Streams and webhooks that follow events.",
        report.followers as f64,
    );
    let name = "toolbooth_events_dropped_total";
    page.head(name, "counter", "Events and spans that were not delivered.");
    let dropped = [
        ("overtaken", report.overtaken),
        ("webhook", report.undelivered),
        ("otlp", tracing.report().dropped),
    ];
    for (why, count) in dropped {
        page.line(name, &[("reason", why)], count as f64);
    }
    page.counter("toolbooth_spans_total", "Spans sent to the collector.", tracing.report().sent as f64);
}

fn logs(page: &mut MetricsPage, access_log: Option<&AccessLog>) {
    if let Some(log) = access_log {
        page.counter(
            "toolbooth_access_log_lines_total",
            "Lines written to the access log.",
            log.written() as f64,
        );
        page.counter(
            "toolbooth_access_log_dropped_total",
            "Requests without a line in the access log.",
            log.dropped() as f64,
        );
    }
    page.counter(
        "toolbooth_log_suppressed_total",
        "Log lines that were left out because they repeat others.",
        log_limit::suppressed() as f64,
    );
}

fn process(page: &mut MetricsPage, uptime: Duration) {
    page.head("toolbooth_build_info", "gauge", "Version of the gateway.");
    page.line("toolbooth_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.gauge("toolbooth_uptime_seconds", "Time since the gateway started.", uptime.as_secs_f64());
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Resident memory of the gateway.", bytes as f64);
    }
}

/// The resident memory of this process, if the system reports it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The text of the metrics page.
#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (at, (key, label)) in labels.iter().enumerate() {
            let label = label.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            let _ = write!(self.0, "{}{key}=\"{label}\"", if at == 0 { "{" } else { "," });
        }
        self.0.push_str(if labels.is_empty() { "" } else { "}" });
        let _ = writeln!(self.0, " {value}");
    }

    /// The lines of one histogram, with counts by duration bucket.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counts: &[u64], microseconds: u64) {
        let bucket = format!("{name}_bucket");
        let mut so_far = 0;
        for (at, count) in counts.iter().enumerate() {
            so_far += count;
            let bound =
                BUCKETS_MS.get(at).map_or_else(|| "+Inf".to_owned(), |ms| format!("{}", *ms as f64 / 1e3));
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", &*bound)]).collect();
            self.line(&bucket, &labels, so_far as f64);
        }
        self.line(&format!("{name}_sum"), labels, microseconds as f64 / 1e6);
        self.line(&format!("{name}_count"), labels, so_far as f64);
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        self.line(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "counter", help);
        self.line(name, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_its_line() {
        let mut page = MetricsPage::default();
        page.gauge("a", "What it is.", 1.5);
        page.line("b", &[("x", "1\"\n\\"), ("y", "")], 3.0);
        assert_eq!(page.0, "# HELP a What it is.\n# TYPE a gauge\na 1.5\nb{x=\"1\\\"\\n\\\\\",y=\"\"} 3\n");
    }
}
