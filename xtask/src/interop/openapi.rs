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

/// How long each of the two runs may take. What they do is bounded by examples, not by time.
const PATIENCE: Duration = Duration::from_secs(400);
/// How much of what it says is told on a failure.
const MOST_LINES: usize = 150;
/// What every answer has to be: no 5xx, with a status, a type, headers and a body that the document names; and a
/// method that is not named is refused.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,unsupported_method";

/// A gateway in local mode with bundled servers answers as its document says, whatever is asked.
pub fn fuzz(_: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let venv = Venv::install(&stage.root, Generation::OpenApi)?;
    let bundled = ["demo", "identity", "files"].map(|name| (name.to_owned(), json!({ "bundled": name })));
    let gateway = stage.gateway("gateway", json!(serde_json::Map::from_iter(bundled)))?;
    let mut running = stage.serve(&gateway, &["demo_echo", "identity_whoami", "files_size"])?;
    let document = format!("{}/openapi.json", running.url.trim_end_matches("/mcp"));
    let strict = format!("{CHECKS},negative_data_rejection");
    let all = ["--exclude-operation-id", "files_put", "--max-time", "75", "--checks", &strict];
    // The fields of a form are texts whatever stands in them, so no form is of the wrong type.
    let uploads = ["--include-operation-id", "files_put", "--max-time", "15", "--checks", CHECKS];
    for (name, options) in [("every operation", all), ("uploads", uploads)] {
        report.check(&format!("as the document says: {name}"), || {
            let mut command = Command::new(venv.program("schemathesis"));
            stage.isolate(&mut command).args(["run", &document]).args(options);
            command.args(["--max-examples", "25", "--seed", "8665", "--continue-on-failure"]);
            command.args(["--request-timeout", "20", "--workers", "2", "--no-color"]);
            let seen = output(&mut command, PATIENCE)?;
            fs::write(stage.file(&format!("{name}.log")), &seen.stdout)?;
            if !seen.status.success() {
                let told = seen.stdout.lines().skip_while(|line| !line.contains("= FAILURES"));
                let told: Vec<&str> = told.take(MOST_LINES).collect();
                bail!("{}\n{}{}", seen.status, told.join("\n"), seen.stderr.trim());
            }
            let sum = seen.stdout.lines().find(|line| line.contains(" generated, "));
            println!("{}", sum.unwrap_or_default().trim());
            Ok(())
        });
    }
    running.end(Signal::SIGTERM)
}
