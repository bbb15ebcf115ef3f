//! `cargo xtask test`: every test there is, in one command and with one verdict.
//!
//! Every step runs whatever became of the others, so that one run tells everything. The last line is
//! `N passed, M failed`.

use crate::{cargo, object_storage, setup};
use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

/// Set for steps that come after the tests: the programs have been built with them.
pub const BUILT: &str = "TOOLBOOTH_BUILT";

/// How long the database of advisories may take to come.
const FETCH_PATIENCE: Duration = Duration::from_secs(60);

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs everything.
pub fn run(root: &Path) -> Result<ExitCode> {
    let started = Instant::now();
    // Asked now: the tests build this very program anew.
    let this = std::env::current_exe().context("where this program is")?;
    let mut total = Tally::default();
    let mut failed_steps = Vec::new();
    let mut take = |name: &'static str, step: &mut dyn FnMut() -> Result<Tally>| {
        println!("\n== {name} ==");
        let begun = Instant::now();
        let outcome = step();
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(tally) if tally.failed == 0 => {
                println!("== {name}: ok, {} passed ({seconds:.1} s) ==", tally.passed);
                total.add(tally);
            }
            Ok(tally) => {
                println!(
                    "== {name}: FAILED, {} passed, {} failed ({seconds:.1} s) ==",
                    tally.passed, tally.failed
                );
                total.add(tally);
                failed_steps.push(name);
            }
            Err(error) => {
                println!("== {name}: FAILED, {error:#} ({seconds:.1} s) ==");
                total.add(Tally { passed: 0, failed: 1 });
                failed_steps.push(name);
            }
        }
    };

    take("setup", &mut || setup::run(root).map(|()| Tally { passed: 1, failed: 0 }));
    take("format", &mut || count(cargo(root).args(["fmt", "--all", "--check"])));
    take("lints", &mut || {
        let lints = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        count(cargo(root).args(lints))
    });
    if succeeds(cargo(root).args(["deny", "--version"]), FETCH_PATIENCE)? {
        take("dependencies", &mut || {
            count(cargo(root).args(["deny", "check", "bans", "licenses", "sources"]))
        });
        // Whether there is a network says nothing about this repository.
        if succeeds(cargo(root).args(["deny", "fetch", "db"]), FETCH_PATIENCE)? {
            take("advisories", &mut || count(cargo(root).args(["deny", "check", "advisories"])));
        } else {
            println!("\nnotice: the database of advisories cannot be fetched, so they are not checked");
        }
    } else {
        println!("\nnotice: cargo-deny is not installed, so licences and advisories are not checked");
    }
    take("tests", &mut || count(cargo(root).args(["test", "--workspace", "--no-fail-fast"]).env(BUILT, "1")));
    take("object storage", &mut || {
        object_storage::serving(root, |url| {
            let suite = ["test", "--package", "toolbooth-engine", "--features", "s3", "--test", "bucket"];
            count(cargo(root).args(suite).env(object_storage::VARIABLE, url))
        })
    });
    // The programs that the tests have built, this one among them.
    let built = this.parent().unwrap_or(root).to_path_buf();
    take("interoperability", &mut || {
        count(Command::new(&this).arg("interop").env(BUILT, "1").current_dir(root))
    });
    take("conformance", &mut || {
        count(Command::new(&this).args(["conformance", "--built"]).arg(&built).current_dir(root))
    });

    println!("\nall of it took {:.0} s", started.elapsed().as_secs_f64());
    if !failed_steps.is_empty() {
        println!("failed: {}", failed_steps.join(", "));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    std::io::stdout().flush()?;
    // The verdict is the last line, so nothing more is said about failures.
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a command ends well, and in time. It is not heard.
fn succeeds(command: &mut Command, patience: Duration) -> Result<bool> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    while started.elapsed() < patience {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// Runs a command, shows what it prints, and adds up the test results in it. A command without any is one test.
fn count(command: &mut Command) -> Result<Tally> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the command did not start")?;
    let stdout = child.stdout.take().context("the command has no output")?;
    let mut tally = Tally::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some(found) = result_in(&line) {
            tally.add(found);
        }
    }
    Ok(judge(tally, child.wait()?.success()))
}

/// What a finished command amounts to.
fn judge(found: Tally, success: bool) -> Tally {
    match (success, found.passed + found.failed) {
        (true, 0) => Tally { passed: 1, failed: 0 },
        // Failures that were expected are no failures.
        (true, _) => Tally { failed: 0, ..found },
        // It did not get as far as a test, or broke off after them.
        (false, _) => Tally { failed: found.failed.max(1), ..found },
    }
}

/// The numbers in a line such as `test result: ok. 12 passed; 0 failed; 1 ignored`.
fn result_in(line: &str) -> Option<Tally> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally::default();
    for part in numbers.split("; ") {
        match part.split_once(' ') {
            Some((number, "passed")) => tally.passed = number.parse().ok()?,
            Some((number, "failed")) => tally.failed = number.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_a_command_prints() {
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
            let expected = expected.map(|(passed, failed)| Tally { passed, failed });
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
    fn the_exit_status_has_the_last_word() {
        let cases = [
            (true, (0, 0), (1, 0)),  // Formatting, lints.
            (true, (5, 2), (5, 0)),  // Failures that were expected.
            (false, (0, 0), (0, 1)), // It does not build.
            (false, (5, 0), (5, 1)), // It broke off after its tests.
            (false, (5, 2), (5, 2)),
        ];
        for (success, (passed, failed), (expected_passed, expected_failed)) in cases {
            let expected = Tally { passed: expected_passed, failed: expected_failed };
            assert_eq!(judge(Tally { passed, failed }, success), expected, "{success} {passed} {failed}");
        }
    }
}
