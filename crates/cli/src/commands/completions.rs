//! `toolbooth completions SHELL`: the completion script of a shell.

use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::render;
use clap::{Args, Command};
use clap_complete::Shell;

/// Arguments of `toolbooth completions`.
#[derive(Debug, Args)]
#[command(after_help = "For example, in ~/.bashrc: source <(toolbooth completions bash)")]
pub struct CompletionsArguments {
    shell: Shell,
}

/// Runs `toolbooth completions`. `program` is the definition of the command line.
pub fn run(arguments: &CompletionsArguments, mut program: Command) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "toolbooth", &mut text);
    render::print(&String::from_utf8_lossy(&text));
    Ok(Exit::Ok)
}
