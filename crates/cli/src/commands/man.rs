//! `toolbooth man`: manual pages, generated from the definition of the command line.

use crate::exit::Exit;
use crate::failure::{CommandFailure, CommandResult};
use crate::render;
use clap::{Args, Command};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use toolbooth_config::nearest;

/// Arguments of `toolbooth man`.
#[derive(Debug, Args)]
#[command(after_help = "\
For example:
  toolbooth man | man -l -
  toolbooth man call | man -l -
  toolbooth man --dir ~/.local/share/man/man1")]
pub struct ManArguments {
    /// Command to show; without it, the page of the whole program.
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
    /// Write the pages of all commands into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    dir: Option<PathBuf>,
}

/// Runs `toolbooth man`. `program` is the definition of the command line.
pub fn run(arguments: &ManArguments, mut program: Command) -> CommandResult {
    program.build();
    if let Some(folder) = &arguments.dir {
        let written = write_all(&program, "toolbooth", folder).map_err(|error| {
            let message = format!("{} cannot be written: {error}", render::path(folder));
            CommandFailure { exit: Exit::Failed, ..CommandFailure::misuse("usage.file", message, None) }
        })?;
        let pages = render::count(written, "page");
        render::print(&format!("Wrote {pages} into {}.\n", render::path(folder)));
        return Ok(Exit::Ok);
    }
    let (mut command, mut name) = (&program, "toolbooth".to_owned());
    for word in &arguments.words {
        command = command.find_subcommand(word).ok_or_else(|| unknown(command, word))?;
        name = format!("{name}-{}", command.get_name());
    }
    render::print(&page(command, &name));
    Ok(Exit::Ok)
}

fn unknown(command: &Command, word: &str) -> CommandFailure {
    let names: Vec<&str> = shown(command).map(Command::get_name).collect();
    let hint = match nearest(word, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", names.join(", ")),
    };
    let message = format!("there is no command `{}`", render::line(word));
    CommandFailure::misuse("usage.command", message, Some(&hint))
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn page(command: &Command, name: &str) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command.clone().display_name(name.to_owned())).title(name).render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes the pages of a command and its subcommands, and returns their number.
fn write_all(command: &Command, name: &str, folder: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{name}.1")), page(command, name))?;
    let mut written = 1;
    for below in shown(command) {
        written += write_all(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(written)
}
