//! Tests the gateway against its OpenAPI document: Schemathesis sends valid and invalid requests to every operation and
//! compares each answer with the document.

use super::{report::InteropReport, script::output, stage::InteropStage};
use crate::{
    python::{Venv, VenvKind},
    setup::Setup,
};
use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use serde_json::json;
use std::{fs, process::Command, time::Duration};

/// The timeout of each of the two runs. Their work is limited by the number of examples.
const RUN_TIMEOUT: Duration = Duration::from_secs(400);
/// The most lines of its output that a failure shows.
const MAX_LINES: usize = 150;
/// The checks of every answer: no 5xx; status, type, headers and body as documented; and undocumented methods are
/// refused.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,response_headers_conformance,unsupported_method";

/// Tests a gateway in local mode with bundled servers.
pub fn fuzz(_: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let venv = Venv::install(&stage.root, VenvKind::OpenApi)?;
    let bundled = ["demo", "identity", "files"].map(|name| (name.to_owned(), json!({ "bundled": name })));
    let gateway = stage.gateway("gateway", json!(serde_json::Map::from_iter(bundled)))?;
    let mut running = stage.serve(&gateway, &["demo_echo", "identity_whoami", "files_size"])?;
    let document = format!("{}/openapi.json", running.url.trim_end_matches("/mcp"));
    let strict = format!("{CHECKS},negative_data_rejection");
    let all = ["--exclude-operation-id", "files_put", "--max-time", "75", "--checks", &strict];
    // The fields of a form are always text, so no form has a wrong type.
    let uploads = ["--include-operation-id", "files_put", "--max-time", "15", "--checks", CHECKS];
    for (name, options) in [("every operation", all), ("uploads", uploads)] {
        report.check(&format!("answers match the document: {name}"), || {
            let mut command = Command::new(venv.program("schemathesis"));
            stage.isolate(&mut command).args(["run", &document]).args(options);
            command.args(["--max-examples", "25", "--seed", "8665", "--continue-on-failure"]);
            // One worker: in CPython 3.11, two threads that parse source code at the same time can fail with
            // "AST constructor recursion depth mismatch".
            command.args(["--request-timeout", "20", "--workers", "1", "--no-color"]);
            let seen = output(&mut command, RUN_TIMEOUT)?;
            fs::write(stage.file(&format!("{name}.log")), &seen.stdout)?;
            if !seen.status.success() {
                let is_heading = |line: &&str| line.contains("= FAILURES") || line.contains("= ERRORS");
                let failures = seen.stdout.lines().skip_while(|line| !is_heading(line));
                let failures: Vec<&str> = failures.take(MAX_LINES).collect();
                bail!("{}\n{}{}", seen.status, failures.join("\n"), seen.stderr.trim());
            }
            let sum = seen.stdout.lines().find(|line| line.contains(" generated, "));
            println!("{}", sum.unwrap_or_default().trim());
            Ok(())
        });
    }
    running.end(Signal::SIGTERM)
}
