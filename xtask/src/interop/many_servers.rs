//! Tests thirty third-party servers behind one gateway: all are ready in time and answer, the gateway stays small, and
//! no process remains.

use super::{
    process::{memory_kib, zombies},
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
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// The number of servers.
const SERVERS: usize = 30;
/// The longest time from the start of the gateway until all tools are listed.
const READY_TIME: Duration = Duration::from_secs(120);
/// The most memory of the gateway's own process, in KiB. A debug build needs more than the 40 MB of a release build.
const MOST_MEMORY_KIB: u64 = 160 * 1024;
/// The timeout for the exit of the servers after the gateway has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a gateway with thirty servers, calls a tool of each, and stops it.
pub fn call_each(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let folder = prepare(stage, "many")?;
    let mut notes = Command::new(setup.second.python());
    notes.arg(stage.script("servers/notes.py"));
    let notes = stage.start_on_port(notes, "notes")?;
    let entries = entries(setup, stage, &folder, &notes.url)?;
    let tools: Vec<String> = calls(&entries, &folder).keys().cloned().collect();
    let wanted: Vec<&str> = tools.iter().map(String::as_str).collect();
    let gateway = stage.gateway("many", Value::Object(entries.clone()))?;
    let begun = Instant::now();
    let mut running = stage.serve_with(&gateway, &wanted, &setup.second)?;
    let took = begun.elapsed();
    report.check(&format!("{} servers are ready after {} ms", entries.len(), took.as_millis()), || {
        ensure!(entries.len() == SERVERS, "there are {} entries", entries.len());
        ensure!(took <= READY_TIME, "it took longer than {} s", READY_TIME.as_secs());
        Ok(())
    });
    let mut command = Command::new(setup.second.python());
    let target = json!({ "url": running.url, "calls": calls(&entries, &folder) });
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
        ensure!(family.size() >= SERVERS - 1, "only {} processes were started", family.size());
        ensure!(zombies(running.id()) == 0, "the gateway has {} zombies", zombies(running.id()));
        running.end(Signal::SIGTERM)?;
        family.is_gone_within(EXIT_TIMEOUT)
    });
    Ok(())
}

/// The entries: several of each reference server with folders of their own, and servers of both generations of FastMCP.
fn entries(setup: &Setup, stage: &InteropStage, folder: &Path, notes: &str) -> Result<Map<String, Value>> {
    let node = |package: &str| setup.node.file(&format!("@modelcontextprotocol/{package}"), "dist/index.js");
    let command = &setup.node.node;
    let mut entries = Map::new();
    for number in 1..=5 {
        let own = folder.join(number.to_string());
        fs::create_dir_all(&own)?;
        fs::write(own.join("name.txt"), format!("folder {number}\n"))?;
        let memory = json!({ "MEMORY_FILE_PATH": own.join("memory.jsonl") });
        let git = json!(["--repository", folder.join("repo")]);
        let all = [
            ("everything", json!({ "command": command, "args": [node("server-everything"), "stdio"] })),
            ("files", json!({ "command": command, "args": [node("server-filesystem"), own] })),
            ("memory", json!({ "command": command, "args": [node("server-memory")], "env": memory })),
            (
                "time",
                json!({ "command": setup.first.program("mcp-server-time"), "args": ["--local-timezone", "UTC"] }),
            ),
            ("git", json!({ "command": setup.first.program("mcp-server-git"), "args": git })),
        ];
        entries.extend(all.map(|(kind, entry)| (format!("{kind}{number}"), entry)));
    }
    for name in ["demo", "identity", "files", "planner"] {
        let script = stage.root.join("servers").join(format!("{name}.py"));
        // They expect the arguments that the gateway supplies.
        let entry = json!({ "command": setup.second.python(), "args": [script], "inject": true });
        entries.insert(name.into(), entry);
    }
    entries.insert("notes".into(), json!({ "url": notes }));
    Ok(entries)
}

/// One call for each server: the tool, its arguments, and a text that the answer contains.
fn calls(entries: &Map<String, Value>, folder: &Path) -> Map<String, Value> {
    let repo = folder.join("repo");
    let call = |name: &String| {
        let number = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        let own = folder.join(number).join("name.txt");
        let zones = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
        let (tool, arguments, expected) = match (&name[..name.len() - number.len()], number) {
            ("everything", _) => ("echo", json!({ "message": name }), format!("Echo: {name}")),
            ("files", "") => ("make_report", json!({ "title": "Squares", "rows": 3 }), "14".into()),
            ("files", _) => ("read_text_file", json!({ "path": own }), format!("folder {number}")),
            ("memory", _) => ("read_graph", json!({}), "entities".into()),
            ("time", _) => ("convert_time", zones, "+9.0h".into()),
            ("git", _) => ("git_log", json!({ "repo_path": repo }), "First words".into()),
            ("demo", _) => ("echo", json!({ "text": "through" }), "through".into()),
            ("identity", _) => ("whoami", json!({}), String::new()),
            ("planner", _) => ("plan_task", json!({ "task": "tell the time" }), String::new()),
            _ => ("count", json!({ "words": ["a", "b", "a"] }), "2".into()),
        };
        (format!("{name}_{tool}"), json!({ "arguments": arguments, "expected": expected }))
    };
    entries.keys().map(call).collect()
}
