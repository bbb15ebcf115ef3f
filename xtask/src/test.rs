//! `cargo xtask test`: all tests in one command, with one result.
//!
//! Every step runs even if others failed, so that one run shows all failures. The last line is
//! `N passed, M failed`.

use crate::{cargo, cycles, names, object_storage, postgresql, setup, words};
use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// Set for steps after the tests: the programs are already built.
pub const BUILT: &str = "TOOLBOOTH_BUILT";

/// The timeout for fetching the database of advisories.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The numbers of tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TestCount {
    passed: usize,
    failed: usize,
}

impl TestCount {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs all steps.
pub fn run(root: &Path) -> Result<ExitCode> {
    let started = Instant::now();
    // Read now, because the tests rebuild this program.
    let this = std::env::current_exe().context("the path of this program")?;
    let mut total = TestCount::default();
    let mut failed_steps = Vec::new();
    let mut take = |name: &'static str, step: &mut dyn FnMut() -> Result<TestCount>| {
        println!("\n== {name} ==");
        let begun = Instant::now();
        let outcome = step();
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(tests) if tests.failed == 0 => {
                println!("== {name}: ok, {} passed ({seconds:.1} s) ==", tests.passed);
                total.add(tests);
            }
            Ok(tests) => {
                println!(
                    "== {name}: FAILED, {} passed, {} failed ({seconds:.1} s) ==",
                    tests.passed, tests.failed
                );
                total.add(tests);
                failed_steps.push(name);
            }
            Err(error) => {
                println!("== {name}: FAILED, {error:#} ({seconds:.1} s) ==");
                total.add(TestCount { passed: 0, failed: 1 });
                failed_steps.push(name);
            }
        }
    };

    take("setup", &mut || setup::run(root).map(|()| TestCount { passed: 1, failed: 0 }));
    take("format", &mut || count(cargo(root).args(["fmt", "--all", "--check"])));
    take("lints", &mut || {
        let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        count(cargo(root).args(lints))
    });
    take("words", &mut || words::check(root).map(|()| TestCount { passed: 1, failed: 0 }));
    take("names", &mut || names::check(root).map(|()| TestCount { passed: 1, failed: 0 }));
    take("cycles", &mut || cycles::check(root).map(|()| TestCount { passed: 1, failed: 0 }));
    if succeeds(cargo(root).args(["deny", "--version"]), FETCH_TIMEOUT)? {
        take("dependencies", &mut || {
            count(cargo(root).args(["deny", "check", "bans", "licenses", "sources"]))
        });
        // A missing network is not a failure of this repository.
        if succeeds(cargo(root).args(["deny", "fetch", "db"]), FETCH_TIMEOUT)? {
            take("advisories", &mut || count(cargo(root).args(["deny", "check", "advisories"])));
        } else {
            println!("\nnotice: the database of advisories cannot be fetched, so advisories are not checked");
        }
    } else {
        println!("\nnotice: cargo-deny is not installed, so licences and advisories are not checked");
    }
    let mut tests = cargo(root);
    tests.args(["test", "--workspace", "--no-fail-fast"]).env(BUILT, "1");
    match postgresql::programs() {
        Some(programs) => take("tests", &mut || {
            postgresql::serving(&programs, |url| count(tests.env(postgresql::VARIABLE, url)))
        }),
        None => {
            println!("\nnotice: PostgreSQL is not installed, so shared stores are not tested");
            take("tests", &mut || count(&mut tests));
        }
    }
    take("object storage", &mut || {
        object_storage::serving(root, |url| {
            // With the features of the whole workspace, so that nothing is built again.
            let suite = ["test", "--workspace", "--test", "bucket"];
            count(cargo(root).args(suite).env(object_storage::VARIABLE, url))
        })
    });
    // The folder of the programs that the tests have built, including this one.
    let built = this.parent().unwrap_or(root).to_path_buf();
    take("interoperability", &mut || {
        count(Command::new(&this).arg("interop").env(BUILT, "1").current_dir(root))
    });
    take("conformance", &mut || {
        count(Command::new(&this).args(["conformance", "--built"]).arg(&built).current_dir(root))
    });

    take("console", &mut || {
        count(Command::new(&this).args(["console", "--built"]).arg(&built).current_dir(root))
    });

    println!("\ntotal time: {:.0} s", started.elapsed().as_secs_f64());
    if !failed_steps.is_empty() {
        println!("failed: {}", failed_steps.join(", "));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    std::io::stdout().flush()?;
    // The result must be the last line, so failures are not printed again.
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Runs a command, prints its output, and adds up the test results in it. A command without results counts as one
/// test.
fn count(command: &mut Command) -> Result<TestCount> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the command did not start")?;
    let stdout = child.stdout.take().context("the command has no output")?;
    let mut tests = TestCount::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(found) = result_in(&line) {
            tests.add(found);
        }
    }
    Ok(judge(tests, child.wait()?.success()))
}

/// The test count of a finished command.
fn judge(found: TestCount, success: bool) -> TestCount {
    match (success, found.passed + found.failed) {
        (true, 0) => TestCount { passed: 1, failed: 0 },
        // Expected failures do not count.
        (true, _) => TestCount { failed: 0, ..found },
        // It failed before its first test, or after its last one.
        (false, _) => TestCount { failed: found.failed.max(1), ..found },
    }
}

/// The numbers in a line such as `test result: ok. 12 passed; 0 failed; 1 ignored`.
fn result_in(line: &str) -> Option<TestCount> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tests = TestCount::default();
    for part in numbers.split("; ") {
        match part.split_once(' ') {
            Some((number, "passed")) => tests.passed = number.parse().ok()?,
            Some((number, "failed")) => tests.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_the_output_of_a_command() {
        let cases = [
            (
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
                Some((12, 0)),
            ),
            ("test result: FAILED. 3 passed; 2 failed; 0 ignored", Some((3, 2))),
            ("test result: ok. 137 passed; 4 failed", Some((137, 4))),
            ("running 3 tests", None),
            ("note: test result: ok. 1 passed; 0 failed", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|(passed, failed)| TestCount { passed, failed });
            assert_eq!(result_in(line), expected, "{line}");
        }
    }

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

    #[test]
    fn the_exit_status_decides() {
        let cases = [
            (true, (0, 0), (1, 0)),  // Formatting, lints.
            (true, (5, 2), (5, 0)),  // Expected failures.
            (false, (0, 0), (0, 1)), // It does not build.
            (false, (5, 0), (5, 1)), // It failed after its tests.
            (false, (5, 2), (5, 2)),
        ];
        for (success, (passed, failed), (expected_passed, expected_failed)) in cases {
            let expected = TestCount { passed: expected_passed, failed: expected_failed };
            assert_eq!(judge(TestCount { passed, failed }, success), expected, "{success} {passed} {failed}");
        }
    }
}
