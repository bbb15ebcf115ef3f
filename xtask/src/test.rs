//! `cargo xtask test`: all tests in one command, with one result.
//!
//! Every step runs even if others failed, so that one run shows all failures. The last line is
//! `N passed, M failed`.

mod count;
mod repeat;
mod steps;

use crate::interop::BUILT;
use crate::{cargo, cycles, interop, names, object_storage, postgresql, setup, words};
use anyhow::{Context, Result};
use count::{TestCount, count};
use repeat::FailedTests;
use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};
use steps::{BackgroundStep, QuietStep, TestSteps};

/// The timeout for fetching the database of advisories.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The tests that run at a time. Twice the cores of a small machine, because most tests wait for processes.
const TEST_THREADS: &str = "4";

/// Runs all steps.
pub fn run(root: &Path) -> Result<ExitCode> {
    let started = Instant::now();
    // Read now, because the tests rebuild this program.
    let this = std::env::current_exe().context("the path of this program")?;
    let mut steps = TestSteps::default();

    steps.take("setup", || setup::run(root).map(|()| TestCount::ONE_PASSED));
    steps.take("format", || count_printed(cargo(root).args(["fmt", "--all", "--check"])));
    steps.take("words", || words::check(root).map(|()| TestCount::ONE_PASSED));
    steps.take("names", || names::check(root).map(|()| TestCount::ONE_PASSED));
    steps.take("cycles", || cycles::check(root).map(|()| TestCount::ONE_PASSED));
    check_dependencies(root, &mut steps)?;
    let postgresql = postgresql::programs();
    let lints = take_tests(root, postgresql.as_deref(), &mut steps);
    steps.take_side_by_side(with_other_programs(root, &this));
    steps.finish(lints);
    steps.take("object storage", || {
        object_storage::serving(root, |url| {
            // With the features of the whole workspace, so that nothing is built again.
            let suite = ["test", "--workspace", "--test", "bucket"];
            count_printed(cargo(root).args(suite).env(object_storage::VARIABLE, url))
        })
    });
    // Alone, because they measure times.
    let with_built = |arguments: &[&str]| {
        count_printed(
            Command::new(&this).args(arguments).arg("--built").arg(built_by(&this)).current_dir(root),
        )
    };
    if postgresql.is_some() {
        steps.take("replicas", || with_built(&["replicas", "--short"]));
    }
    steps.take("console", || with_built(&["console"]));

    let passed = steps.conclude(started.elapsed().as_secs_f64())?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks licences and advisories if cargo-deny is installed.
fn check_dependencies(root: &Path, steps: &mut TestSteps) -> Result<()> {
    if !succeeds(cargo(root).args(["deny", "--version"]), FETCH_TIMEOUT)? {
        println!("\nnotice: cargo-deny is not installed, so licences and advisories are not checked");
        return Ok(());
    }
    steps.take("dependencies", || {
        count_printed(cargo(root).args(["deny", "check", "bans", "licenses", "sources"]))
    });
    // A missing network is not a failure of this repository.
    if succeeds(cargo(root).args(["deny", "fetch", "db"]), FETCH_TIMEOUT)? {
        steps.take("advisories", || count_printed(cargo(root).args(["deny", "check", "advisories"])));
    } else {
        println!("\nnotice: the database of advisories cannot be fetched, so advisories are not checked");
    }
    Ok(())
}

/// Runs the tests of the workspace. As soon as they are built, the lints start beside them with low priority: they
/// compute while the tests mostly wait.
fn take_tests(root: &Path, postgresql: Option<&Path>, steps: &mut TestSteps) -> BackgroundStep {
    let mut lints = None;
    let mut unstable = Vec::new();
    let mut run = |store: Option<&str>| {
        let mut failed = FailedTests::default();
        let first = count(&mut workspace_tests(root, store, TEST_THREADS), |line| {
            println!("{line}");
            failed.read(line);
            if line.starts_with("running ") {
                lints.get_or_insert_with(|| start_lints(root));
            }
        })?;
        let (corrected, passed_now) = failed.repeat(first, |names| {
            println!("\n== tests that failed, repeated one at a time ==");
            count_printed(workspace_tests(root, store, "1").args(["--", "--exact"]).args(names))
        })?;
        unstable = passed_now;
        Ok(corrected)
    };
    match postgresql {
        Some(programs) => {
            steps.take("tests", || postgresql::serving(programs, |url| run(Some(url))));
        }
        None => {
            println!("\nnotice: PostgreSQL is not installed, so shared stores are not tested");
            steps.take("tests", || run(None));
        }
    }
    steps.note_unstable(unstable);
    lints.unwrap_or_else(|| start_lints(root))
}

/// The command that runs the tests of the workspace, with the URL of a PostgreSQL server for the shared stores.
fn workspace_tests(root: &Path, store: Option<&str>, threads: &str) -> Command {
    let mut tests = cargo(root);
    tests.args(["test", "--workspace", "--no-fail-fast"]).env(BUILT, "1").env("RUST_TEST_THREADS", threads);
    if let Some(url) = store {
        tests.env(postgresql::VARIABLE, url);
    }
    tests
}

fn start_lints(root: &Path) -> BackgroundStep {
    let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let clippy = cargo(root);
    let mut command = Command::new("nice");
    command.args(["-n", "15"]).arg(clippy.get_program()).args(lints).current_dir(root);
    BackgroundStep::start(QuietStep { name: "lints".to_owned(), command })
}

/// The tests with programs of other projects, the longest first, so that the last ones end at about the same time.
fn with_other_programs(root: &Path, this: &Path) -> Vec<QuietStep> {
    let mut steps: Vec<QuietStep> = interop::part_names()
        .map(|part| {
            let mut command = Command::new(this);
            command.args(["interop", part]).env(BUILT, "1").current_dir(root);
            QuietStep { name: format!("interoperability: {part}"), command }
        })
        .collect();
    let mut conformance = Command::new(this);
    conformance.args(["conformance", "--built"]).arg(built_by(this)).current_dir(root);
    steps.insert(1, QuietStep { name: "conformance".to_owned(), command: conformance });
    steps
}

/// The folder of the programs that the tests have built, including this one.
fn built_by(this: &Path) -> &Path {
    this.parent().unwrap_or(this)
}

/// Runs a command, prints its output, and adds up the test results in it.
fn count_printed(command: &mut Command) -> Result<TestCount> {
    count(command, |line| println!("{line}"))
}

/// Whether a command succeeds within the timeout. Its output is discarded.
fn succeeds(command: &mut Command, timeout: Duration) -> Result<bool> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    while started.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_takes_too_long_does_not_succeed() -> Result<()> {
        let cases = [("true", true), ("false", false), ("sleep 60", false)];
        for (script, expected) in cases {
            let mut command = Command::new("sh");
            let found = succeeds(command.args(["-c", script]), Duration::from_secs(2))?;
            assert_eq!(found, expected, "{script}");
        }
        Ok(())
    }
}
