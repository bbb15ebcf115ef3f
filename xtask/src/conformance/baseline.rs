//! Expected failures with reasons, from `conformance/expected-failures.yml`.

use super::suite::Scenario;
use anyhow::{Context, Result, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunExtent {
    /// All scenarios, so that entries without a failure are outdated.
    Everything,
    /// One scenario; entries of other scenarios are not checked.
    OneScenario,
}

/// The expected failures of every run, as `scenario` or `scenario:check`.
#[derive(Debug, Default)]
pub struct Baseline {
    runs: BTreeMap<String, BTreeSet<String>>,
}

impl Baseline {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Parses lists of entries under the names of runs: the subset of YAML that this file uses.
    fn parse(text: &str) -> Result<Self> {
        let mut runs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut current: Option<String> = None;
        let mut reason = None;
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if line.starts_with('#') {
                reason = Some(());
            } else if line.is_empty() {
                reason = None;
            } else if let Some(entry) = line.strip_prefix("- ") {
                let Some(run) = current.as_ref().and_then(|name| runs.get_mut(name)) else {
                    bail!("line {number}: an entry outside of any list");
                };
                if reason.take().is_none() {
                    bail!("line {number}: `{entry}` has no reason in a comment above it");
                }
                run.insert(entry.trim().to_owned());
            } else if let Some(name) = line.strip_suffix("[]").unwrap_or(line).trim_end().strip_suffix(':') {
                runs.entry(name.to_owned()).or_default();
                current = Some(name.to_owned());
            } else {
                bail!("line {number}: neither `name:`, `- entry` nor a comment");
            }
        }
        Ok(Self { runs })
    }

    /// Returns complaints about failures that are not listed and, if all scenarios ran, about entries that pass.
    pub fn judge(&self, run: &str, scenarios: &[Scenario], extent: RunExtent) -> Vec<String> {
        let empty = BTreeSet::new();
        let listed = self.runs.get(run).unwrap_or(&empty);
        let mut used = BTreeSet::new();
        let mut complaints = Vec::new();
        for scenario in scenarios.iter().filter(|scenario| scenario.is_scored()) {
            for failure in &scenario.failures {
                let entries = [scenario.name.clone(), format!("{}:{}", scenario.name, failure.check)];
                match entries.into_iter().find(|entry| listed.contains(entry)) {
                    Some(entry) => drop(used.insert(entry)),
                    None => complaints.push(format!(
                        "unexpected: {run}: {}:{}: {}",
                        scenario.name, failure.check, failure.message
                    )),
                }
            }
        }
        if extent == RunExtent::Everything {
            let stale = listed.difference(&used);
            complaints.extend(
                stale.map(|entry| format!("stale: {run}: {entry} passes, so remove it from the list")),
            );
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
    use super::super::suite::FailedCheck;
    use super::*;

    fn scenario(name: &str, failing: &[&str]) -> Scenario {
        let failure = |check: &&str| FailedCheck {
            check: (*check).to_owned(),
            status: "FAILURE".to_owned(),
            message: "no".to_owned(),
        };
        Scenario {
            name: name.to_owned(),
            passed: 1,
            failures: failing.iter().map(failure).collect(),
            unscored: None,
        }
    }

    #[test]
    fn unlisted_failures_and_passing_entries_are_both_complaints() {
        let text = "pair:\n  # the spec forbids it\n  - tools:check-a\n\n  # soon\n  - prompts\nother: []\n";
        let baseline = Baseline::parse(text).expect("it is well-formed");
        let cases: [(&[Scenario], usize); 4] = [
            (&[scenario("tools", &["check-a"]), scenario("prompts", &["x", "y"])], 0),
            (&[scenario("tools", &["check-a", "check-b"]), scenario("prompts", &["x"])], 1),
            (&[scenario("tools", &["check-a"]), scenario("prompts", &[])], 1),
            (&[scenario("tools", &[]), scenario("prompts", &[])], 2),
        ];
        for (scenarios, expected) in cases {
            let complaints = baseline.judge("pair", scenarios, RunExtent::Everything);
            assert_eq!(complaints.len(), expected, "{complaints:?}");
        }
        assert_eq!(
            baseline.judge("other", &[scenario("tools", &["check-a"])], RunExtent::Everything).len(),
            1
        );
    }

    #[test]
    fn an_entry_needs_a_reason() {
        assert!(Baseline::parse("pair:\n  - tools\n").is_err());
    }
}
