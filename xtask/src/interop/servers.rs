//! Tests third-party servers behind the gateway: their answers are correct, and none of their processes remains.

use super::{report::InteropReport, script::Script, stage::InteropStage};
use crate::{python::Venv, setup::Setup};
use anyhow::{Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// The timeout for the exit of the servers after the gateway has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// One tool of each server, to detect that it is ready.
const READY_TOOLS: [&str; 6] = [
    "everything_echo",
    "files_read_text_file",
    "memory_read_graph",
    "time_convert_time",
    "git_log",
    "notes_write",
];

/// Tests the servers with a legacy client, then stops the gateway; and with a modern client, then kills the gateway.
pub fn call_tools(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let mut notes = Command::new(setup.second.python());
    notes.arg(stage.script("servers/notes.py"));
    let notes = stage.start_on_port(notes, "notes")?;
    let runs = [
        ("legacy", &setup.first, Signal::SIGTERM, "stops"),
        ("modern", &setup.second, Signal::SIGKILL, "is killed"),
    ];
    for (era, venv, signal, event) in runs {
        let folder = prepare(stage, era)?;
        let gateway = stage.gateway(era, entries(setup, &folder, &notes.url))?;
        let mut running = stage.serve(&gateway, &READY_TOOLS)?;
        client_script(stage, era, venv, &running.url, &folder).run(report);
        let family = gateway.family(&running);
        report.check(&format!("no server remains after the {era} gateway {event}"), || {
            ensure!(family.size() >= 5, "only {} processes were started", family.size());
            running.end(signal)?;
            family.is_gone_within(EXIT_TIMEOUT)
        });
    }
    Ok(())
}

fn entries(setup: &Setup, folder: &Path, notes: &str) -> Value {
    let node = |package: &str| setup.node.file(&format!("@modelcontextprotocol/{package}"), "dist/index.js");
    let command = &setup.node.node;
    json!({
        "everything": { "command": command, "args": [node("server-everything"), "stdio"] },
        "files": { "command": command, "args": [node("server-filesystem"), folder] },
        "memory": {
            "command": command, "args": [node("server-memory")],
            "env": { "MEMORY_FILE_PATH": folder.join("memory.jsonl") }
        },
        "time": { "command": setup.first.program("mcp-server-time"), "args": ["--local-timezone", "UTC"] },
        "git": { "command": setup.first.program("mcp-server-git"), "args": ["--repository", folder.join("repo")] },
        "notes": { "url": notes },
    })
}

/// Creates a folder for the file server, with a git repository in it.
pub(super) fn prepare(stage: &InteropStage, era: &str) -> Result<PathBuf> {
    let folder = stage.file(&format!("{era}-files"));
    let repo = folder.join("repo");
    fs::create_dir_all(&repo)?;
    fs::write(repo.join("poem.txt"), "First words\n")?;
    let commands: [&[&str]; 3] = [
        &["init", "--quiet", "--initial-branch=main"],
        &["add", "poem.txt"],
        &[
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "commit",
            "--quiet",
            "-m",
            "First words",
        ],
    ];
    for words in commands {
        let mut command = Command::new("git");
        stage.isolate(&mut command).current_dir(&repo).args(words).stdin(Stdio::null());
        let status = command.status()?;
        if !status.success() {
            bail!("git {} ended with {status}", words[0]);
        }
    }
    Ok(folder)
}

fn client_script(stage: &InteropStage, era: &str, venv: &Venv, url: &str, folder: &Path) -> Script {
    let mut command = Command::new(venv.python());
    let target = json!({ "url": url, "folder": folder });
    stage.isolate(&mut command).arg(stage.script("clients/servers.py")).arg(target.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Script { name: format!("servers {era}"), command, log: stage.file(&format!("servers-{era}.log")) }
}
