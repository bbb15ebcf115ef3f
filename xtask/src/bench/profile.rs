//! `cargo xtask profile`: what release builds go by. See `profile/README.md`.
//!
//! A gateway that counts where it goes is built and put to work: the bench, lean and as it comes, calls over stdio, and
//! searches. What it counted is merged into one file.

use super::cells::Samples;
use super::goals::Depth;
use super::registry::Registry;
use super::stage::{Programs, Running, Stage, answer, free_address};
use super::{OnMiss, Plan, ROWS, measure};
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

/// Makes the profile anew, with a counting gateway that was built before if one is given.
pub fn run(root: &Path, arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let folder = root.join("target/profile");
    let raw = folder.join("raw");
    let merger = merger()?;
    let counting = match arguments.as_slice() {
        [] => {
            next_generation(&root.join("profile/rustc"))?;
            counting_gateway(root, &folder, &raw)?
        }
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
            toolbooth: None,
            built: None,
        };
        measure(&plan, &programs, &mut Samples::default())?;
        let stage = Stage::new(&programs, depth)?;
        over_stdio(&stage)?;
        searches(&stage)?;
    }
    let profile = root.join("profile/calls.profdata");
    let nothing = || {
        format!(
            "the gateway counted nothing; one that is given must be built with TOOLBOOTH_PROFILE={}",
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

/// Counts the wrapper's generation up: by it cargo sees that everything is to be built anew.
fn next_generation(wrapper: &Path) -> Result<()> {
    let text = fs::read_to_string(wrapper).with_context(|| wrapper.display().to_string())?;
    fs::write(wrapper, raised(&text)?).with_context(|| wrapper.display().to_string())
}

fn raised(wrapper: &str) -> Result<String> {
    const MARK: &str = "\ngeneration=";
    let (before, rest) = wrapper.split_once(MARK).context("profile/rustc names no generation")?;
    let (number, after) = rest.split_once('\n').context("profile/rustc ends with its generation")?;
    let number: u32 = number.parse().context("the generation in profile/rustc is no number")?;
    Ok(format!("{before}{MARK}{}\n{after}", number + 1))
}

/// Builds a gateway that counts. It has a folder of its own, as cargo does not see that it is another one.
fn counting_gateway(root: &Path, folder: &Path, raw: &Path) -> Result<PathBuf> {
    let status = crate::cargo(root)
        .args(["build", "--release", "--package", "toolbooth", "--target-dir"])
        .arg(folder)
        .env("TOOLBOOTH_PROFILE", raw)
        .status()
        .context("cargo did not start")?;
    ensure!(status.success(), "the counting gateway does not build");
    Ok(folder.join("release/toolbooth"))
}

/// The program that merges counts: of the toolchain's component `llvm-tools`, or of the system's LLVM.
fn merger() -> Result<PathBuf> {
    let sysroot = Command::new("rustc").args(["--print", "target-libdir"]).output().context("no rustc")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let of_toolchain = libraries.with_file_name("bin").join("llvm-profdata");
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The youngest first: what bears no number may be too old for the compiler's counts.
    let numbered = (19..=30).rev().map(|version| format!("llvm-profdata-{version}"));
    let names = numbered.chain(["llvm-profdata".to_owned()]);
    let of_system = names
        .flat_map(|name| std::env::split_paths(&path).map(|folder| folder.join(&name)).collect::<Vec<_>>());
    let found = std::iter::once(of_toolchain).chain(of_system).find(|program| program.is_file());
    found.context("there is no llvm-profdata: `rustup component add llvm-tools`, or Debian's package llvm-19")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrappers_generation_is_raised_and_nothing_else() {
        let wrapper = include_str!("../../../profile/rustc");
        let raised = raised(wrapper).expect("a generation");
        let differing: Vec<_> = wrapper.lines().zip(raised.lines()).filter(|(old, new)| old != new).collect();
        let [(old, new)] = differing[..] else { panic!("{differing:?}") };
        let number =
            |line: &str| line.strip_prefix("generation=").and_then(|number| number.parse::<u32>().ok());
        assert_eq!(number(old).map(|number| number + 1), number(new));
        assert_eq!(wrapper.lines().count(), raised.lines().count());
    }
}
