//! The official suite: what a revision requires, and what came of running it.

use crate::node::Node;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
};

/// A revision with requirements of its own, which fixes the era of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25.
    Legacy,
}

impl Revision {
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
pub struct Failure {
    /// The check's id.
    pub check: String,
    /// `FAILURE`, or `WARNING` for what a server should do.
    pub status: String,
    /// What the suite says about it.
    pub message: String,
}

/// What came of one scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// How many checks succeeded.
    pub passed: usize,
    /// The checks that did not.
    pub failures: Vec<Failure>,
    /// Why it does not count, if it does not.
    pub unscored: Option<String>,
}

impl Scenario {
    /// Whether the revision requires it.
    pub fn is_scored(&self) -> bool {
        self.unscored.is_none()
    }
}

/// Which side of the protocol is judged.
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
    node: Node,
}

impl Suite {
    /// The suite among the installed tools.
    pub fn new(node: Node) -> Self {
        Self { node }
    }

    /// Runs all server scenarios of a revision, or one, against a URL.
    pub fn judge_server(
        &self,
        url: &str,
        revision: Revision,
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
        // Its exit code says less than the results do.
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

    /// Runs the client scenarios of a revision one after the other: together they time out on small machines.
    pub fn judge_client(
        &self,
        client: &str,
        revision: Revision,
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
                let message = "the client ended with an error or ran out of time".to_owned();
                scenario.failures.push(Failure {
                    check: "client-exit".into(),
                    status: "FAILURE".into(),
                    message,
                });
            }
            scenarios.push(scenario);
        }
        Ok(scenarios)
    }

    /// The scenarios of a revision, with the reason for those that do not count.
    fn requirements(&self, revision: Revision, leg: Leg) -> Result<Vec<(String, Option<String>)>> {
        let path = self.node.suite().join(format!("requirements/{}.yaml", revision.date()));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let listed = read_requirements(&text, leg.name());
        if listed.is_empty() {
            bail!("{} lists nothing for {}", path.display(), leg.name());
        }
        Ok(listed)
    }
}

/// Reads the lists of a requirements file: plain names, and blocks of `scenario`, `leg` and `reason`.
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

/// Reads the newest result of a scenario; one that left no result has failed.
fn read_scenario(results: &Path, prefix: &str, name: String, unscored: Option<String>) -> Result<Scenario> {
    let Some(path) = newest(results, prefix) else {
        let message = "the suite left no result; see its log".to_owned();
        let failure = Failure { check: "no-result".into(), status: "FAILURE".into(), message };
        return Ok(Scenario { name, passed: 0, failures: vec![failure], unscored });
    };
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let checks: Vec<Value> = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let mut scenario = Scenario { name, passed: 0, failures: Vec::new(), unscored };
    for check in &checks {
        let text = |field: &str| check[field].as_str().unwrap_or_default().to_owned();
        match text("status").as_str() {
            "SUCCESS" => scenario.passed += 1,
            // What a server should do counts like what it must: the gateway aims at both.
            "FAILURE" | "WARNING" => scenario.failures.push(Failure {
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
    // A scenario's name may have folders in it.
    let (parent, prefix) = match prefix.rsplit_once('/') {
        Some((folders, last)) => (results.join(folders), last),
        None => (results.to_path_buf(), prefix),
    };
    let entries = fs::read_dir(parent).ok()?.filter_map(Result::ok);
    let stamped = entries.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        // The time begins with a year; another scenario's longer name does not.
        time.is_some_and(|time| time.len() > 4 && time.as_bytes()[..4].iter().all(u8::is_ascii_digit))
    });
    let newest = stamped.max_by_key(fs::DirEntry::file_name)?;
    Some(newest.path().join("checks.json")).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_keep_legs_and_reasons_apart() {
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
