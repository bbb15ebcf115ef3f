//! `cargo xtask profile`: regenerates the PGO profile that `cargo xtask dist` uses. See `profile/README.md`.
//!
//! Builds an instrumented gateway and runs the bench with it (lean and with default settings), calls over stdio, and
//! searches. The collected counts are merged into one file.

use super::cells::Samples;
use super::depth::Depth;
use super::goals::BuildKind;
use super::registry::Registry;
use super::stage::{BenchProcess, BenchPrograms, BenchStage, answer, free_address};
use super::{BenchPlan, OnMiss, ROWS, measure};
use crate::dist;
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The duration of each cell. Instrumentation slows a gateway down, but only proportions matter.
const LENGTH: Duration = Duration::from_millis(400);
/// The timeout until the gateway with a stdio server lists its tools.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Regenerates the profile, with an existing instrumented gateway if one is given.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let folder = root.join("target/profile");
    let raw = folder.join("raw");
    let merger = dist::profile_reader()?;
    let instrumented = match arguments.as_slice() {
        // In a separate target folder: cargo would replace the build with other flags.
        [] => dist::build(root, &folder, &format!("-Cprofile-generate={}", raw.display()), None)?,
        [option, program] if option == "--counting" => PathBuf::from(program),
        _ => bail!("usage: cargo xtask profile [--counting PROGRAM]"),
    };
    let programs = BenchPrograms::build(root, Some(&instrumented))?;
    // Counts from the build itself must not be part of the profile.
    drop(fs::remove_dir_all(&raw));
    for depth in [Depth::Lean, Depth::Full] {
        let plan = BenchPlan {
            rows: ROWS.into(),
            rounds: 1,
            length: LENGTH,
            on_miss: OnMiss::Report,
            depth,
            kind: BuildKind::Dist,
            toolbooth: None,
            built: None,
        };
        measure(&plan, &programs, &mut Samples::default())?;
        let stage = BenchStage::new(&programs, depth)?;
        over_stdio(&stage)?;
        searches(&stage)?;
    }
    let profile = root.join(dist::PROFILE);
    let nothing = || {
        format!(
            "the gateway wrote no counts; a given gateway must be built with -Cprofile-generate={}",
            raw.display()
        )
    };
    let counted = fs::read_dir(&raw).with_context(nothing)?;
    let counted: Vec<PathBuf> =
        counted.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    ensure!(!counted.is_empty(), nothing());
    // Sparse: functions that never ran are omitted, and are built as if there were no profile.
    let merged = Command::new(&merger)
        .args(["merge", "--sparse", "-o"])
        .arg(&profile)
        .args(&counted)
        .status()
        .with_context(|| merger.display().to_string())?;
    ensure!(merged.success(), "{} ended with {merged}", merger.display());
    println!("{}: {} bytes", profile.display(), fs::metadata(&profile)?.len());
    Ok(())
}

/// Requests of various lengths, some in words that the tools do not use.
const REQUESTS: [&str; 8] = [
    "echo a text",
    "bench_echo",
    "what takes a file and gives its size",
    "I need to look up customer records by their address, then send each of them a message",
    "list the open issues of repository 4711 and close those without an answer since 2024-05-01",
    "sleep",
    "convert a picture to another format and put it on the shared drive",
    "weather tomorrow in Berlin",
];

/// Searches in a registry of many tools.
fn searches(stage: &BenchStage<'_>) -> Result<()> {
    let registry = Registry::start(stage)?;
    (0..20).try_for_each(|_| registry.search(&REQUESTS))
}

/// Calls through a gateway with a stdio server.
fn over_stdio(stage: &BenchStage<'_>) -> Result<()> {
    let (folder, address) = (stage.new_folder()?, free_address()?);
    let entry = json!({ "command": stage.programs.server, "args": ["--stdio", "--tools", "50"] });
    let words = stage.gateway_command(&folder, address, &json!({ "bench": entry }))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    stage.isolate(&mut command)?;
    let _gateway = BenchProcess::of(command.spawn().context("the gateway did not start")?);
    let began = Instant::now();
    for (era, connections) in [("legacy", "16"), ("legacy", "1"), ("modern", "16")] {
        loop {
            let mut load = stage.load("run");
            load.args(["--url", &format!("http://{address}/mcp"), "--tool", "bench_echo"]);
            load.args(["--arguments", &json!({ "text": "x".repeat(100) }).to_string(), "--era", era]);
            load.args(["--connections", connections, "--duration-ms", &LENGTH.as_millis().to_string()]);
            match answer(load) {
                Ok(_) => break,
                Err(error) if began.elapsed() > START_TIMEOUT => bail!("no calls over stdio: {error:#}"),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }
    Ok(())
}
