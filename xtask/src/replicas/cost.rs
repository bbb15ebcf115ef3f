//! Measurements in rounds that take turns: throughput of one, two and three replicas, and the cost of a call with
//! PostgreSQL and with SQLite. All of them share this machine, so only their ratios mean something.

use super::caller::ReplicaCaller;
use super::cluster::ReplicaCluster;
use super::http::{OutgoingRequest, ReplicaConnection};
use super::report::ReplicaReport;
use crate::interop::memory_kib;
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use std::{
    fs,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// The clients of a measurement of throughput; the same number for one and for three replicas.
const CLIENTS: usize = 12;
/// The clock ticks of a second in `/proc`.
const TICKS: f64 = 100.0;

/// The rounds of the measurements.
#[derive(Debug, Clone, Copy)]
pub struct CostPlan {
    pub rounds: usize,
    /// The duration of one measurement.
    pub length: Duration,
    /// The sessions that are opened to measure their memory.
    pub sessions: usize,
}

/// The tool that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeasuredTool {
    Read,
    Write,
}

impl MeasuredTool {
    fn request(self) -> (&'static str, String) {
        match self {
            Self::Read => ("/tools/fix_echo/call", json!({ "arguments": { "message": "cost" } }).to_string()),
            Self::Write => {
                ("/tools/led_write_entry/call", json!({ "arguments": { "text": "cost" } }).to_string())
            }
        }
    }
}

/// The calls of one measurement.
#[derive(Debug, Default)]
struct CostSample {
    latencies: Vec<Duration>,
    took: Duration,
    cpu_seconds: f64,
}

/// A measurement that is repeated in each round.
struct CostCell<'a> {
    name: &'static str,
    cluster: &'a ReplicaCluster<'a>,
    replicas: usize,
    clients: usize,
    tool: MeasuredTool,
    samples: Vec<CostSample>,
}

impl CostCell<'_> {
    fn sample(&self, length: Duration) -> Result<CostSample> {
        let before = self.cpu()?;
        let started = Instant::now();
        let latencies = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|number| {
                    let address = self.cluster.addresses[number % self.replicas];
                    scope.spawn(move || repeat(address, &self.cluster.root, self.tool, length))
                })
                .collect();
            let mut latencies = Vec::new();
            for client in clients {
                latencies.extend(client.join().map_err(|_| anyhow!("a client panicked"))??);
            }
            Ok::<_, anyhow::Error>(latencies)
        })?;
        Ok(CostSample { latencies, took: started.elapsed(), cpu_seconds: self.cpu()? - before })
    }

    fn cpu(&self) -> Result<f64> {
        (0..self.replicas).map(|replica| cpu_seconds(self.cluster.pid(replica)?)).sum()
    }

    /// The median over rounds of a figure.
    fn median(&self, figure: impl Fn(&CostSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure).collect())
    }

    fn rate(&self) -> f64 {
        self.median(|sample| sample.latencies.len() as f64 / sample.took.as_secs_f64())
    }

    fn latency_ms(&self) -> f64 {
        self.median(|sample| median(sample.latencies.iter().map(|took| took.as_secs_f64() * 1e3).collect()))
    }

    fn cpu_ms(&self) -> f64 {
        self.median(|sample| sample.cpu_seconds * 1e3 / sample.latencies.len().max(1) as f64)
    }
}

/// Measures, with three replicas on PostgreSQL and one gateway on SQLite.
pub fn measure(
    postgres: &ReplicaCluster<'_>,
    sqlite: &ReplicaCluster<'_>,
    plan: CostPlan,
    report: &mut ReplicaReport,
) -> Result<()> {
    let cell = |name, cluster, replicas, clients, tool| CostCell {
        name,
        cluster,
        replicas,
        clients,
        tool,
        samples: Vec::new(),
    };
    let mut cells = [
        cell("1 replica", postgres, 1, CLIENTS, MeasuredTool::Read),
        cell("2 replicas", postgres, 2, CLIENTS, MeasuredTool::Read),
        cell("3 replicas", postgres, 3, CLIENTS, MeasuredTool::Read),
        cell("read, SQLite", sqlite, 1, 1, MeasuredTool::Read),
        cell("read, PostgreSQL", postgres, 1, 1, MeasuredTool::Read),
        cell("write, SQLite", sqlite, 1, 1, MeasuredTool::Write),
        cell("write, PostgreSQL", postgres, 1, 1, MeasuredTool::Write),
    ];
    for round in 0..=plan.rounds {
        for cell in &mut cells {
            let sample = cell.sample(plan.length)?;
            // The first round only warms up.
            if round > 0 {
                cell.samples.push(sample);
            }
        }
    }
    let [one, two, three, read_sqlite, read_postgres, write_sqlite, write_postgres] = &cells;
    for cell in [one, two, three] {
        let seen = format!(
            "{:.0} calls/s, {:.2} times one replica; gateways' CPU {:.2} ms a call",
            cell.rate(),
            cell.rate() / one.rate(),
            cell.cpu_ms()
        );
        report.measure(&format!("throughput of {}, {CLIENTS} clients", cell.name), seen);
    }
    for (sqlite, postgres) in [(read_sqlite, read_postgres), (write_sqlite, write_postgres)] {
        let seen = format!(
            "{:.2} ms / {:.2} ms = {:.2}; CPU {:.2} ms / {:.2} ms",
            postgres.latency_ms(),
            sqlite.latency_ms(),
            postgres.latency_ms() / sqlite.latency_ms(),
            postgres.cpu_ms(),
            sqlite.cpu_ms(),
        );
        report.measure(&format!("a call: {} / {}", postgres.name, sqlite.name), seen);
    }
    measure_memory(postgres, plan.sessions, report)
}

/// The memory of a gateway that has made calls, and that of a session.
fn measure_memory(cluster: &ReplicaCluster<'_>, sessions: usize, report: &mut ReplicaReport) -> Result<()> {
    let process = cluster.pid(0)?;
    let before = memory_kib(process)?;
    for _ in 0..sessions {
        ReplicaCaller::new(cluster.admin(0)).open_session()?;
    }
    let grown = memory_kib(process)?.saturating_sub(before);
    report.measure("memory of a gateway", format!("{} MiB", before / 1024));
    let each = grown as f64 / sessions as f64;
    report.measure("memory of a session of a legacy client", format!("{each:.1} KiB ({sessions} opened)"));
    Ok(())
}

/// Repeats a call on one connection; returns the duration of each.
fn repeat(address: SocketAddr, token: &str, tool: MeasuredTool, length: Duration) -> Result<Vec<Duration>> {
    let mut connection = ReplicaConnection::open(address)?;
    let ((path, body), headers) = (tool.request(), format!("Authorization: Bearer {token}\r\n"));
    let request = OutgoingRequest { method: "POST", path, headers: &headers, body: &body };
    let mut latencies = Vec::new();
    let deadline = Instant::now() + length;
    while Instant::now() < deadline {
        let began = Instant::now();
        let answer = connection.ask(&request)?;
        ensure!(answer.status == 200, "status {}: {}", answer.status, answer.body);
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}

/// The CPU time that a process has used.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain spaces; after it, user and system time are the 12th and 13th field.
    let (_, fields) = stat.rsplit_once(')').context("the process has no times")?;
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).filter_map(|text| text.parse().ok()).collect();
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_processor_time_of_a_process_is_read() -> Result<()> {
        assert!(cpu_seconds(std::process::id())? >= 0.0);
        Ok(())
    }
}
