//! `cargo xtask console`: checks that the built files of the console match its sources, and tests the console in
//! Chromium against the real gateway.

use crate::{node::NodeTools, setup};
use anyhow::{Context, Result, bail, ensure};
use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

/// Where Debian's package puts the browser.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Runs the checks with the programs in the folder after `--built`, else in `target/debug`.
pub fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<ExitCode> {
    let mut built = root.join("target/debug");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--built" => built = arguments.next().context("`--built` needs a folder")?.into(),
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    let node = NodeTools::install(root)?;
    let console = root.join("console");
    let npm = |words: &[&str]| -> Result<Command> {
        let mut command = Command::new("npm");
        command.args(words).current_dir(&console).env("PATH", path_with(&node.node)?).stdin(Stdio::null());
        Ok(command)
    };
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    ensure!(npm(&install)?.status()?.success(), "npm could not install the packages of `console`");
    ensure!(
        npm(&["run", "verify"])?.status()?.success(),
        "`console/dist` does not match the sources: run `npm run build` in `console` and commit the result"
    );
    let Some(chromium) = find_chromium() else {
        println!("notice: Chromium is not installed, so the console is not tested in a browser");
        return Ok(ExitCode::SUCCESS);
    };
    let mut tests = npm(&["test"])?;
    tests.env("TOOLBOOTH_BIN", built.join("toolbooth")).env("CHROMIUM", chromium);
    print_result(tests)
}

/// The search path with the private Node first: npm and the packages need a newer one than many machines have.
fn path_with(node: &Path) -> Result<std::ffi::OsString> {
    let folders = node.parent().filter(|folder| folder.is_dir()).map(Path::to_path_buf);
    let rest = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(folders.into_iter().chain(env::split_paths(&rest)))?)
}

/// The browser of the variable `CHROMIUM`, or Debian's, which is installed if it can be.
fn find_chromium() -> Option<PathBuf> {
    if let Some(chromium) = env::var_os("CHROMIUM") {
        return Some(chromium.into());
    }
    if !Path::new(CHROMIUM).exists() {
        setup::provide_chromium();
    }
    Some(PathBuf::from(CHROMIUM)).filter(|chromium| chromium.exists())
}

/// Runs Playwright, prints its output and then its result in the form of the other test programs.
fn print_result(mut command: Command) -> Result<ExitCode> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("npm did not start")?;
    let stdout = child.stdout.take().context("npm has no output")?;
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        match counted(&line) {
            Some((number, "passed")) => passed = number,
            Some((number, "failed")) => failed = number,
            _ => {}
        }
    }
    let success = child.wait()?.success();
    let word = if success { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed");
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The number and the word of a line such as `  25 passed (1.2m)`.
fn counted(line: &str) -> Option<(usize, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_playwright_are_read() {
        let cases = [
            ("  25 passed (1.2m)", Some((25, "passed"))),
            ("  2 failed", Some((2, "failed"))),
            ("  ok  3 flows.spec.ts:12:1 approve a call (2.1s)", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(counted(line), expected, "{line:?}");
        }
    }
}
