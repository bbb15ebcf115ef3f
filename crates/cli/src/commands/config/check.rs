//! `toolbooth config check`: prints all errors and warnings of the configuration.

use crate::commands::trust;
use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::render::{self, Paint};
use serde_json::json;
use std::path::PathBuf;
use toolbooth_config::{FileDiscovery, Finding, LoadedConfig};

/// Checks the files that a gateway would load, or only the named files.
pub fn run(global: &GlobalOptions, files: Vec<PathBuf>) -> CommandResult {
    let mut sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    if !files.is_empty() {
        sources.discovery = FileDiscovery::NamedOnly;
        sources.config_files.extend(files);
    }
    let (findings, files, loaded) = match toolbooth_config::load_with_trust(&mut sources) {
        Ok(loaded) => (loaded.findings.clone(), loaded.files.clone(), Some(loaded)),
        Err(failure) if failure.is_misuse() => return Err(CommandFailure::config(&failure)),
        Err(failure) => (failure.findings, failure.files, None),
    };
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    let waiting = loaded.as_ref().map(trust::pending).unwrap_or_default();
    let waiting: Vec<&str> = waiting.iter().filter_map(|one| one.name).collect();
    let read: Vec<&PathBuf> = files.iter().filter(|file| file.is_file()).collect();
    if global.json {
        let servers = loaded.as_ref().map_or(0, |loaded| loaded.servers.len());
        render::print_json(&json!({
            "errors": errors, "warnings": warnings, "findings": findings, "files": read, "servers": servers,
            "needs_trust": waiting,
        }));
    } else {
        print(&findings, &read, loaded.as_ref());
        if !waiting.is_empty() {
            let verb = if waiting.len() == 1 { "needs" } else { "need" };
            let count = render::count(waiting.len(), "server");
            render::print(&format!("{count} {verb} `toolbooth trust`: {}\n", waiting.join(", ")));
        }
    }
    Ok(if errors > 0 { Exit::Failed } else { Exit::Ok })
}

fn print(findings: &[Finding], read: &[&PathBuf], loaded: Option<&LoadedConfig>) {
    let paint = Paint::stdout();
    let mut text = String::new();
    for finding in findings {
        text.push_str(&render::finding(&toolbooth_config::render(finding), paint));
        text.push('\n');
    }
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let files = render::count(read.len(), "file");
    let servers = loaded.map_or(0, |loaded| loaded.servers.len());
    text.push_str(&match (errors, findings.len() - errors) {
        (0, 0) if read.is_empty() => {
            "No configuration file was found: the bundled servers and the defaults apply.\n".to_owned()
        }
        (0, 0) if servers == 0 => format!("No problems in {files}.\n"),
        (0, 0) => format!("No problems: {} in {files}.\n", render::count(servers, "server")),
        (0, warnings) => format!("{} in {files}.\n", render::count(warnings, "warning")),
        (errors, 0) => format!("{} in {files}.\n", render::count(errors, "error")),
        (errors, warnings) => {
            format!(
                "{} and {} in {files}.\n",
                render::count(errors, "error"),
                render::count(warnings, "warning")
            )
        }
    });
    if findings.is_empty() {
        for file in read {
            text.push_str(&format!("  {}\n", render::path(file)));
        }
    }
    render::print(&text);
}
