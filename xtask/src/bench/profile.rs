//! `cargo xtask profile`: makes the profile that `cargo xtask dist` uses. See `profile/README.md`.
//!
//! A gateway that counts where it goes is built and put to work: the bench, lean and as it comes, calls over stdio, and
//! searches. What it counted is merged into one file.

use super::cells::Samples;
use super::goals::{BuildKind, Depth};
use super::registry::Registry;
use super::stage::{Programs, Running, Stage, answer, free_address};
use super::{OnMiss, Plan, ROWS, measure};
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

/// How long each cell works: counting slows a gateway down, and what matters are proportions.
const LENGTH: Duration = Duration::from_millis(400);
/// How long the gateway with a stdio server may take to offer its tools.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a new profile, with an instrumented gateway that was built before if one is given.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let folder = root.join("target/profile");
    let raw = folder.join("raw");
    let merger = dist::profile_reader()?;
    let counting = match arguments.as_slice() {
        // It has a folder of its own: cargo keeps only one build of each set of flags.
        [] => dist::build(root, &folder, &format!("-Cprofile-generate={}", raw.display()))?,
        [option, program] if option == "--counting" => PathBuf::from(program),
        _ => bail!("usage: cargo xtask profile [--counting PROGRAM]"),
    };
    let programs = Programs::build(root, Some(&counting))?;
    // What the build itself ran of it does not count.
    drop(fs::remove_dir_all(&raw));
    for depth in [Depth::Lean, Depth::Full] {
        let plan = Plan {
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
        let stage = Stage::new(&programs, depth)?;
        over_stdio(&stage)?;
        searches(&stage)?;
    }
    let profile = root.join(dist::PROFILE);
    let nothing = || {
        format!(
            "the gateway counted nothing; one that is given must be built with -Cprofile-generate={}",
            raw.display()
        )
    };
    let counted = fs::read_dir(&raw).with_context(nothing)?;
    let counted: Vec<PathBuf> =
        counted.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    ensure!(!counted.is_empty(), nothing());
    // Sparse: what never ran is not in it, and is built as if there were no profile.
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

/// Requests of every length, some in other words than tools use.
const REQUESTS: [&str; 8] = [
    "echo a text",
    "bench_echo",
    "what takes a file and gives its size",
    "I need to look up customer records by their address, then send each of them a message",
    "list the open issues of repository 4711 and close those that nobody answered since 2024-05-01",
    "sleep",
    "convert a picture to another format and put it on the shared drive",
    "weather tomorrow in Berlin",
];

/// Searches among many tools.
fn searches(stage: &Stage<'_>) -> Result<()> {
    let registry = Registry::start(stage)?;
    (0..20).try_for_each(|_| registry.search(&REQUESTS))
}

/// Calls through a gateway whose server speaks over stdio.
fn over_stdio(stage: &Stage<'_>) -> Result<()> {
    let (folder, address) = (stage.new_folder()?, free_address()?);
    let entry = json!({ "command": stage.programs.server, "args": ["--stdio", "--tools", "50"] });
    let words = stage.gateway_command(&folder, address, &json!({ "bench": entry }))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    stage.isolate(&mut command)?;
    let _gateway = Running::of(command.spawn().context("the gateway did not start")?);
    let began = Instant::now();
    for (era, connections) in [("legacy", "16"), ("legacy", "1"), ("modern", "16")] {
        loop {
            let mut load = stage.load("run");
            load.args(["--url", &format!("http://{address}/mcp"), "--tool", "bench_echo"]);
            load.args(["--arguments", &json!({ "text": "x".repeat(100) }).to_string(), "--era", era]);
            load.args(["--connections", connections, "--duration-ms", &LENGTH.as_millis().to_string()]);
            match answer(load) {
                Ok(_) => break,
                Err(error) if began.elapsed() > PATIENCE => bail!("no calls over stdio: {error:#}"),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }
    Ok(())
}
