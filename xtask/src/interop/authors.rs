//! Servers as authors write them: the Python examples of this repository, and the examples of the seed documents.

use super::{report::InteropReport, stage::InteropStage};
use crate::setup::Setup;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// The examples of this repository, registered with their `mcp.json`, behave like the bundled servers.
pub fn examples(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let folder = stage.root.join("servers");
    let gateway = stage.gateway_of("examples", folder.join("mcp.json"))?;
    let tools = ["demo_echo", "identity_whoami", "files_size", "planner_plan_task"];
    let mut running = stage.serve_with(&gateway, &tools, &setup.second)?;
    let poem = stage.file("poem.txt");
    fs::write(&poem, "hello")?;
    gateway.run_json(stage, &["files", "put", &poem.display().to_string()])?;
    let forged = json!({ "claimed_user": "mallory", "username": "mallory" });
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let cases = [
        ("demo_hash", json!({ "text": "hello" }), hello),
        ("demo_slow", json!({ "milliseconds": 1 }), "waited 1 ms"),
        ("identity_whoami", json!({}), "demo_echo"),
        ("identity_override_attempt", forged, "\"override_occurred\":false"),
        ("files_size", json!({ "filename": "poem.txt" }), hello),
        ("files_make_report", json!({ "title": "Squares", "rows": 3 }), "\"sum_of_squares\":14"),
        ("planner_plan_task", json!({ "task": "hash a word" }), "\"available_tools\""),
    ];
    for (tool, arguments, expected) in cases {
        report.check(&format!("example: {tool}"), || {
            contains_text(&gateway.call(stage, tool, &arguments)?, expected)
        });
    }
    running.end(Signal::SIGTERM)
}

/// The unchanged examples of the seed documents, if these documents exist.
pub fn seeds(setup: &Setup, stage: &InteropStage, report: &mut InteropReport) -> Result<()> {
    let folder = stage.root.join("../shared/seeds");
    let find = |beginning: &str| -> Option<String> {
        let files = fs::read_dir(&folder).ok()?.flatten();
        let file =
            files.into_iter().find(|file| file.file_name().to_string_lossy().starts_with(beginning))?;
        fs::read_to_string(file.path()).ok()
    };
    let (Some(planning), Some(creating)) = (find("000_"), find("001_")) else {
        println!("skipped: ../shared/seeds does not exist");
        return Ok(());
    };
    for (name, venv) in [("first", &setup.first), ("second", &setup.second)] {
        let home = stage.file(name);
        lay_out(&home, &planning, &creating)?;
        let gateway = stage.gateway_of(name, home.join("mcp.json"))?;
        let tools = ["MyExampleServer_my_tool", "MyPlanningServer_plan_task"];
        let mut running = stage.serve_with(&gateway, &tools, venv)?;
        let cases = [
            ("MyExampleServer_my_tool", json!({ "parameter": "x" }), "\"input_received\":\"x\""),
            (
                "MyExampleServer_create_html_report",
                json!({ "title": "T" }),
                "Successfully generated report: T",
            ),
            ("MyPlanningServer_plan_task", json!({ "task": "t" }), "MyExampleServer_create_html_report"),
        ];
        for (tool, arguments, expected) in cases {
            report.check(&format!("seeds, {name} generation: {tool}"), || {
                contains_text(&gateway.call(stage, tool, &arguments)?, expected)
            });
        }
        running.end(Signal::SIGTERM)?;
    }
    Ok(())
}

/// Writes the snippets to the paths that their documents give.
fn lay_out(home: &Path, planning: &str, creating: &str) -> Result<()> {
    let blocks = |page: &str, language: &str| -> Vec<String> {
        let parts = page.split("```").collect::<Vec<_>>();
        let fenced = parts.iter().skip(1).step_by(2).filter_map(|part| part.strip_prefix(language));
        fenced.map(str::to_owned).collect()
    };
    let servers = home.join("backend/mcp");
    let (example, planner) = (servers.join("MyExampleServer"), servers.join("MyPlanningServer"));
    fs::create_dir_all(&example)?;
    fs::create_dir_all(&planner)?;
    let python = blocks(creating, "python\n");
    let [server, report] = python.as_slice() else {
        anyhow::bail!("the document does not have two Python snippets")
    };
    // The second snippet is another tool of the first snippet's server.
    let (tools, start) = server.split_once("if __name__").context("the example has no `if __name__`")?;
    fs::write(example.join("main.py"), format!("{tools}\n{report}\nif __name__{start}"))?;
    let plan =
        blocks(planning, "python\n").into_iter().next().context("the document has no Python snippet")?;
    fs::write(planner.join("main.py"), format!("{plan}\nif __name__ == \"__main__\":\n    mcp.run()\n"))?;
    let registered =
        blocks(creating, "json\n").into_iter().next().context("the document has no JSON snippet")?;
    let mut registered: Value = serde_json::from_str(&registered)?;
    let mut second = registered["MyExampleServer"].clone();
    second["command"][1] = "mcp/MyPlanningServer/main.py".into();
    registered["MyPlanningServer"] = second;
    fs::write(home.join("mcp.json"), format!("{registered:#}\n"))?;
    Ok(())
}

fn contains_text(answer: &Value, expected: &str) -> Result<()> {
    let blocks = answer["result"]["content"].as_array().context("the answer has no content")?;
    // Spaces after colons in JSON do not matter.
    let close = |text: &str| text.replace("\": ", "\":");
    let found =
        blocks.iter().filter_map(|block| block["text"].as_str()).any(|text| close(text).contains(expected));
    ensure!(found, "unexpected answer: {answer}");
    Ok(())
}
