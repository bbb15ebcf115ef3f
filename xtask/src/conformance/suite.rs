//! The official suite: the requirements of a revision, and the results of a run.

use crate::node::NodeTools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

/// A revision with its own requirements, which determines the era of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteRevision {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25.
    Legacy,
}

impl SuiteRevision {
    /// Its date.
    pub fn date(self) -> &'static str {
        match self {
            Self::Modern => "2026-07-28",
            Self::Legacy => "2025-11-25",
        }
    }

    /// The name of its era.
    pub fn era(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

/// One check that did not succeed.
#[derive(Debug, Clone)]
pub struct FailedCheck {
    /// The check's id.
    pub check: String,
    /// `FAILURE`, or `WARNING` for a requirement with "should".
    pub status: String,
    /// The suite's message.
    pub message: String,
}

/// The result of one scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The number of checks that succeeded.
    pub passed: usize,
    /// The checks that failed.
    pub failures: Vec<FailedCheck>,
    /// The reason why the revision does not score it, if so.
    pub unscored: Option<String>,
}

impl Scenario {
    /// Whether the revision requires it.
    pub fn is_scored(&self) -> bool {
        self.unscored.is_none()
    }
}

/// The tested side of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    Server,
    Client,
}

impl Leg {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The installed suite.
pub struct Suite {
    node: NodeTools,
}

impl Suite {
    /// Uses the suite of the installed packages.
    pub fn new(node: NodeTools) -> Self {
        Self { node }
    }

    /// Runs all server scenarios of a revision, or one, against a URL.
    pub fn test_server(
        &self,
        url: &str,
        revision: SuiteRevision,
        folder: &Path,
        only: Option<&str>,
    ) -> Result<Vec<Scenario>> {
        let listed = self.requirements(revision, Leg::Server)?;
        let results = folder.join("results");
        let mut command = self.node.script(&self.node.suite().join("dist/index.js"));
        command.args(["server", "--url", url, "--timeout", "60000", "-o"]).arg(&results);
        match only {
            None => command.args(["--requirements", revision.date()]),
            Some(name) => command.args(["--scenario", name, "--force", "--spec-version", revision.date()]),
        };
        let log = File::create(folder.join("suite.log"))?;
        // The results say more than the exit code.
        command
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            .status()
            .context("the suite did not start")?;
        let wanted = listed.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
        wanted
            .map(|(name, unscored)| read_scenario(&results, &format!("server-{name}"), name, unscored))
            .collect()
    }

    /// Runs the client scenarios of a revision one after the other: in parallel they time out on small machines.
    pub fn test_client(
        &self,
        client: &str,
        revision: SuiteRevision,
        folder: &Path,
        only: Option<&str>,
    ) -> Result<Vec<Scenario>> {
        let listed = self.requirements(revision, Leg::Client)?;
        let mut scenarios = Vec::new();
        for (name, unscored) in listed.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
            let results = folder.join("results");
            let log = File::create(folder.join(format!("{}.log", name.replace('/', "-"))))?;
            let status = self
                .node
                .script(&self.node.suite().join("dist/index.js"))
                .args(["client", "--command", client, "--scenario", &name, "--force", "--timeout", "60000"])
                .args(["--spec-version", revision.date(), "-o"])
                .arg(&results)
                .stdin(Stdio::null())
                .stderr(log.try_clone()?)
                .stdout(log)
                .status()
                .context("the suite did not start")?;
            let mut scenario = read_scenario(&results, &name, name.clone(), unscored)?;
            if !status.success() && scenario.failures.is_empty() {
                let message = "the client failed or timed out".to_owned();
                scenario.failures.push(FailedCheck {
                    check: "client-exit".into(),
                    status: "FAILURE".into(),
                    message,
                });
            }
            scenarios.push(scenario);
        }
        Ok(scenarios)
    }

    /// The scenarios of a revision, with the reason for those that are not scored.
    fn requirements(&self, revision: SuiteRevision, leg: Leg) -> Result<Vec<(String, Option<String>)>> {
        let path = self.node.suite().join(format!("requirements/{}.yaml", revision.date()));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let listed = read_requirements(&text, leg.name());
        if listed.is_empty() {
            bail!("{} lists nothing for {}", path.display(), leg.name());
        }
        Ok(listed)
    }
}

/// Parses the lists of a requirements file: plain names, and blocks of `scenario`, `leg` and `reason`.
fn read_requirements(text: &str, leg: &str) -> Vec<(String, Option<String>)> {
    let mut scored = Vec::new();
    let mut unscored: Vec<(String, String, String)> = Vec::new();
    let mut section = "";
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            section = name;
        } else if let Some(name) = line.strip_prefix("  - scenario: ") {
            unscored.push((name.trim().to_owned(), String::new(), String::new()));
        } else if let Some(name) = line.strip_prefix("  - ").filter(|_| section == leg) {
            scored.push((name.trim().to_owned(), None));
        } else if let Some(last) = unscored.last_mut() {
            match line.trim().split_once(": ") {
                Some(("leg", leg)) => leg.clone_into(&mut last.1),
                Some(("reason", reason)) => reason.clone_into(&mut last.2),
                _ => {}
            }
        }
    }
    let unscored = unscored.into_iter().filter(|(_, of, _)| of == leg);
    scored.extend(unscored.map(|(name, _, reason)| (name, Some(reason))));
    scored
}

/// Reads the newest result of a scenario; a scenario without a result has failed.
fn read_scenario(results: &Path, prefix: &str, name: String, unscored: Option<String>) -> Result<Scenario> {
    let Some(path) = newest(results, prefix) else {
        let message = "the suite wrote no result; see its log".to_owned();
        let failure = FailedCheck { check: "no-result".into(), status: "FAILURE".into(), message };
        return Ok(Scenario { name, passed: 0, failures: vec![failure], unscored });
    };
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let checks: Vec<Value> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let mut scenario = Scenario { name, passed: 0, failures: Vec::new(), unscored };
    for check in &checks {
        let text = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
        match text("status").as_str() {
            "SUCCESS" => scenario.passed += 1,
            // A "should" counts like a "must": the gateway aims at both.
            "FAILURE" | "WARNING" => scenario.failures.push(FailedCheck {
                check: text("id"),
                status: text("status"),
                message: [text("errorMessage"), text("description")]
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .unwrap_or_default(),
            }),
            _ => {}
        }
    }
    Ok(scenario)
}

/// The newest `checks.json` of folders named by the scenario and a time.
fn newest(results: &Path, prefix: &str) -> Option<PathBuf> {
    // The name of a scenario may contain slashes.
    let (parent, prefix) = match prefix.rsplit_once('/') {
        Some((folders, last)) => (results.join(folders), last),
        None => (results.to_path_buf(), prefix),
    };
    let entries = fs::read_dir(parent).ok()?.filter_map(Result::ok);
    let stamped = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        // The time begins with a year; the rest of another scenario's longer name does not.
        time.is_some_and(|time| time.len() > 4 && time.as_bytes()[..4].iter().all(u8::is_ascii_digit))
    });
    let newest = stamped.max_by_key(fs::DirEntry::file_name)?;
    Some(newest.path().join("checks.json")).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_have_legs_and_reasons() {
        let text = "# comment\nserver:\n  - ping\n  - tools-list\n\nclient:\n  - auth/basic\n\nnot_scored:\n  \
                    - scenario: tasks\n    leg: server\n    reason: extension\n    note: >-\n      words: more\n  \
                    - scenario: auth/dpop\n    leg: client\n    reason: extension\n";
        let names = |leg| -> Vec<String> {
            let listed = read_requirements(text, leg).into_iter();
            listed.map(|(name, reason)| format!("{name} {}", reason.unwrap_or_default())).collect()
        };
        assert_eq!(names("server"), ["ping ", "tools-list ", "tasks extension"]);
        assert_eq!(names("client"), ["auth/basic ", "auth/dpop extension"]);
    }
}
