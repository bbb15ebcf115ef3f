//! Runs the checks of third-party clients over HTTP and stdio, in each era that a client supports.

use super::{report::InteropReport, script::Script, stage::InteropStage};
use crate::{python::Venv, setup::Setup};
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::{process::Command, time::Duration};

/// The timeout for the exit of a gateway and all its child processes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A client, and the eras in which it can run.
pub(super) struct InteropClient<'a> {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    pub(super) runner: Runner<'a>,
    pub(super) eras: &'static [&'static str],
}

pub(super) enum Runner<'a> {
    Python(&'a Venv),
    Node,
}

const OLD: &[&str] = &["legacy"];
const BOTH: &[&str] = &["legacy", "modern", "auto"];

fn known(setup: &Setup) -> [InteropClient<'_>; 6] {
    use Runner::{Node, Python};
    let (first, second) = (&setup.first, &setup.second);
    [
        InteropClient { name: "python sdk 1", script: "sdk1.py", runner: Python(first), eras: OLD },
        InteropClient { name: "python sdk 2", script: "sdk2.py", runner: Python(second), eras: BOTH },
        InteropClient { name: "fastmcp 3", script: "fastmcp_client.py", runner: Python(first), eras: OLD },
        InteropClient { name: "fastmcp 4", script: "fastmcp_client.py", runner: Python(second), eras: BOTH },
        InteropClient { name: "typescript sdk 1", script: "sdk1.cjs", runner: Node, eras: OLD },
        InteropClient { name: "typescript sdk 2", script: "sdk2.cjs", runner: Node, eras: BOTH },
    ]
}

impl InteropClient<'_> {
    pub(super) fn tour(&self, setup: &Setup, stage: &InteropStage, way: &str, target: &Value) -> Script {
        let era = target["era"].as_str().unwrap_or_default();
        let script = stage.script("clients").join(self.script);
        let mut command = match self.runner {
            Runner::Python(venv) => Command::new(venv.python()),
            Runner::Node => {
                let mut command = Command::new(&setup.node.node);
                command.env("NODE_PATH", setup.node.modules());
                command
            }
        };
        stage.isolate(&mut command).arg(script).arg(target.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        let name = format!("{} {way} {era}", self.name);
        let log = stage.file(&format!("{}.log", name.replace(' ', "-")));
        Script { name, command, log }
    }
}

/// Runs every client through one running gateway.
pub fn tour(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let new = stage.start_fixture("modern")?;
    let servers = json!({ "old": stage.fixture_entry("legacy")?, "new": { "url": new.url } });
    let gateway = stage.gateway("gateway", servers)?;
    let mut running = stage.serve(&gateway, &["old_add", "new_add"])?;
    for client in known(setup) {
        for era in client.eras {
            let url = json!({ "url": running.url, "era": era });
            client.tour(setup, stage, "http", &url).run(report);
            let command = json!({ "command": gateway.stdio_command(), "era": era });
            client.tour(setup, stage, "stdio", &command).run(report);
        }
    }
    let family = gateway.family(&running);
    report.check("the gateway and its servers exit", || {
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(EXIT_TIMEOUT)
    });
    Ok(())
}

/// Runs clients without a running gateway: `toolbooth stdio` starts one, which keeps running for other clients.
pub fn alone(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let new = stage.start_fixture("modern")?;
    for (index, era) in [(0, "legacy"), (1, "modern")] {
        let servers = json!({ "old": stage.fixture_entry("legacy")?, "new": { "url": new.url } });
        let gateway = stage.gateway(era, servers)?;
        let command = json!({ "command": gateway.stdio_command(), "era": era });
        known(setup)[index].tour(setup, stage, "starts a gateway", &command).run(report);
        report.check(&format!("the gateway started by {era} stdio and its servers exit"), || {
            let (gateway, family) = gateway.started_by_stdio()?;
            anyhow::ensure!(family.size() > 0, "the gateway runs no server");
            kill(gateway, Signal::SIGTERM)?;
            family.is_gone_within(EXIT_TIMEOUT)
        });
    }
    Ok(())
}
