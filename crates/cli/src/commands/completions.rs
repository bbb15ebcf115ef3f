//! `toolbooth completions SHELL`: what the shell needs to complete command lines.

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::render;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = "For example, in ~/.bashrc: source <(toolbooth completions bash)")]
pub struct CompletionsArguments {
    shell: Shell,
}

/// Runs `toolbooth completions`.
pub fn run(what: &CompletionsArguments) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(what.shell, &mut Arguments::command(), "toolbooth", &mut text);
    render::print(&String::from_utf8_lossy(&text));
    Ok(Exit::Ok)
}
