//! Servers as their authors write them: our examples in Python, and the examples that the product was asked for.

use super::{report::Report, stage::Stage};
use crate::setup::Setup;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Our own examples, registered by their flat file, do what the servers in the binary do.
pub fn examples(setup: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let folder = stage.root.join("servers");
    let gateway = stage.gateway_of("examples", folder.join("mcp.json"))?;
    let tools = ["demo_echo", "identity_whoami", "files_size", "planner_plan_task"];
    let mut running = stage.serve_with(&gateway, &tools, &setup.second)?;
    let poem = stage.file("poem.txt");
    fs::write(&poem, "hello")?;
    gateway.says(stage, &["files", "put", &poem.display().to_string()])?;
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
        report.check(&format!("example: {tool}"), || said(&gateway.call(stage, tool, &arguments)?, expected));
    }
    running.end(Signal::SIGTERM)
}

/// The examples of the documents that the product was asked for, unchanged, where these documents are at hand.
pub fn seeds(setup: &Setup, stage: &Stage, report: &mut Report) -> Result<()> {
    let folder = stage.root.join("../shared/seeds");
    let find = |beginning: &str| -> Option<String> {
        let files = fs::read_dir(&folder).ok()?.flatten();
        let file =
            files.into_iter().find(|file| file.file_name().to_string_lossy().starts_with(beginning))?;
        fs::read_to_string(file.path()).ok()
    };
    let (Some(planning), Some(creating)) = (find("000_"), find("001_")) else {
        println!("skipped: ../shared/seeds is not here");
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
                said(&gateway.call(stage, tool, &arguments)?, expected)
            });
        }
        running.end(Signal::SIGTERM)?;
    }
    Ok(())
}

/// Puts the snippets where their documents say they belong.
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
    let [server, report] = python.as_slice() else { anyhow::bail!("the document has other snippets now") };
    // The second snippet is one more tool of the first one's server.
    let (tools, start) = server.split_once("if __name__").context("the example does not start itself")?;
    fs::write(example.join("main.py"), format!("{tools}\n{report}\nif __name__{start}"))?;
    let plan = blocks(planning, "python\n").into_iter().next().context("there is no example of planning")?;
    fs::write(planner.join("main.py"), format!("{plan}\nif __name__ == \"__main__\":\n    mcp.run()\n"))?;
    let registered = blocks(creating, "json\n").into_iter().next().context("there is no registration")?;
    let mut registered: Value = serde_json::from_str(&registered)?;
    let mut second = registered["MyExampleServer"].clone();
    second["command"][1] = "mcp/MyPlanningServer/main.py".into();
    registered["MyPlanningServer"] = second;
    fs::write(home.join("mcp.json"), format!("{registered:#}\n"))?;
    Ok(())
}

fn said(answer: &Value, expected: &str) -> Result<()> {
    let blocks = answer["result"]["content"].as_array().context("it has no content")?;
    // Spaces between the parts of JSON are nobody's business.
    let close = |text: &str| text.replace("\": ", "\":");
    let found =
        blocks.iter().filter_map(|block| block["text"].as_str()).any(|text| close(text).contains(expected));
    ensure!(found, "it answered {answer}");
    Ok(())
}
