//! Other people's clients on their tour, over HTTP and over stdio, in each era that they have.

use super::{report::Report, script::Script, stage::Stage};
use crate::{python::Venv, setup::Setup};
use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::{process::Command, time::Duration};

/// How long a gateway that stdio started may take to end, with everything it started.
const FAREWELL: Duration = Duration::from_secs(20);

/// A client, and the eras it can be told to speak.
pub(super) struct Client<'a> {
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

fn known(setup: &Setup) -> [Client<'_>; 6] {
    use Runner::{Node, Python};
    let (first, second) = (&setup.first, &setup.second);
    [
        Client { name: "python sdk 1", script: "sdk1.py", runner: Python(first), eras: OLD },
        Client { name: "python sdk 2", script: "sdk2.py", runner: Python(second), eras: BOTH },
        Client { name: "fastmcp 3", script: "fastmcp_client.py", runner: Python(first), eras: OLD },
        Client { name: "fastmcp 4", script: "fastmcp_client.py", runner: Python(second), eras: BOTH },
        Client { name: "typescript sdk 1", script: "sdk1.cjs", runner: Node, eras: OLD },
        Client { name: "typescript sdk 2", script: "sdk2.cjs", runner: Node, eras: BOTH },
    ]
}

impl Client<'_> {
    pub(super) fn tour(&self, setup: &Setup, stage: &Stage, way: &str, target: &Value) -> Script {
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

/// Every client through one gateway that runs already.
pub fn tour(setup: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
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
    report.check("the gateway ends, and its servers with it", || {
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(FAREWELL)
    });
    Ok(())
}

/// A client that finds no gateway: `toolbooth stdio` starts one that has never run, and leaves it to others.
pub fn alone(setup: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let new = stage.start_fixture("modern")?;
    for (index, era) in [(0, "legacy"), (1, "modern")] {
        let servers = json!({ "old": stage.fixture_entry("legacy")?, "new": { "url": new.url } });
        let gateway = stage.gateway(era, servers)?;
        let command = json!({ "command": gateway.stdio_command(), "era": era });
        known(setup)[index].tour(setup, stage, "starts a gateway", &command).run(report);
        report.check(&format!("the gateway of {era} stdio ends, and its servers with it"), || {
            let (gateway, family) = gateway.started_by_stdio()?;
            anyhow::ensure!(family.size() > 0, "it runs no server");
            kill(gateway, Signal::SIGTERM)?;
            family.is_gone_within(FAREWELL)
        });
    }
    Ok(())
}
