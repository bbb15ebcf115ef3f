//! `toolbooth manifest`: lists and checks tool manifests.

use super::{on_gateway, print_entries};
use crate::embedded_gateway::ServerSelection;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::gateway;
use crate::gateway_handle::GatewayHandle;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint, Table, TableCell, Tone};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use toolbooth_config::expand::Variables;
use toolbooth_config::{Finding, manifest};

/// Arguments of `toolbooth manifest`.
#[derive(Debug, Args)]
pub struct ManifestArguments {
    #[command(subcommand)]
    action: Option<ManifestAction>,
}

#[derive(Debug, Subcommand)]
enum ManifestAction {
    /// List all entries with their state (the default).
    List,
    /// Check files and print all errors with their lines; exits with 1 if there are errors.
    Check {
        /// JSON, YAML or TOML files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the JSON Schema of manifests.
    Schema,
}

/// Runs `toolbooth manifest`.
pub fn run(global: &GlobalOptions, arguments: ManifestArguments) -> CommandResult {
    match arguments.action.unwrap_or(ManifestAction::List) {
        ManifestAction::List => {
            on_gateway(GatewayHandle::open(global), async |gateway| list(gateway, global).await)
        }
        ManifestAction::Check { files } => check(global, &files),
        ManifestAction::Schema => {
            render::print_json(&manifest::schema());
            Ok(Exit::Ok)
        }
    }
}

async fn list(gateway: &GatewayHandle, global: &GlobalOptions) -> CommandResult {
    gateway.connect(ServerSelection::AutoConnected).await;
    let answer = gateway.get("/manifests").await?;
    let if_empty = "There are no manifests. They belong in the folder tools/ beside the configuration.\n";
    print_entries(global, &answer, "entries", if_empty, table);
    Ok(Exit::Ok)
}

/// A table of manifest entries.
fn table(entries: &[Value]) -> String {
    let mut table = Table::new(&["NAME", "FOR", "STATE", "TOOL", "WHERE"]);
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let state = match text("state") {
            "set_aside" => TableCell::toned("set aside", Tone::Bad),
            "waiting" => TableCell::toned("waiting", Tone::Warn),
            "overlay" if entry["replaces"] == true => TableCell::toned("replaces", Tone::Warn),
            state => state.into(),
        };
        table.row([
            TableCell::toned(text("name"), Tone::Strong),
            entry["persona"].as_str().unwrap_or("all").into(),
            state,
            entry["reason"].as_str().unwrap_or(text("tool")).into(),
            render::path(std::path::Path::new(text("origin"))).into(),
        ]);
    }
    table.draw(Paint::stdout())
}

fn check(global: &GlobalOptions, files: &[PathBuf]) -> CommandResult {
    // Only the names of variables matter here, so an invalid configuration is not an error.
    let variables = match gateway::load(global) {
        Ok((_, loaded)) => loaded.variables,
        Err(_) => Variables::new(std::env::vars().collect()),
    };
    let checked = manifest::check_all(files, &variables);
    let manifest::CheckedManifests { entries, workflows, set_aside, findings } = checked;
    let entries = entries.len() + workflows;
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
    let (valid, files) = (render::count(entries, "valid entry"), render::count(files, "file"));
    let valid = valid.replace("entrys", "entries");
    text.push_str(&match (errors, findings.len() - errors) {
        (0, 0) => format!("No problems: {valid} in {files}.\n"),
        (0, warnings) => format!("{} and {valid} in {files}.\n", render::count(warnings, "warning")),
        (errors, _) => format!("{} and {valid} in {files}.\n", render::count(errors, "error")),
    });
    render::print(&text);
}
