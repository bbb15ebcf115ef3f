//! Why a server process could not be started.

use std::io;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};

/// Why a server process could not be started; found before anything runs wherever that is possible.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No folder of the server's `PATH` holds the command, or the path given does not exist.
    #[error("`{command}` was not found")]
    CommandNotFound {
        /// The command as it was written.
        command: String,
        /// Where it was looked for: the folders of `PATH`; empty for a command with a path of its own.
        searched: Vec<PathBuf>,
    },
    /// The file is there and may not be run.
    #[error("`{path}` is not executable", path = path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The command is a script for a program that is missing.
    #[error("`{command}` is a script for `{interpreter}`, which was not found")]
    InterpreterNotFound {
        /// The command as it was written.
        command: String,
        /// The program named on the script's first line.
        interpreter: String,
    },
    /// The working folder is missing or is not a folder.
    #[error("the working folder `{path}` does not exist", path = path.display())]
    FolderMissing {
        /// The folder.
        path: PathBuf,
    },
    /// A value that no process can be given.
    #[error("{what} holds a character that no process can be given")]
    Unpassable {
        /// What it is: never its value.
        what: String,
    },
    /// The command line and the environment together are longer than the system allows.
    #[error("the arguments and environment of `{command}` are longer than the system allows")]
    TooLong {
        /// The command as it was written.
        command: String,
    },
    /// The gateway's own reaper could not be run.
    #[error("the reaper `{path}` did not start", path = path.display())]
    NoReaper {
        /// The executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system had no room for another process or its pipes.
    #[error("the system refused a process for `{command}`")]
    Refused {
        /// The command as it was written.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Fault for LaunchError {
    fn code(&self) -> &'static str {
        match self {
            Self::CommandNotFound { .. } => "server.command-not-found",
            Self::NotExecutable { .. } => "server.not-executable",
            Self::InterpreterNotFound { .. } => "server.interpreter-not-found",
            Self::FolderMissing { .. } => "server.folder-missing",
            Self::Unpassable { .. } => "server.unpassable-value",
            Self::TooLong { .. } => "server.command-line-too-long",
            Self::NoReaper { .. } => "server.no-reaper",
            Self::Refused { .. } => "server.process-refused",
        }
    }

    fn blame(&self) -> Blame {
        Blame::Gateway
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::CommandNotFound { command, .. } if command.trim().contains(' ') => {
                "write the program alone in `command` and the rest as a list in `args`".into()
            }
            Self::CommandNotFound { command, .. } if command.starts_with('~') => {
                "`~` is not expanded here; give the full path, or write `${HOME}`".into()
            }
            Self::CommandNotFound { searched, .. } if searched.is_empty() => {
                "give a full path; a relative one counts from the server's `cwd`".into()
            }
            Self::CommandNotFound { command, searched } => {
                let folders: Vec<_> = searched.iter().map(|folder| folder.display().to_string()).collect();
                format!(
                    "install `{command}`, or give its full path in `command`; looked in {}",
                    folders.join(":")
                )
            }
            Self::NotExecutable { path } => {
                format!("allow it with `chmod +x {}`, or name a program that runs it", path.display())
            }
            Self::InterpreterNotFound { interpreter, .. } => {
                format!("install `{interpreter}`, or add its folder to `PATH` in the server's `env`")
            }
            Self::FolderMissing { .. } => "create the folder, or correct `cwd`".into(),
            Self::Unpassable { .. } => {
                "remove the zero character; a variable's name must also be without `=` and not empty".into()
            }
            Self::TooLong { .. } => "pass large values in a file and give its path".into(),
            Self::NoReaper { .. } => "reinstall toolbooth, or check that its file may be run".into(),
            Self::Refused { .. } => {
                "look at the limits on processes and open files (`ulimit -u`, `ulimit -n`) and at free memory"
                    .into()
            }
        })
    }
}
