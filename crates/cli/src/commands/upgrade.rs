//! `toolbooth upgrade`: says how this program was installed, and which command upgrades it.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::install_method::InstallMethod;
use crate::render::{self, Paint, Tone};
use serde_json::json;
use std::path::PathBuf;

/// Runs `toolbooth upgrade`.
pub fn run(global: &GlobalOptions) -> CommandResult {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("toolbooth"));
    let program = program.canonicalize().unwrap_or(program);
    let method = InstallMethod::of_running(&program);
    let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
    let running = GatewayRecord::find(&gateway::data_dir(&sources));
    let version = env!("CARGO_PKG_VERSION");
    let (command, file_command) = (method.command(&program), method.file_command());
    if global.json {
        render::print_json(&json!({
            "version": version,
            "program": program,
            "installed": method.word(),
            "command": command,
            "file_command": file_command,
            "running_version": running.map(|record| record.version),
        }));
        return Ok(Exit::Ok);
    }
    let mut text = format!(
        "Toolbooth {version}: {}\nIt was installed {}. To upgrade it:\n\n  {}\n",
        render::path(&program),
        method.sentence(),
        Paint::stdout().tone(Tone::Strong, &render::line(&command)),
    );
    if let Some(command) = file_command {
        let command = Paint::stdout().tone(Tone::Strong, &render::line(&command));
        text.push_str(&format!("\nIf it was installed from a downloaded package:\n\n  {command}\n"));
    }
    if let Some(record) = running {
        let (pid, running) = (record.pid, render::line(&record.version));
        let said = format!(
            "A gateway of version {running} is running (process {pid}). Afterwards run `toolbooth stop` and \
             `toolbooth start`."
        );
        text.push_str(&format!("\n{}\n", render::wrap(&said, 0)));
    }
    render::print(&text);
    Ok(Exit::Ok)
}
