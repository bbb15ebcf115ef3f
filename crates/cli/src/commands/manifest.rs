//! `toolbooth manifest`: what the operator says of tools.

use super::in_runtime;
use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::gateway;
use crate::own::Wanted;
use crate::reach::Reach;
use crate::render::{self, Cell, Paint, Table, Tone};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use toolbooth_config::expand::Variables;
use toolbooth_config::{Finding, manifest};

/// What of manifests.
#[derive(Debug, Args)]
pub struct ManifestArguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every entry and what became of it (the default).
    List,
    /// Check files: every violation with its line; exits 1 where there is any.
    Check {
        /// JSON, YAML or TOML files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the JSON Schema of manifests.
    Schema,
}

/// Runs `toolbooth manifest`.
pub fn run(global: &Global, what: ManifestArguments) -> Outcome {
    match what.action.unwrap_or(Action::List) {
        Action::List => in_runtime(async {
            let reach = Reach::open(global).await?;
            let outcome = list(&reach, global).await;
            reach.close().await;
            outcome
        }),
        Action::Check { files } => check(global, &files),
        Action::Schema => {
            render::print_json(&manifest::schema());
            Ok(Exit::Ok)
        }
    }
}

async fn list(reach: &Reach, global: &Global) -> Outcome {
    reach.connect(Wanted::Started).await;
    let answer = reach.get("/manifests").await?;
    if global.json {
        render::print_json(&answer);
        return Ok(Exit::Ok);
    }
    let entries = answer["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        render::print("There are no manifests. They stand in tools/ beside the configuration.\n");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NAME", "FOR", "STATE", "TOOL", "WHERE"]);
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let state = match text("state") {
            "set_aside" => Cell::toned("set aside", Tone::Bad),
            "waiting" => Cell::toned("waiting", Tone::Warn),
            "overlay" if entry["replaces"] == true => Cell::toned("replaces", Tone::Warn),
            state => state.into(),
        };
        table.row([
            Cell::toned(text("name"), Tone::Strong),
            entry["persona"].as_str().unwrap_or("everybody").into(),
            state,
            entry["reason"].as_str().unwrap_or(text("tool")).into(),
            render::path(std::path::Path::new(text("origin"))).into(),
        ]);
    }
    render::print(&table.draw(Paint::stdout()));
    Ok(Exit::Ok)
}

fn check(global: &Global, files: &[PathBuf]) -> Outcome {
    // Only the names of variables matter here, so a configuration that cannot be read is no hindrance.
    let variables = match gateway::load(global) {
        Ok((_, loaded)) => loaded.variables,
        Err(_) => Variables::new(std::env::vars().collect()),
    };
    let manifest::Checked { entries, set_aside, findings } = manifest::check_all(files, &variables);
    let entries = entries.len();
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    if global.json {
        let warnings = findings.len() - errors;
        render::print_json(&json!({
            "errors": errors, "warnings": warnings, "findings": findings, "entries": entries, "set_aside": set_aside,
        }));
    } else {
        print(&findings, errors, entries, files.len());
    }
    Ok(if errors > 0 { Exit::Failed } else { Exit::Ok })
}

fn print(findings: &[Finding], errors: usize, entries: usize, files: usize) {
    let paint = Paint::stdout();
    let mut text = String::new();
    for finding in findings {
        text.push_str(&render::finding(&toolbooth_config::render(finding), paint));
        text.push('\n');
    }
    let (sound, files) = (render::count(entries, "sound entry"), render::count(files, "file"));
    let sound = sound.replace("entrys", "entries");
    text.push_str(&match (errors, findings.len() - errors) {
        (0, 0) => format!("All is well: {sound} in {files}.\n"),
        (0, warnings) => format!("{} and {sound} in {files}.\n", render::count(warnings, "warning")),
        (errors, _) => format!("{} and {sound} in {files}.\n", render::count(errors, "error")),
    });
    render::print(&text);
}
