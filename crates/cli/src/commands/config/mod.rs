//! `toolbooth config`: check, show, explain, import.

mod check;
mod import;

use crate::arguments::Global;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::gateway;
use crate::render;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use toolbooth_config::View;

/// What about the configuration.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print every problem, with its line; exits 1 if there are errors.
    Check {
        /// Files to check alone, instead of all that would be read.
        files: Vec<PathBuf>,
    },
    /// Print the configuration, secrets as ${NAME}.
    Show {
        /// Every value in force, defaults included.
        #[arg(long)]
        resolved: bool,
    },
    /// Tell which file a value comes from, and over which others it won.
    Explain {
        /// Such as exposure.mode or servers.fs.env.TOKEN.
        key: String,
    },
    /// Take servers over from another client; shows what it would do unless --apply is given.
    Import(import::ImportArguments),
    /// Print the JSON Schema of configuration files.
    Schema,
}

/// Runs `toolbooth config`.
pub fn run(global: &Global, what: ConfigArguments) -> Outcome {
    match what.action {
        Action::Check { files } => check::run(global, files),
        Action::Import(what) => import::run(global, &what),
        Action::Schema => {
            render::print_json(&toolbooth_config::schema());
            Ok(Exit::Ok)
        }
        Action::Show { resolved } => {
            let (_, loaded) = gateway::load(global)?;
            let view = if resolved { View::Resolved } else { View::Written };
            render::print_json(&toolbooth_config::show(&loaded, view));
            Ok(Exit::Ok)
        }
        Action::Explain { key } => explain(global, &key),
    }
}

fn explain(global: &Global, key: &str) -> Outcome {
    let (_, loaded) = gateway::load(global)?;
    let explanation = toolbooth_config::explain(&loaded, key);
    let nothing = explanation.notes.iter().find(|note| note.starts_with("there is no "));
    if let (Some(note), true) = (nothing, explanation.value.is_none() && explanation.over.is_empty()) {
        let (what, hint) =
            note.split_once("; ").unwrap_or((note, "`toolbooth config show --resolved` lists every key"));
        return Err(Failure::misuse("config.unknown-key", format!("`{key}`: {what}"), Some(hint)));
    }
    if global.json {
        render::print_json(&explanation);
    } else {
        render::print(&render::plain(&explanation.to_string()));
    }
    Ok(Exit::Ok)
}
