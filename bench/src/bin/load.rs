//! `bench-load`: sends requests over many connections and prints the results as one line of JSON.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use toolbooth_bench::client::{self, BenchConnection, Target};
use toolbooth_bench::era::BenchEra;
use toolbooth_bench::processes::ProcessTree;
use toolbooth_bench::summary::Latencies;
use toolbooth_bench::work::{Work, count_tools};

/// A load generator for MCP servers.
#[derive(Parser)]
struct LoadArguments {
    #[command(subcommand)]
    task: LoadTask,
}

#[derive(Subcommand)]
enum LoadTask {
    /// Send requests for a while; print latencies, and the cost for a process tree
    Run(RunArguments),
    /// Start a command, wait until it lists its tools, print the time, and stop it
    Start(StartArguments),
    /// Start many copies of a stdio server at once, and wait until all have listed their tools
    StartServers(StartServersArguments),
    /// Print the memory of a process tree
    Memory(WatchedProcess),
}

#[derive(Clone, Copy, ValueEnum)]
enum Operation {
    Call,
    List,
}

#[derive(Args)]
struct WatchedProcess {
    /// The root of the process tree to watch
    #[arg(long)]
    pid: Option<u32>,
    /// The name of programs in that tree to exclude
    #[arg(long)]
    leave_out: Option<String>,
}

impl WatchedProcess {
    fn tree(&self) -> Option<ProcessTree> {
        self.pid.map(|pid| ProcessTree::of(pid, self.leave_out.as_deref()))
    }
}

#[derive(Args)]
struct RunArguments {
    #[arg(long)]
    url: String,
    #[arg(long, value_enum, default_value = "legacy")]
    era: BenchEra,
    #[arg(long, value_enum, default_value = "call")]
    operation: Operation,
    #[arg(long, default_value = "echo")]
    tool: String,
    /// The arguments of the tool, as JSON
    #[arg(long, default_value = "{}")]
    arguments: String,
    /// The least length of an answer; a shorter one is an error
    #[arg(long, default_value_t = 1)]
    min_bytes: usize,
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    duration_ms: u64,
    /// The duration of requests before the measurement
    #[arg(long, default_value_t = 200)]
    warm_up_ms: u64,
    /// `HOST:PORT` of the test server, to count the messages that reach it
    #[arg(long)]
    count_at: Option<String>,
    #[command(flatten)]
    watched: WatchedProcess,
}

#[derive(Args)]
struct StartArguments {
    #[arg(long)]
    url: String,
    /// The number of tools to wait for
    #[arg(long, default_value_t = 1)]
    tools: usize,
    #[arg(long, default_value_t = 1)]
    poll_ms: u64,
    #[arg(long, default_value_t = 60_000)]
    limit_ms: u64,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct StartServersArguments {
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: u16,
    #[arg(long, default_value_t = 60_000)]
    limit_ms: u64,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn main() -> Result<()> {
    let arguments = LoadArguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        match arguments.task {
            LoadTask::Run(run) => generate(run).await,
            LoadTask::Start(start) => time_start(start).await,
            LoadTask::StartServers(start) => time_servers(start).await,
            LoadTask::Memory(watched) => {
                let tree = watched.tree().context("`--pid` is missing")?;
                Ok(json!({ "resident_kib": tree.resident_kib(), "processes": tree.len() }))
            }
        }
    })?;
    println!("{outcome}");
    Ok(())
}

/// Repeats the work on one connection until the deadline; returns the latencies.
async fn repeat(
    work: Rc<Work>,
    mut connection: BenchConnection,
    until: Instant,
) -> Result<(BenchConnection, Vec<Duration>)> {
    let mut latencies = Vec::new();
    loop {
        let begun = Instant::now();
        if begun >= until {
            return Ok((connection, latencies));
        }
        work.perform(&mut connection, latencies.len() as u64 + 1).await?;
        latencies.push(begun.elapsed());
    }
}

async fn all(
    work: &Rc<Work>,
    connections: Vec<BenchConnection>,
    duration: Duration,
) -> Result<(Vec<BenchConnection>, Vec<Duration>)> {
    let until = Instant::now() + duration;
    let mut tasks = JoinSet::new();
    for connection in connections {
        tasks.spawn_local(repeat(work.clone(), connection, until));
    }
    let (mut back, mut latencies) = (Vec::new(), Vec::new());
    while let Some(finished) = tasks.join_next().await {
        let (connection, taken) = finished??;
        back.push(connection);
        latencies.extend(taken);
    }
    Ok((back, latencies))
}

async fn generate(run: RunArguments) -> Result<Value> {
    let target = Target::parse(&run.url, run.era)?;
    let work = Rc::new(match run.operation {
        Operation::Call => {
            let arguments = serde_json::from_str(&run.arguments).context("`--arguments` is not JSON")?;
            Work::call(&run.tool, &arguments, run.era, run.min_bytes)
        }
        Operation::List => Work::list(run.era, run.min_bytes),
    });
    let mut connections = Vec::new();
    for _ in 0..run.connections {
        connections.push(BenchConnection::open(&target).await?);
    }
    let (connections, _) = all(&work, connections, Duration::from_millis(run.warm_up_ms)).await?;
    let tree = run.watched.tree();
    let memory = tree.clone().map(watch_memory);
    let seen_before = seen(&run).await?;
    let cpu_before = tree.as_ref().map(ProcessTree::cpu_time);
    let begun = Instant::now();
    let (connections, latencies) = all(&work, connections, Duration::from_millis(run.duration_ms)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = tree.as_ref().zip(cpu_before).map(|(tree, before)| tree.cpu_time().since_ms(&before));
    let seen = seen(&run).await?.zip(seen_before).map(|(after, before)| after - before);
    let peak = memory.map(|memory| memory.borrow().max(tree.as_ref().map_or(0, ProcessTree::resident_kib)));
    for connection in connections {
        connection.close().await;
    }
    let requests = latencies.len();
    ensure!(requests > 0, "no request was answered in time");
    let latencies = Latencies::new(latencies);
    Ok(json!({
        "requests": requests,
        "seconds": seconds,
        "per_second": requests as f64 / seconds,
        "p50_ms": latencies.percentile_ms(0.5),
        "p90_ms": latencies.percentile_ms(0.9),
        "p99_ms": latencies.percentile_ms(0.99),
        "max_ms": latencies.percentile_ms(1.0),
        "cpu_ms": cpu,
        "cpu_us_per_request": cpu.map(|cpu| cpu * 1e3 / requests as f64),
        "peak_resident_kib": peak,
        "upstream_messages": seen,
    }))
}

async fn seen(run: &RunArguments) -> Result<Option<u64>> {
    match &run.count_at {
        Some(authority) => Ok(Some(client::messages_seen(authority).await?)),
        None => Ok(None),
    }
}

/// Records the peak memory, sampled ten times a second.
fn watch_memory(tree: ProcessTree) -> tokio::sync::watch::Receiver<u64> {
    let (sender, receiver) = tokio::sync::watch::channel(0);
    tokio::task::spawn_local(async move {
        while !sender.is_closed() {
            let now = tree.resident_kib();
            sender.send_modify(|peak| *peak = now.max(*peak));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    receiver
}

async fn time_start(start: StartArguments) -> Result<Value> {
    let target = Target::parse(&start.url, BenchEra::Modern)?;
    let (program, arguments) = start.command.split_first().context("a command is needed")?;
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let limit = Duration::from_millis(start.limit_ms);
    let mut first_answer = None;
    let listed = loop {
        if let Some(status) = child.try_wait()? {
            bail!("the command ended early: {status}");
        }
        let tools = listed_tools(&target).await.unwrap_or(0);
        let now = begun.elapsed();
        if tools > 0 {
            first_answer.get_or_insert(now);
        }
        if tools >= start.tools {
            break now;
        }
        ensure!(now < limit, "{tools} of {} tools after {now:?}", start.tools);
        tokio::time::sleep(Duration::from_millis(start.poll_ms)).await;
    };
    let resident = child.id().map(|pid| ProcessTree::of(pid, None).resident_kib());
    stop(&mut child).await?;
    Ok(json!({
        "first_answer_ms": first_answer.map(|time| time.as_secs_f64() * 1e3),
        "all_listed_ms": listed.as_secs_f64() * 1e3,
        "resident_kib": resident,
    }))
}

async fn listed_tools(target: &Target) -> Result<usize> {
    let mut connection = BenchConnection::open(target).await?;
    let pages = Work::list(target.era, 1).perform(&mut connection, 1).await?;
    Ok(count_tools(&pages))
}

/// Sends the child SIGTERM, and kills it after ten seconds.
async fn stop(child: &mut Child) -> Result<()> {
    if let Some(pid) = child.id() {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    }
    if timeout(Duration::from_secs(10), child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

async fn time_servers(start: StartServersArguments) -> Result<Value> {
    let (program, arguments) = start.command.split_first().context("a command is needed")?;
    let begun = Instant::now();
    let mut servers = JoinSet::new();
    for _ in 0..start.count {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        servers.spawn_local(async move { first_list(command, begun).await });
    }
    let slowest = timeout(Duration::from_millis(start.limit_ms), async {
        let mut slowest = Duration::ZERO;
        while let Some(server) = servers.join_next().await {
            slowest = slowest.max(server??);
        }
        anyhow::Ok(slowest)
    });
    let slowest = slowest.await.context("a server did not list its tools in time")??;
    Ok(json!({ "all_listed_ms": slowest.as_secs_f64() * 1e3 }))
}

/// The time until one server has listed its tools, measured from the start of all servers.
async fn first_list(mut command: Command, begun: Instant) -> Result<Duration> {
    let mut server = command.spawn()?;
    let (mut stdin, stdout) = server.stdin.take().zip(server.stdout.take()).context("no pipes")?;
    let params = BenchEra::Modern.complete(json!({}));
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params });
    stdin.write_all(format!("{request}\n").as_bytes()).await?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let took = begun.elapsed();
    ensure!(line.is_some_and(|line| line.contains("inputSchema")), "a server did not answer");
    drop(stdin);
    timeout(Duration::from_secs(10), server.wait()).await.context("a server did not exit")??;
    Ok(took)
}
