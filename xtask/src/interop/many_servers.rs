//! Tests more than thirty servers from npm and PyPI behind one gateway, and those of `servers/`: all are ready in time
//! and answer, the gateway stays small, and no process remains.

use super::{
    process::{memory_kib, zombies},
    published::PublishedServers,
    report::InteropReport,
    script::Script,
    servers::prepare,
    stage::InteropStage,
};
use crate::setup::Setup;
use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use std::{
    process::Command,
    time::{Duration, Instant},
};

/// The least number of different published servers.
const PUBLISHED: usize = 30;
/// The longest time from the start of the gateway until all tools are listed.
const READY_TIME: Duration = Duration::from_secs(80);
/// The most memory of the gateway's own process, in KiB. A debug build needs more than the 40 MB of a release build.
const MOST_MEMORY_KIB: u64 = 160 * 1024;
/// The timeout for the exit of the servers after the gateway has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a gateway with all servers, calls a tool of each, and stops it.
pub fn call_each(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let folder = prepare(stage, "many")?;
    let mut notes = Command::new(setup.second.python());
    notes.arg(stage.script("servers/notes.py"));
    let notes = stage.start_on_port(notes, "notes")?;
    let mut entries = own_entries(setup, stage, &notes.url);
    let mut calls = own_calls();
    let published = PublishedServers::list(setup, stage, &folder)?;
    let distinct = published.entries.len();
    entries.extend(published.entries);
    calls.extend(published.calls);
    let wanted: Vec<&str> = calls.keys().map(String::as_str).collect();
    let gateway = stage.gateway("many", Value::Object(entries.clone()))?;
    let begun = Instant::now();
    let mut running = stage.serve_with(&gateway, &wanted, &setup.second)?;
    let took = begun.elapsed();
    let (own, ms) = (entries.len() - distinct, took.as_millis());
    report.check(
        &format!("{distinct} different servers from npm and PyPI and {own} others are ready after {ms} ms"),
        || {
            ensure!(distinct >= PUBLISHED, "there are only {distinct} published ones");
            ensure!(took <= READY_TIME, "it took longer than {} s", READY_TIME.as_secs());
            Ok(())
        },
    );
    let mut command = Command::new(setup.second.python());
    let target = json!({ "url": running.url, "calls": calls });
    stage.isolate(&mut command).arg(stage.script("clients/many_servers.py")).arg(target.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Script { name: "many servers".into(), command, log: stage.file("client.log") }.run(report);
    let used = memory_kib(running.id())?;
    report.check(&format!("the gateway uses {} MiB", used / 1024), || {
        ensure!(used <= MOST_MEMORY_KIB, "that is more than {} MiB", MOST_MEMORY_KIB / 1024);
        Ok(())
    });
    let family = gateway.family(&running);
    report.check("no process is a zombie, and none remains after the gateway stops", || {
        ensure!(family.size() >= entries.len() - 1, "only {} processes were started", family.size());
        ensure!(zombies(running.id()) == 0, "the gateway has {} zombies", zombies(running.id()));
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(EXIT_TIMEOUT)
    });
    Ok(())
}

/// The servers of `servers/` and one over HTTP, written with both generations of FastMCP.
fn own_entries(setup: &Setup, stage: &InteropStage, notes: &str) -> Map<String, Value> {
    let mut entries = Map::new();
    for name in ["demo", "identity", "files", "planner"] {
        let script = stage.root.join("servers").join(format!("{name}.py"));
        // They expect the arguments that the gateway supplies.
        let entry = json!({ "command": setup.second.python(), "args": [script], "inject": true });
        entries.insert(name.into(), entry);
    }
    entries.insert("notes".into(), json!({ "url": notes }));
    entries
}

/// One call for each of these: the tool, its arguments, and a text that the answer contains.
fn own_calls() -> Map<String, Value> {
    let calls = [
        ("demo_echo", json!({ "text": "through" }), "through"),
        ("identity_whoami", json!({}), ""),
        ("files_make_report", json!({ "title": "Squares", "rows": 3 }), "14"),
        ("planner_plan_task", json!({ "task": "tell the time" }), ""),
        ("notes_count", json!({ "words": ["a", "b", "a"] }), "2"),
    ];
    let calls = calls.map(|(tool, arguments, expected)| {
        (tool.to_owned(), json!({ "arguments": arguments, "expected": expected }))
    });
    Map::from_iter(calls)
}
