//! `cargo xtask`: the development tasks of this repository, written in Rust.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "measures real processes in real time")]

mod bench;
mod conformance;
mod console;
mod cycles;
mod dist;
mod fuzz;
mod interop;
mod kills;
mod names;
mod node;
mod object_storage;
mod packages;
mod postgresql;
mod python;
mod replicas;
mod setup;
mod sources;
mod test;
mod words;

use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const USAGE: &str = "\
usage: cargo xtask TASK

  test          run all checks: format, lints, words, names, cycles, tests, interoperability, conformance,
                replicas, object storage, console
  setup         install the third-party packages that the tests need, under .setup
  interop       test third-party clients and servers through the gateway [NAME ...]
  conformance   run the official suite, in every pair of eras [--pair P] [--client] [--scenario NAME]
  console       check the built files of the console and test it in Chromium [--built FOLDER]
  kills         kill the gateway at random moments and check its guarantees [COUNT, 200]
  replicas      run three gateways on PostgreSQL, kill them during calls and check what is left
                [--calls N, 50000] [--short] [--built FOLDER]
  fuzz          test the readers of JSON and of event streams with mutated texts [--seconds N, 60]
  bench         measure the cost of a call, compared with nginx [--quick] [--full] [--rows 1,2] [--report-only]
  dist          build the binary for release: fat LTO and PGO; takes half an hour
  packages      pack a binary: tar.gz, .deb, wheel, npm; --check installs each and calls a tool
                --binary PATH [--out FOLDER] [--check]
  profile       regenerate the PGO profile for `dist` (profile/README.md); takes half an hour
  tokens        count the tokens of catalogs in full, as summaries and through search CATALOG...
  search-eval   measure the quality and speed of tool search FOLDER [--runs FOLDER]
  vocabulary    pack a tokenizer's vocabulary for the binary FILE.tiktoken
  docs          regenerate the generated pages of docs/reference
  words         find wording that is not plain English in code and documentation
  names         find type names that are defined more than once
  cycles        find modules of a crate that import each other [--files] [CRATE_FOLDER ...]
  fmt           format the code";

/// In a release build, because its times are part of the goals of search.
const SEARCH_EVAL: &[&str] = &["--release", "--package", "toolbooth-search"];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let done = |()| ExitCode::SUCCESS;
    let outcome = match task.as_deref() {
        Some("test") => test::run(&root()),
        Some("setup") => setup::run(&root()).map(done),
        Some("interop") => interop::run(&root(), arguments).map(done),
        Some("conformance") => conformance::run(arguments).map(done),
        Some("console") => console::run(&root(), arguments),
        Some("kills") => kills::run(&root(), arguments).map(done),
        Some("replicas") => replicas::run(&root(), arguments).map(done),
        Some("fuzz") => fuzz::run(&root(), arguments).map(done),
        Some("bench") => bench::run(&root(), arguments).map(done),
        Some("dist") => dist::run(&root(), arguments).map(done),
        Some("packages") => packages::run(&root(), arguments).map(done),
        Some("profile") => bench::profile::run(&root(), arguments).map(done),
        Some("tokens") => run_example("tokens", &["--package", "toolbooth-search"], arguments).map(done),
        Some("search-eval") => run_example("search-eval", SEARCH_EVAL, arguments).map(done),
        Some("vocabulary") => {
            run_example("vocabulary", &["--package", "toolbooth-core"], arguments).map(done)
        }
        Some("docs") => docs(&root()).map(done),
        Some("fmt") => format(&root()).map(done),
        Some("words") => words::check(&root()).map(done),
        Some("names") => names::check(&root()).map(done),
        Some("cycles") => cycles::run(&root(), arguments).map(done),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("error: unknown task `{other}`\n\n{USAGE}");
            return ExitCode::from(2);
        }
        None => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// A command of the cargo that runs this program, in the root of the repository.
fn cargo(root: &Path) -> Command {
    let mut command = plain_cargo();
    command.current_dir(root);
    command
}

/// A command of the cargo that runs this program, without the variables that cargo has set for it. Some build scripts run
/// again when one of them changes, so the crates after them would be built again by each task.
fn plain_cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_package)) {
        command.env_remove(name);
    }
    command
}

/// Runs an example program of a crate, with options for cargo. It runs in the current folder, so that paths in
/// `arguments` keep their meaning. A dependency of xtask on the crate would make every task wait for its build.
fn run_example(example: &str, options: &[&str], arguments: impl Iterator<Item = String>) -> Result<()> {
    let manifest = root().join("Cargo.toml");
    let mut command = plain_cargo();
    command.args(["run", "--quiet", "--manifest-path"]).arg(manifest).args(options);
    let status = command.args(["--example", example, "--"]).args(arguments).status()?;
    anyhow::ensure!(status.success(), "`{example}` ended with {status}");
    Ok(())
}

/// Regenerates pages with the tests that compare them.
fn docs(root: &Path) -> Result<()> {
    // The whole workspace, so that the build of other tasks is reused.
    for (target, test) in [("gateway", "security_test_page"), ("cli", "settings_page_is_up_to_date")] {
        let page = ["test", "--workspace", "--test", target, test];
        let status = cargo(root).args(page).env("TOOLBOOTH_WRITE_DOCS", "1").status()?;
        anyhow::ensure!(status.success(), "the pages were not written: cargo test ended with {status}");
    }
    Ok(())
}

fn format(root: &Path) -> Result<()> {
    let status = cargo(root).args(["fmt", "--all"]).status()?;
    anyhow::ensure!(status.success(), "cargo fmt ended with {status}");
    Ok(())
}
