//! `toolbooth config`: checks, shows, explains and imports configuration.

mod check;
mod import;

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::gateway;
use crate::global_options::GlobalOptions;
use crate::render;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use toolbooth_config::ShowMode;

/// Arguments of `toolbooth config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Print all errors and warnings with their lines; exits with 1 if there are errors.
    Check {
        /// Check only these files.
        files: Vec<PathBuf>,
    },
    /// Print the configuration, with secrets as ${NAME}.
    Show {
        /// Print all values in force, including defaults.
        #[arg(long)]
        resolved: bool,
    },
    /// Show which file sets a value, and which other files it overrides.
    Explain {
        /// Key such as exposure.mode or servers.fs.env.TOKEN.
        key: String,
    },
    /// Import servers from another client; without --apply, only shows the changes.
    Import(import::ImportArguments),
    /// Print the JSON Schema of configuration files.
    Schema,
}

/// Runs `toolbooth config`.
pub fn run(global: &GlobalOptions, arguments: ConfigArguments) -> CommandResult {
    match arguments.action {
        ConfigAction::Check { files } => check::run(global, files),
        ConfigAction::Import(arguments) => import::run(global, &arguments),
        ConfigAction::Schema => {
            render::print_json(&toolbooth_config::schema());
            Ok(Exit::Ok)
        }
        ConfigAction::Show { resolved } => {
            let (_, loaded) = gateway::load(global)?;
            let view = if resolved { ShowMode::Resolved } else { ShowMode::Written };
            render::print_json(&toolbooth_config::show(&loaded, view));
            Ok(Exit::Ok)
        }
        ConfigAction::Explain { key } => explain(global, &key),
    }
}

fn explain(global: &GlobalOptions, key: &str) -> CommandResult {
    let (_, loaded) = gateway::load(global)?;
    let explanation = toolbooth_config::explain(&loaded, key);
    let nothing = explanation.notes.iter().find(|note| note.starts_with("there is no "));
    if let (Some(note), true) = (nothing, explanation.value.is_none() && explanation.over.is_empty()) {
        let (problem, hint) =
            note.split_once("; ").unwrap_or((note, "`toolbooth config show --resolved` lists every key"));
        return Err(CommandFailure::misuse("config.unknown-key", format!("`{key}`: {problem}"), Some(hint)));
    }
    if global.json {
        render::print_json(&explanation);
    } else {
        render::print(&render::plain(&explanation.to_string()));
    }
    Ok(Exit::Ok)
}
