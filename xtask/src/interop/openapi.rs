//! The OpenAPI document, taken at its word: Schemathesis sends right and wrong requests to every operation and
//! holds each answer against what the document says.

use super::{report::Report, script::output, stage::Stage};
use crate::{
    python::{Generation, Venv},
    setup::Setup,
};
use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use serde_json::json;
use std::{fs, process::Command, time::Duration};

/// How long it may look for faults; the phases that go through every operation once are not cut short.
const SECONDS: &str = "75";
/// How long it may take in all.
const PATIENCE: Duration = Duration::from_secs(150);
/// How much of what it says is told on a failure.
const MOST_LINES: usize = 150;
/// What every answer has to be: no 5xx, a status, a type and a body that the document names; what the schema does
/// not allow is refused, and so is a method that is not named.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,negative_data_rejection,unsupported_method";

/// A gateway in local mode with bundled servers answers as its document says, whatever is asked.
pub fn fuzz(_: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let venv = Venv::install(&stage.root, Generation::OpenApi)?;
    let bundled = ["demo", "identity", "files"].map(|name| (name.to_owned(), json!({ "bundled": name })));
    let gateway = stage.gateway("gateway", json!(serde_json::Map::from_iter(bundled)))?;
    let mut running = stage.serve(&gateway, &["demo_echo", "identity_whoami", "files_size"])?;
    let base = running.url.trim_end_matches("/mcp").to_owned();
    report.check("every operation answers as the document says", || {
        let mut command = Command::new(venv.program("schemathesis"));
        stage.isolate(&mut command).arg("run").arg(format!("{base}/openapi.json"));
        command.args(["--checks", CHECKS, "--max-examples", "40", "--max-time", SECONDS, "--seed", "8665"]);
        command.args(["--continue-on-failure", "--request-timeout", "20", "--workers", "2", "--no-color"]);
        let seen = output(&mut command, PATIENCE)?;
        fs::write(stage.file("schemathesis.log"), &seen.stdout)?;
        if !seen.status.success() {
            let told: Vec<&str> = seen
                .stdout
                .lines()
                .skip_while(|line| !line.contains("= FAILURES"))
                .take(MOST_LINES)
                .collect();
            bail!("{}\n{}{}", seen.status, told.join("\n"), seen.stderr.trim());
        }
        let sum = seen.stdout.lines().find(|line| line.contains(" generated")).unwrap_or_default();
        println!("{}", sum.trim());
        Ok(())
    });
    running.end(Signal::SIGTERM)
}
