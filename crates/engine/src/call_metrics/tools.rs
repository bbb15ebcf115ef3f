//! Metrics of finished calls by server and tool. The number of servers and tools is limited, because both come from
//! outside; calls beyond the limits are counted together.
//!
//! A call reads two maps without a lock and adds to counters of its own tool. Only the first call of a tool takes a
//! lock and copies a map.

use super::{BUCKETS_MS, Histogram, MetricOutcome};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The maximum number of servers with metrics of their own.
const MAX_SERVERS: usize = 256;
/// The maximum number of tools with metrics of their own, of all servers together.
const MAX_TOOLS: usize = 2_000;
/// The longest name in a label, in characters.
const MAX_LABEL: usize = 128;
/// The label of servers and tools beyond the limits. No server and no tool can have this name.
pub const OTHER: &str = "(other)";

/// Counters by name; replaced as a whole when a name is added.
type ByName<T> = ArcSwap<HashMap<Box<str>, Arc<T>>>;

/// Metrics of calls by server and tool.
#[derive(Debug, Default)]
pub struct ToolMetrics {
    servers: ByName<ServerCounters>,
    /// The number of tools, which is changed only while a name is added.
    tools: Mutex<usize>,
}

#[derive(Debug, Default)]
struct ServerCounters {
    durations: Histogram,
    microseconds: AtomicU64,
    tools: ByName<ToolCounters>,
}

#[derive(Debug, Default)]
struct ToolCounters {
    outcomes: [AtomicU64; MetricOutcome::ALL.len()],
    microseconds: AtomicU64,
}

/// The metrics of one server at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCallReport {
    /// The server.
    pub server: String,
    /// The number of calls by duration bucket ([`BUCKETS_MS`]).
    pub durations: [u64; BUCKETS_MS.len() + 1],
    /// The duration of all calls together.
    pub microseconds: u64,
    /// Its tools, sorted by name.
    pub tools: Vec<ToolCallReport>,
}

/// The metrics of one tool at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallReport {
    /// The server's name of the tool.
    pub tool: String,
    /// The number of calls by outcome, without those that did not occur.
    pub outcomes: Vec<(&'static str, u64)>,
    /// The duration of all calls together.
    pub microseconds: u64,
}

impl ToolMetrics {
    /// Counts a finished call of a tool.
    pub(super) fn add(&self, server: &str, tool: &str, outcome: MetricOutcome, took: Duration) {
        let servers = self.servers.load();
        let added;
        let server = match servers.get(server) {
            Some(counters) => counters,
            None => {
                added = self.add_server(server);
                &added
            }
        };
        let spent = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        server.durations.add(took);
        server.microseconds.fetch_add(spent, Ordering::Relaxed);
        let tools = server.tools.load();
        let added;
        let tool = match tools.get(tool) {
            Some(counters) => counters,
            None => {
                added = self.add_tool(server, tool);
                &added
            }
        };
        tool.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
        tool.microseconds.fetch_add(spent, Ordering::Relaxed);
    }

    fn add_server(&self, name: &str) -> Arc<ServerCounters> {
        // It exists only after the limit was reached.
        if let Some(others) = self.servers.load().get(OTHER) {
            return others.clone();
        }
        let _one_at_a_time = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if self.servers.load().len() < MAX_SERVERS { name } else { OTHER };
        get_or_insert(&self.servers, name)
    }

    fn add_tool(&self, server: &ServerCounters, name: &str) -> Arc<ToolCounters> {
        if let Some(others) = server.tools.load().get(OTHER) {
            return others.clone();
        }
        let mut count = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if *count < MAX_TOOLS { name } else { OTHER };
        if !server.tools.load().contains_key(name) {
            *count += 1;
        }
        get_or_insert(&server.tools, name)
    }

    /// A copy of the current metrics, sorted by name.
    pub fn report(&self) -> Vec<ServerCallReport> {
        let servers = self.servers.load();
        let mut report: Vec<ServerCallReport> =
            servers.iter().map(|(name, counters)| counters.report(name)).collect();
        report.sort_by(|one, other| one.server.cmp(&other.server));
        report
    }
}

/// The counters of a name, which are added if it has none. The caller holds the lock.
fn get_or_insert<T: Default>(all: &ByName<T>, name: &str) -> Arc<T> {
    let before = all.load();
    if let Some(counters) = before.get(name) {
        return counters.clone();
    }
    let counters = Arc::new(T::default());
    let mut after: HashMap<Box<str>, Arc<T>> = (**before).clone();
    after.insert(name.into(), counters.clone());
    all.store(Arc::new(after));
    counters
}

fn label(name: &str) -> String {
    name.chars().take(MAX_LABEL).collect()
}

impl ServerCounters {
    fn report(&self, name: &str) -> ServerCallReport {
        let tools = self.tools.load();
        let mut report: Vec<ToolCallReport> =
            tools.iter().map(|(name, counters)| counters.report(name)).collect();
        report.sort_by(|one, other| one.tool.cmp(&other.tool));
        // Two long names may be the same when they are cut. A page must not have the same labels twice.
        report.dedup_by(|later, first| {
            let is_same = later.tool == first.tool;
            if is_same {
                first.merge(later);
            }
            is_same
        });
        ServerCallReport {
            server: label(name),
            durations: self.durations.read(),
            microseconds: self.microseconds.load(Ordering::Relaxed),
            tools: report,
        }
    }
}

impl ToolCounters {
    fn report(&self, name: &str) -> ToolCallReport {
        let counts = MetricOutcome::ALL.iter().zip(&self.outcomes);
        let counts = counts.map(|(outcome, count)| (outcome.as_str(), count.load(Ordering::Relaxed)));
        ToolCallReport {
            tool: label(name),
            outcomes: counts.filter(|(_, count)| *count > 0).collect(),
            microseconds: self.microseconds.load(Ordering::Relaxed),
        }
    }
}

impl ToolCallReport {
    fn merge(&mut self, other: &Self) {
        self.microseconds += other.microseconds;
        for (outcome, count) in &other.outcomes {
            match self.outcomes.iter_mut().find(|(known, _)| known == outcome) {
                Some((_, known)) => *known += count,
                None => self.outcomes.push((*outcome, *count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(3);

    #[test]
    fn calls_are_counted_by_server_tool_and_outcome() {
        let metrics = ToolMetrics::default();
        let calls = [
            ("mail", "send", MetricOutcome::Done),
            ("mail", "send", MetricOutcome::Failed),
            ("mail", "send", MetricOutcome::Done),
            ("mail", "list", MetricOutcome::Cancelled),
            ("files", "send", MetricOutcome::Held),
        ];
        for (server, tool, outcome) in calls {
            metrics.add(server, tool, outcome, TOOK);
        }
        let tool = |tool: &str, outcomes: &[(&'static str, u64)], microseconds| ToolCallReport {
            tool: tool.into(),
            outcomes: outcomes.to_vec(),
            microseconds,
        };
        let report = metrics.report();
        assert_eq!(report.iter().map(|server| server.server.as_str()).collect::<Vec<_>>(), ["files", "mail"]);
        assert_eq!(report[0].tools, [tool("send", &[("held", 1)], 3_000)]);
        let expected =
            [tool("list", &[("cancelled", 1)], 3_000), tool("send", &[("done", 2), ("failed", 1)], 9_000)];
        assert_eq!(report[1].tools, expected);
        assert_eq!((report[1].durations[2], report[1].microseconds), (4, 12_000), "all within 5 ms");
    }

    #[test]
    fn the_number_of_labels_is_limited() {
        let metrics = ToolMetrics::default();
        for number in 0..MAX_SERVERS + 50 {
            metrics.add(&format!("server{number}"), "tool", MetricOutcome::Done, TOOK);
        }
        for number in 0..MAX_TOOLS + 50 {
            metrics.add("server0", &format!("tool{number}"), MetricOutcome::Done, TOOK);
        }
        let report = metrics.report();
        assert_eq!(report.len(), MAX_SERVERS + 1, "and one for all others");
        let others = report.iter().find(|server| server.server == OTHER).expect("all others");
        assert_eq!(others.tools[0].outcomes, [("done", 50)]);
        let tools: usize = report.iter().map(|server| server.tools.len()).sum();
        assert_eq!(tools, MAX_TOOLS + 1, "and one for all other tools of `server0`");
        let calls: u64 = report.iter().flat_map(|server| server.durations).sum();
        assert_eq!(calls as usize, MAX_SERVERS + MAX_TOOLS + 100, "no call is lost");
    }

    #[test]
    fn names_that_are_equal_when_they_are_cut_share_a_label() {
        let metrics = ToolMetrics::default();
        let long = "x".repeat(MAX_LABEL);
        metrics.add("mail", &format!("{long}1"), MetricOutcome::Done, TOOK);
        metrics.add("mail", &format!("{long}2"), MetricOutcome::Failed, TOOK);
        let report = metrics.report();
        let expected =
            ToolCallReport { tool: long, outcomes: vec![("done", 1), ("failed", 1)], microseconds: 6_000 };
        assert_eq!(report[0].tools.len(), 1);
        assert_eq!(report[0].tools[0].microseconds, expected.microseconds);
        assert_eq!(report[0].tools[0].tool, expected.tool);
        assert_eq!(report[0].tools[0].outcomes.len(), 2);
    }
}
