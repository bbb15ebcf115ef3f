//! Runs a command and adds up the test results in its output.

use crate::interop::process::kill_tree;
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader},
    process::{ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// How long a command may take. A test that hangs must not keep the other steps from running.
pub const STEP_LIMIT: Duration = Duration::from_secs(3600);

/// The numbers of tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestCount {
    pub passed: usize,
    pub failed: usize,
}

impl TestCount {
    pub const ONE_PASSED: Self = Self { passed: 1, failed: 0 };
    pub const ONE_FAILED: Self = Self { passed: 0, failed: 1 };

    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs a command, calls `on_line` with each line of its output, and adds up the test results in it. A command without
/// results counts as one test.
pub fn count(command: &mut Command, on_line: impl FnMut(&str)) -> Result<TestCount> {
    count_within(STEP_LIMIT, command, on_line)
}

fn count_within(limit: Duration, command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<TestCount> {
    let deadline = Instant::now() + limit;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the command did not start")?;
    let lines = lines_of(child.stdout.take().context("the command has no output")?);
    let mut tests = TestCount::default();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                on_line(&line);
                if let Some(found) = result_in(&line) {
                    tests.add(found);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_tree(child.id());
                child.wait()?;
                bail!("it did not end within {} minutes", limit.as_secs().div_ceil(60));
            }
        }
    }
    Ok(judge(tests, child.wait()?.success()))
}

/// The lines of an output, read on a thread of its own: a process that the command leaves behind may keep it open.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

/// The test results in the whole output of a command.
pub fn count_in(output: &str, success: bool) -> TestCount {
    let mut tests = TestCount::default();
    for found in output.lines().filter_map(result_in) {
        tests.add(found);
    }
    judge(tests, success)
}

/// The test count of a finished command.
fn judge(found: TestCount, success: bool) -> TestCount {
    match (success, found.passed + found.failed) {
        (true, 0) => TestCount::ONE_PASSED,
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
    fn a_command_that_does_not_end_fails() {
        let begun = Instant::now();
        let mut lines = Vec::new();
        let script = "echo one; sleep 600 & sleep 600";
        let counted = count_within(Duration::from_secs(1), Command::new("sh").args(["-c", script]), |line| {
            lines.push(line.to_owned())
        });
        assert!(counted.is_err(), "{counted:?}");
        assert_eq!(lines, ["one"]);
        assert!(begun.elapsed() < Duration::from_secs(60));
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
