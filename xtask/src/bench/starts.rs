//! Measures the start of a gateway: with many servers to start, and with a cached catalog.

use super::cells::Samples;
use super::route::BenchRoute;
use super::stage::{BenchStage, answer, free_address};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{ffi::OsString, net::SocketAddr, time::Duration};

/// The number of stdio servers that are started at once.
pub const SERVERS: usize = 50;
/// The number of tools of each server.
const TOOLS_EACH: usize = 10;
/// The start delays of the servers.
pub const DELAYS_MS: [u64; 2] = [0, 300];

/// Starts the servers without a gateway, then a new gateway with these servers, for each delay.
pub fn many_servers(stage: &BenchStage<'_>, round: usize, samples: &mut Samples) {
    for delay in DELAYS_MS {
        let cell = format!("start-{SERVERS}-{delay}");
        samples.add(round, &cell, BenchRoute::Direct, servers_alone(stage, delay));
        samples.add(round, &cell, BenchRoute::Toolbooth, servers_behind_a_gateway(stage, delay));
    }
}

fn server_arguments(delay_ms: u64) -> [String; 5] {
    ["--stdio", "--tools", &TOOLS_EACH.to_string(), "--start-delay-ms", &delay_ms.to_string()]
        .map(str::to_owned)
}

fn servers_alone(stage: &BenchStage<'_>, delay_ms: u64) -> Result<Value> {
    let mut load = stage.load("start-servers");
    load.args(["--count", &SERVERS.to_string(), "--"]);
    load.arg(&stage.programs.server).args(server_arguments(delay_ms));
    answer(load)
}

fn servers_behind_a_gateway(stage: &BenchStage<'_>, delay_ms: u64) -> Result<Value> {
    let entry = json!({ "command": stage.programs.server, "args": server_arguments(delay_ms) });
    let servers: serde_json::Map<String, Value> =
        (0..SERVERS).map(|number| (format!("server{number}"), entry.clone())).collect();
    let (folder, address) = (stage.new_folder()?, free_address()?);
    let command = stage.gateway_command(&folder, address, &Value::Object(servers))?;
    time_start(
        stage,
        &command,
        address,
        &StartCondition { tools: SERVERS * TOOLS_EACH, poll: Duration::from_millis(5) },
    )
}

/// A gateway with a cached catalog whose server is not running.
pub struct CachedGateway {
    command: Vec<OsString>,
    address: SocketAddr,
}

impl CachedGateway {
    const TOOLS: usize = 50;

    /// Starts a gateway until it has discovered the catalog; then stops it and the server.
    pub fn fill(stage: &BenchStage<'_>) -> Result<Self> {
        let (_server, server) = stage.start_server(Self::TOOLS)?;
        let servers = json!({ "bench": { "url": format!("http://{server}/mcp") } });
        let (folder, address) = (stage.new_folder()?, free_address()?);
        let cached = Self { command: stage.gateway_command(&folder, address, &servers)?, address };
        cached.start(stage).context("the cache was not filled")?;
        Ok(cached)
    }

    /// Starts the gateway again and measures the time to its first answer with all tools.
    pub fn start(&self, stage: &BenchStage<'_>) -> Result<Value> {
        let condition = StartCondition { tools: Self::TOOLS, poll: Duration::from_millis(1) };
        time_start(stage, &self.command, self.address, &condition)
    }
}

struct StartCondition {
    tools: usize,
    poll: Duration,
}

fn time_start(
    stage: &BenchStage<'_>,
    command: &[OsString],
    address: SocketAddr,
    condition: &StartCondition,
) -> Result<Value> {
    let mut load = stage.load("start");
    load.args(["--url", &format!("http://{address}/mcp"), "--tools", &condition.tools.to_string()]);
    load.args(["--poll-ms", &condition.poll.as_millis().to_string(), "--"]).args(command);
    stage.isolate(&mut load)?;
    answer(load)
}
