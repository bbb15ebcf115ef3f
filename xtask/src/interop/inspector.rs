//! The MCP Inspector's command line: lists and calls in each era, and its lint of the bundled tools.

use super::{
    report::InteropReport,
    script::{CommandOutput, output},
    stage::InteropStage,
};
use crate::setup::Setup;
use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{fs, process::Command, time::Duration};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
const ERAS: [&str; 3] = ["legacy", "auto", "modern"];

/// Runs all checks.
pub fn inspect(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let new = stage.start_fixture("modern")?;
    let servers = json!({ "old": stage.fixture_entry("legacy")?, "new": { "url": new.url } });
    let gateway = stage.gateway("gateway", servers)?;
    let mut running = stage.serve(&gateway, &["old_add", "new_add"])?;
    // The Inspector has its own `--config`, so the gateway's command line must come from a file.
    let stdio = gateway.stdio_command();
    let session = stage.file("inspector.json");
    let entry = json!({ "command": stdio[0], "args": stdio[1..] });
    fs::write(&session, json!({ "mcpServers": { "booth": entry } }).to_string())?;
    let session = session.display().to_string();
    let ways: [(&str, &[&str]); 2] =
        [("http", &[running.url.as_str()]), ("stdio", &["--config", &session, "--server", "booth"])];
    for (way, target) in ways {
        for era in ERAS {
            let ask = |words: &[&str]| {
                let run = [target, &["--protocol-era", era, "--format", "json"], words].concat();
                succeed(output(inspector(setup, stage).args(run), COMMAND_TIMEOUT)?)
            };
            report.check(&format!("inspector {way} {era}: list"), || {
                let answer = ask(&["--method", "tools/list"])?;
                let tools = answer["result"]["tools"].as_array().context("the answer has no list")?;
                for wanted in ["old_add", "new_add"] {
                    ensure!(tools.iter().any(|tool| tool["name"] == wanted), "`{wanted}` is not listed");
                }
                Ok(())
            });
            for tool in ["old_add", "new_add"] {
                report.check(&format!("inspector {way} {era}: call {tool}"), || {
                    let call = ["--method", "tools/call", "--tool-name", tool, "--tool-arg", "a=2", "b=40"];
                    let answer = ask(&call)?;
                    ensure!(
                        answer["result"]["structuredContent"] == json!({ "sum": 42 }),
                        "unexpected answer: {answer}"
                    );
                    Ok(())
                });
            }
        }
    }
    running.end(Signal::SIGTERM)?;
    lint(setup, stage, report)
}

/// Checks that the Inspector's lint has no findings for the bundled tools.
fn lint(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let gateway = stage.gateway("bundled", json!({}))?;
    let mut running = stage.serve(&gateway, &["demo_echo"])?;
    for era in ERAS {
        report.check(&format!("inspector {era}: the bundled tools have no lint findings"), || {
            let words = ["--protocol-era", era, "--format", "json", "--method", "tools/list", "--strict"];
            let seen = output(inspector(setup, stage).arg(&running.url).args(words), COMMAND_TIMEOUT)?;
            let (errors, warnings) = findings(&seen.stderr);
            succeed(seen)?;
            ensure!((errors, warnings) == (0, 0), "{errors} errors and {warnings} warnings");
            Ok(())
        });
    }
    running.end(Signal::SIGTERM)
}

fn inspector(setup: &Setup, stage: &InteropStage) -> Command {
    let mut command = setup.node.tool("mcp-inspector");
    command.arg("--cli").env("MCP_INSPECTOR_SECRET_STORE", "memory");
    stage.isolate(&mut command);
    command
}

fn succeed(seen: CommandOutput) -> Result<Value> {
    if !seen.status.success() {
        bail!("{}: {}", seen.status, seen.stderr.trim());
    }
    serde_json::from_str(&seen.stdout)
        .with_context(|| format!("the output is not JSON: {}", seen.stdout.trim()))
}

/// The numbers in `0 errors, 2 warnings across 2 tools`; 0 if they are missing.
fn findings(text: &str) -> (u32, u32) {
    let count = |noun: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let found = words.windows(2).find(|pair| pair[1].trim_end_matches(',').trim_end_matches('s') == noun);
        found.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
    };
    (count("error"), count("warning"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted() {
        let cases = [
            ("0 errors, 2 warnings across 2 tools.", (0, 2)),
            ("Error: tool\n1 error, 1 warning across 1 tool.", (1, 1)),
            ("", (0, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(findings(text), expected, "{text}");
        }
    }
}
