//! Prints one line for each check, and the totals.

use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// The number of checks so far.
#[derive(Debug, Default)]
pub struct InteropReport {
    passed: usize,
    failed: usize,
}

impl InteropReport {
    /// Reports a check that passed.
    pub fn ok(&mut self, name: &str, took: Duration) {
        self.passed += 1;
        println!("ok {name} ({} ms)", took.as_millis());
    }

    /// Reports a check that failed.
    pub fn failed(&mut self, name: &str, reason: &str) {
        self.failed += 1;
        println!("FAILED {name}: {reason}");
    }

    /// Runs a check and reports its result.
    pub fn check(&mut self, name: &str, body: impl FnOnce() -> Result<()>) {
        let begun = Instant::now();
        match body() {
            Ok(()) => self.ok(name, begun.elapsed()),
            Err(error) => self.failed(name, &format!("{error:#}")),
        }
    }

    /// Prints the totals; failures are an error.
    pub fn conclude(self) -> Result<()> {
        let verdict = if self.failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {verdict}. {} passed; {} failed", self.passed, self.failed);
        if self.failed > 0 {
            bail!("{} interoperability checks failed", self.failed);
        }
        Ok(())
    }
}
