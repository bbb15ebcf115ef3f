//! Repeats the few tests that failed, one at a time. The result of a test can depend on the load of the machine, and a
//! run takes most of an hour. A test that passes now is reported as unstable, because it or the product has a defect.

use super::count::TestCount;
use anyhow::Result;

/// With more failures than this, the failures are not a matter of load.
const MOST_REPEATED: usize = 4;

/// The names of the tests that failed, from the lines that the test programs print.
#[derive(Debug, Default)]
pub struct FailedTests(Vec<String>);

impl FailedTests {
    /// Reads a line such as `test search::found ... FAILED`.
    pub fn read(&mut self, line: &str) {
        let failed = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let Some(name) = failed {
            self.0.push(name.to_owned());
        }
    }

    /// Repeats the failed tests with `run`, and returns the corrected count with the names of those that pass now.
    pub fn repeat(
        self,
        first: TestCount,
        run: impl FnOnce(&[String]) -> Result<TestCount>,
    ) -> Result<(TestCount, Vec<String>)> {
        // A program that crashed or did not build has failures without a name.
        let are_all_named = self.0.len() == first.failed;
        if self.0.is_empty() || self.0.len() > MOST_REPEATED || !are_all_named {
            return Ok((first, Vec::new()));
        }
        let second = run(&self.0)?;
        // The same name in two programs: the count decides.
        if second.failed > 0 || second.passed < self.0.len() {
            return Ok((first, Vec::new()));
        }
        Ok((TestCount { passed: first.passed + first.failed, failed: 0 }, self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(names: &[&str]) -> FailedTests {
        let mut failed = FailedTests::default();
        for name in names {
            failed.read(&format!("test {name} ... FAILED"));
        }
        failed
    }

    #[test]
    fn failed_tests_are_repeated_once() -> Result<()> {
        let count = |passed, failed| TestCount { passed, failed };
        let many = ["a", "b", "c", "d", "e"];
        // Names, first count, second count if repeated, expected count, number of unstable tests.
        let cases = [
            (&["a", "b"][..], count(8, 2), Some(count(2, 0)), count(10, 0), 2),
            (&["a", "b"], count(8, 2), Some(count(1, 1)), count(8, 2), 0),
            (&["a"], count(8, 2), None, count(8, 2), 0), // One without a name.
            (&[], count(8, 0), None, count(8, 0), 0),
            (&many, count(5, 5), None, count(5, 5), 0),
            (&["a"], count(8, 1), Some(count(0, 0)), count(8, 1), 0), // Not found again.
        ];
        for (names, first, second, expected, unstable) in cases {
            let mut was_repeated = false;
            let (found, again) = failed(names).repeat(first, |repeated| {
                was_repeated = true;
                assert_eq!(repeated, names);
                Ok(second.unwrap_or_default())
            })?;
            assert_eq!((found, again.len()), (expected, unstable), "{names:?}");
            assert_eq!(was_repeated, second.is_some(), "{names:?}");
        }
        Ok(())
    }

    #[test]
    fn only_failures_are_read() {
        let mut failed = FailedTests::default();
        for line in ["test a::b ... ok", "test result: FAILED. 1 passed", "test a::c ... FAILED", "note"] {
            failed.read(line);
        }
        assert_eq!(failed.0, ["a::c"]);
    }
}
