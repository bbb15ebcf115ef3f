//! Runs a command and adds up the test results in its output.

use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

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
pub fn count(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<TestCount> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("the command did not start")?;
    let stdout = child.stdout.take().context("the command has no output")?;
    let mut tests = TestCount::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        on_line(&line);
        if let Some(found) = result_in(&line) {
            tests.add(found);
        }
    }
    Ok(judge(tests, child.wait()?.success()))
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
