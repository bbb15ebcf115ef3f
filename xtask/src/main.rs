//! `cargo xtask`: the tasks of this repository, in the language of this repository.

#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod dist;
mod interop;
mod kills;
mod node;
mod object_storage;
mod python;
mod setup;
mod test;
mod tokens;
mod vocabulary;

use anyhow::Result;
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const USAGE: &str = "\
usage: cargo xtask TASK

  test          everything: format, lints, tests, interoperability, conformance
  setup         install what the tests need of other people's, under .setup
  interop       other people's clients and servers, through the gateway [NAME ...]
  conformance   the official suite, in every pair of eras [--pair P] [--client] [--scenario NAME]
  kills         kill the gateway at random moments and check what was promised [COUNT, 200]
  bench         what a call costs, against nginx [--quick] [--full] [--rows 1,2] [--report-only]
  dist          build the binary that is shipped: fat LTO and a profile of real calls; half an hour
  profile       make a new profile for `dist` (profile/README.md); half an hour
  tokens        what catalogues cost a model in full, as summaries and through search CATALOGUE...
  search-eval   how good and how fast tool search is [FOLDER] [--runs FOLDER]
  vocabulary    pack a tokenizer's vocabulary for the binary FILE.tiktoken
  docs          write the generated pages of docs/reference again
  fmt           format the code";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let done = |()| ExitCode::SUCCESS;
    let outcome = match task.as_deref() {
        Some("test") => test::run(&root()),
        Some("setup") => setup::run(&root()).map(done),
        Some("interop") => interop::run(&root(), arguments).map(done),
        Some("conformance") => conformance::run(arguments).map(done),
        Some("kills") => kills::run(&root(), arguments).map(done),
        Some("bench") => bench::run(&root(), arguments).map(done),
        Some("dist") => dist::run(&root(), arguments).map(done),
        Some("profile") => bench::profile::run(&root(), arguments).map(done),
        Some("tokens") => tokens::run(arguments).map(done),
        Some("search-eval") => search_eval(&root(), arguments).map(done),
        Some("vocabulary") => vocabulary::run(&root(), arguments).map(done),
        Some("docs") => docs(&root()).map(done),
        Some("fmt") => format(&root()).map(done),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(other) => {
            eprintln!("error: there is no task `{other}`\n\n{USAGE}");
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

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The cargo that runs us, in the repository.
fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Search is measured as it is released: its times are part of the goals.
fn search_eval(root: &Path, arguments: impl Iterator<Item = String>) -> Result<()> {
    let run =
        ["run", "--quiet", "--release", "--package", "toolbooth-core", "--example", "search-eval", "--"];
    let status = cargo(root).args(run).args(arguments).status()?;
    anyhow::ensure!(status.success(), "the evaluation of search ended with {status}");
    Ok(())
}

/// The pages are written by the tests that compare them.
fn docs(root: &Path) -> Result<()> {
    // The whole workspace, so that what other tasks have built is used again.
    let page = ["test", "--workspace", "--test", "gateway", "the_page_of_security_tests"];
    let status = cargo(root).args(page).env("TOOLBOOTH_WRITE_DOCS", "1").status()?;
    anyhow::ensure!(status.success(), "the pages were not written: cargo test ended with {status}");
    Ok(())
}

fn format(root: &Path) -> Result<()> {
    let status = cargo(root).args(["fmt", "--all"]).status()?;
    anyhow::ensure!(status.success(), "cargo fmt ended with {status}");
    Ok(())
}
