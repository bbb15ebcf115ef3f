//! `toolbooth stop`: stops the gateway that runs on this machine.

use super::in_runtime;
use crate::background::{self, GatewayStop};
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::render;
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// The time beyond `drain_seconds` for ending the servers.
const GRACE: Duration = Duration::from_secs(15);

/// Arguments of `toolbooth stop`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "The gateway accepts no new calls, finishes running ones within `drain_seconds`, and stops its servers. \
                  The command waits for that. Calls that wait for approval stay held, and can be approved later."
)]
pub struct StopArguments {
    /// How long to wait for running calls; by default a little longer than `drain_seconds`.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// End the gateway at once, without waiting for running calls.
    #[arg(long, conflicts_with = "wait")]
    force: bool,
}

/// Runs `toolbooth stop`.
pub fn run(global: &GlobalOptions, arguments: &StopArguments) -> CommandResult {
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    // A gateway must be stoppable even if its files have an error now.
    let data_dir = gateway::data_dir(&sources);
    let drain = toolbooth_config::load_with_trust(&mut sources.clone())
        .map_or(Duration::from_secs(60), |loaded| loaded.settings.drain_seconds);
    let patience = arguments.wait.map_or(drain + GRACE, Duration::from_secs);
    in_runtime(async {
        let stopped = while_waiting("waiting for running calls", async {
            match arguments.force {
                true => background::force_stop(&data_dir).await,
                false => background::stop(&data_dir, patience).await,
            }
        });
        match stopped.await? {
            GatewayStop::NotRunning if global.json => render::print_json(&json!({ "stopped": false })),
            GatewayStop::NotRunning => render::print("No gateway is running.\n"),
            GatewayStop::Stopped { record, waited } if global.json => render::print_json(&json!({
                "stopped": true, "url": record.url, "pid": record.pid, "waited_seconds": waited.as_secs_f64(),
            })),
            GatewayStop::Stopped { record, waited } => render::print(&format!(
                "Stopped the gateway at {} (process {}) after {:.1} s.\n",
                record.url,
                record.pid,
                waited.as_secs_f64()
            )),
        }
        Ok(Exit::Ok)
    })
}
