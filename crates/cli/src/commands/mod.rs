//! The commands, one file a noun.

mod serve;
mod stdio;

use crate::arguments::{Arguments, Command};
use crate::exit::Exit;
use crate::render;
use std::process::ExitCode;
use toolbooth_core::fault::Problem;

/// Runs a command.
pub fn run(arguments: Arguments) -> ExitCode {
    let Arguments { global, command } = arguments;
    let outcome = match command {
        Command::Serve(how) => serve::run(&global, &how),
        Command::Stdio => stdio::run(&global),
        Command::DemoServer { name } => return crate::demo::run(&name),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(Failure { exit, problem }) => {
            eprint!("{}", render::problem(&problem));
            exit.into()
        }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub problem: Problem,
}

impl Failure {
    /// The command line or the configuration is wrong.
    pub fn usage(problem: Problem) -> Self {
        Self { exit: Exit::Usage, problem }
    }

    /// The thing itself failed.
    pub fn failed(problem: Problem) -> Self {
        Self { exit: Exit::Failed, problem }
    }
}

/// What a command gives back.
pub type Outcome = Result<Exit, Failure>;
