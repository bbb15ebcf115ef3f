//! Approvals with third-party clients: in both eras, with clients that can show a question and with clients that cannot.

use super::clients::{InteropClient, Runner};
use super::{report::InteropReport, stage::InteropStage};
use crate::setup::Setup;
use anyhow::Result;
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

/// The timeout for the exit of a gateway and all its child processes.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

const OLD: &[&str] = &["legacy"];
const BOTH: &[&str] = &["modern", "legacy"];

fn known(setup: &Setup) -> [InteropClient<'_>; 3] {
    use Runner::{Node, Python};
    let (first, second) = (&setup.first, &setup.second);
    [
        InteropClient { name: "python sdk 2", script: "asked_sdk2.py", runner: Python(second), eras: BOTH },
        InteropClient { name: "python sdk 1", script: "asked_sdk1.py", runner: Python(first), eras: OLD },
        InteropClient { name: "typescript sdk 2", script: "asked_sdk2.cjs", runner: Node, eras: BOTH },
    ]
}

/// Every client calls a tool that writes; the call is approved and declined, by the client or on the command line.
pub fn ask(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
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
    report.check("the gateway and its servers exit", || {
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(EXIT_TIMEOUT)
    });
    Ok(())
}
