//! How long a gateway takes to be of use: with many servers to start, and from its cached catalog.

use super::cells::{Samples, Via};
use super::stage::{Stage, answer, free_address};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{ffi::OsString, net::SocketAddr, time::Duration};

/// How many stdio servers are started at once.
pub const SERVERS: usize = 50;
/// How many tools each of them has.
const TOOLS_EACH: usize = 10;
/// How long each of them takes before it reads anything.
pub const DELAYS_MS: [u64; 2] = [0, 300];

/// Starts the servers by themselves, then a new gateway with them, for each delay.
pub fn many_servers(stage: &Stage<'_>, round: usize, samples: &mut Samples) {
    for delay in DELAYS_MS {
        let cell = format!("start-{SERVERS}-{delay}");
        samples.add(round, &cell, Via::Direct, servers_alone(stage, delay));
        samples.add(round, &cell, Via::Toolbooth, servers_behind_a_gateway(stage, delay));
    }
}

fn server_arguments(delay_ms: u64) -> [String; 5] {
    ["--stdio", "--tools", &TOOLS_EACH.to_string(), "--start-delay-ms", &delay_ms.to_string()]
        .map(str::to_owned)
}

fn servers_alone(stage: &Stage<'_>, delay_ms: u64) -> Result<Value> {
    let mut load = stage.load("start-servers");
    load.args(["--count", &SERVERS.to_string(), "--"]);
    load.arg(&stage.programs.server).args(server_arguments(delay_ms));
    answer(load)
}

fn servers_behind_a_gateway(stage: &Stage<'_>, delay_ms: u64) -> Result<Value> {
    let entry = json!({ "command": stage.programs.server, "args": server_arguments(delay_ms) });
    let servers: serde_json::Map<String, Value> =
        (0..SERVERS).map(|number| (format!("server{number}"), entry.clone())).collect();
    let (folder, address) = (stage.new_folder()?, free_address()?);
    let command = stage.gateway_command(&folder, address, &Value::Object(servers))?;
    time_start(
        stage,
        &command,
        address,
        &Wait { tools: SERVERS * TOOLS_EACH, poll: Duration::from_millis(5) },
    )
}

/// A gateway that knows its catalog and whose server is gone.
pub struct Cached {
    command: Vec<OsString>,
    address: SocketAddr,
}

impl Cached {
    const TOOLS: usize = 50;

    /// Lets a gateway learn the catalog; then ends it, and the server.
    pub fn fill(stage: &Stage<'_>) -> Result<Self> {
        let (_server, server) = stage.start_server(Self::TOOLS)?;
        let servers = json!({ "bench": { "url": format!("http://{server}/mcp") } });
        let (folder, address) = (stage.new_folder()?, free_address()?);
        let cached = Self { command: stage.gateway_command(&folder, address, &servers)?, address };
        cached.start(stage).context("the cache was not filled")?;
        Ok(cached)
    }

    /// Starts the gateway again and times its first answer with all tools.
    pub fn start(&self, stage: &Stage<'_>) -> Result<Value> {
        let wait = Wait { tools: Self::TOOLS, poll: Duration::from_millis(1) };
        time_start(stage, &self.command, self.address, &wait)
    }
}

struct Wait {
    tools: usize,
    poll: Duration,
}

fn time_start(stage: &Stage<'_>, command: &[OsString], address: SocketAddr, wait: &Wait) -> Result<Value> {
    let mut load = stage.load("start");
    load.args(["--url", &format!("http://{address}/mcp"), "--tools", &wait.tools.to_string()]);
    load.args(["--poll-ms", &wait.poll.as_millis().to_string(), "--"]).args(command);
    stage.isolate(&mut load)?;
    answer(load)
}
