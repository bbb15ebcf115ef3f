//! Other people's clients, asked for approval: in the newest revision, in the older one, and where nobody can be asked.

use super::clients::{Client, Runner};
use super::{report::Report, stage::Stage};
use crate::setup::Setup;
use anyhow::Result;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

/// How long a gateway may take to end, and everything it started with it.
const FAREWELL: Duration = Duration::from_secs(20);

const OLD: &[&str] = &["legacy"];
const BOTH: &[&str] = &["modern", "legacy"];

fn known(setup: &Setup) -> [Client<'_>; 3] {
    use Runner::{Node, Python};
    let (first, second) = (&setup.first, &setup.second);
    [
        Client { name: "python sdk 2", script: "asked_sdk2.py", runner: Python(second), eras: BOTH },
        Client { name: "python sdk 1", script: "asked_sdk1.py", runner: Python(first), eras: OLD },
        Client { name: "typescript sdk 2", script: "asked_sdk2.cjs", runner: Node, eras: BOTH },
    ]
}

/// Every client approves and declines a call of a tool that writes: itself, or by somebody on the command line.
pub fn ask(setup: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let ledger = stage.file("ledger.txt");
    let servers = json!({ "led": stage.ledger_entry(&ledger)? });
    let settings = json!({ "approval": { "default": "writes", "wait_seconds": 1 } });
    let gateway = stage.gateway_with("gateway", settings, servers)?;
    let mut running = stage.serve(&gateway, &["led_write_entry"])?;
    for client in known(setup) {
        for era in client.eras {
            for (asked, way) in [(true, "asked"), (false, "not asked")] {
                let name = format!("{} {era} {way}", client.name);
                let target = json!({ "url": running.url, "era": era, "asked": asked, "name": name,
                    "ledger": ledger, "approvals": gateway.command() });
                client.tour(setup, stage, way, &target).run(report);
            }
        }
    }
    let family = gateway.family(&running);
    report.check("the gateway that asked ends, and its servers with it", || {
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(FAREWELL)
    });
    Ok(())
}
