//! Runs the steps of the tests and prints their results. One step may run in the background of others.

use super::count::{STEP_LIMIT, TestCount, count_in};
use crate::interop::process::kill_tree;
use anyhow::{Result, anyhow};
use std::{
    collections::VecDeque,
    io::{self, Read as _, Seek as _, Write as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A command whose output is printed when it has ended.
pub struct QuietStep {
    pub name: String,
    pub command: Command,
}

/// The outcome of a step that has not been printed yet.
struct StepOutcome {
    name: String,
    output: String,
    tests: Result<TestCount>,
    seconds: f64,
}

/// A step that runs beside others.
pub struct BackgroundStep(JoinHandle<StepOutcome>);

/// The results of all steps so far.
#[derive(Debug, Default)]
pub struct TestSteps {
    total: TestCount,
    failed: Vec<String>,
    unstable: Vec<String>,
}

impl TestSteps {
    /// Runs one step, which prints its own output.
    pub fn take(&mut self, name: &str, step: impl FnOnce() -> Result<TestCount>) {
        println!("\n== {name} ==");
        let begun = Instant::now();
        let tests = step();
        self.record(name, tests, begun.elapsed().as_secs_f64());
    }

    /// Runs these steps, `WORKERS` at a time. Most of them wait for processes rather than compute.
    pub fn take_side_by_side(&mut self, steps: Vec<QuietStep>) {
        const WORKERS: usize = 2;
        let queue = Mutex::new(VecDeque::from(steps));
        let results = Mutex::new(self);
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some(step) = next() {
                        let outcome = run_quietly(step);
                        results.lock().unwrap_or_else(PoisonError::into_inner).print(outcome);
                    }
                });
            }
        });
    }

    /// Waits for a step that was started before, and prints its result.
    pub fn finish(&mut self, step: BackgroundStep) {
        match step.0.join() {
            Ok(outcome) => self.print(outcome),
            Err(_) => self.record("a step in the background", Err(anyhow!("it panicked")), 0.0),
        }
    }

    /// Notes tests that failed once and passed when they were repeated.
    pub fn note_unstable(&mut self, names: Vec<String>) {
        self.unstable.extend(names);
    }

    /// Prints the totals. Returns whether all tests passed.
    pub fn conclude(self, seconds: f64) -> Result<bool> {
        println!("\ntotal time: {seconds:.0} s");
        if !self.failed.is_empty() {
            println!("failed: {}", self.failed.join(", "));
        }
        if !self.unstable.is_empty() {
            println!("unstable (failed once, passed when repeated): {}", self.unstable.join(", "));
        }
        // The result must be the last line, so failures are not printed again.
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        io::stdout().flush()?;
        Ok(self.total.failed == 0)
    }

    fn print(&mut self, outcome: StepOutcome) {
        print!("\n== {} ==\n{}", outcome.name, outcome.output);
        self.record(&outcome.name, outcome.tests, outcome.seconds);
    }

    fn record(&mut self, name: &str, tests: Result<TestCount>, seconds: f64) {
        let found = match tests {
            Ok(found) if found.failed == 0 => {
                println!("== {name}: ok, {} passed ({seconds:.1} s) ==", found.passed);
                found
            }
            Ok(found) => {
                let TestCount { passed, failed } = found;
                println!("== {name}: FAILED, {passed} passed, {failed} failed ({seconds:.1} s) ==");
                found
            }
            Err(error) => {
                println!("== {name}: FAILED, {error:#} ({seconds:.1} s) ==");
                TestCount::ONE_FAILED
            }
        };
        if found.failed > 0 {
            self.failed.push(name.to_owned());
        }
        self.total.add(found);
    }
}

impl BackgroundStep {
    pub fn start(step: QuietStep) -> Self {
        Self(thread::spawn(move || run_quietly(step)))
    }
}

/// Runs a command with its output and errors in one file. A pipe would stay open as long as any process that the command
/// has left behind.
fn run_quietly(step: QuietStep) -> StepOutcome {
    let begun = Instant::now();
    let (output, tests) = match run_into_file(step.command) {
        Ok((output, success)) => {
            let tests = count_in(&output, success);
            (output, Ok(tests))
        }
        Err(error) => (String::new(), Err(error)),
    };
    StepOutcome { name: step.name, output, tests, seconds: begun.elapsed().as_secs_f64() }
}

fn run_into_file(mut command: Command) -> Result<(String, bool)> {
    let mut file = tempfile::tempfile()?;
    let (output, errors) = (file.try_clone()?, file.try_clone()?);
    let mut child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()?;
    let success = match end_within(STEP_LIMIT, &mut child)? {
        Some(status) => status.success(),
        None => {
            writeln!(file, "it did not end within {} minutes", STEP_LIMIT.as_secs() / 60)?;
            false
        }
    };
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), success))
}

/// Waits for a command; kills it with its descendants when the time is over.
fn end_within(limit: Duration, child: &mut Child) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(50));
    }
    kill_tree(child.id());
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, script: &str) -> QuietStep {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        QuietStep { name: name.to_owned(), command }
    }

    #[test]
    fn steps_side_by_side_are_all_counted() {
        let mut steps = TestSteps::default();
        steps.take_side_by_side(vec![
            step("two", "echo 'test result: ok. 2 passed; 0 failed'"),
            step("broken", "echo to the errors >&2; exit 3"),
            step("one", "true"),
        ]);
        assert_eq!(steps.total, TestCount { passed: 3, failed: 1 });
        assert_eq!(steps.failed, ["broken"]);
    }

    #[test]
    fn output_and_errors_of_a_step_are_kept_in_order() {
        let outcome = run_quietly(step("both", "echo 1; echo 2 >&2; echo 3"));
        assert_eq!(outcome.output, "1\n2\n3\n");
        assert_eq!(outcome.tests.ok(), Some(TestCount::ONE_PASSED));
    }
}
