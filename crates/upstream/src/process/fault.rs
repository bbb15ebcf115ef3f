//! Errors of starting a server process.

use std::io;
use std::path::PathBuf;
use toolbooth_core::fault::{Blame, Fault};

/// Why a server process could not be started. Detected before anything runs, if possible.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No folder of the server's `PATH` contains the command, or the given path does not exist.
    #[error("`{command}` was not found")]
    CommandNotFound {
        /// The command as it was written.
        command: String,
        /// The searched folders of `PATH`; empty if the command is a path.
        searched: Vec<PathBuf>,
    },
    /// The file exists but is not executable.
    #[error("`{path}` is not executable", path = path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The command is a script whose interpreter is missing.
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
    /// A value that cannot be passed to a process.
    #[error("{what} contains a character that cannot be passed to a process")]
    Unpassable {
        /// Which value; never the value itself.
        what: String,
    },
    /// The command line and the environment together exceed the system's limit.
    #[error("the arguments and environment of `{command}` exceed the system's limit")]
    TooLong {
        /// The command as it was written.
        command: String,
    },
    /// The gateway's own reaper could not be run.
    #[error("the reaper `{path}` did not start", path = path.display())]
    NoReaper {
        /// The executable.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The system could not create another process or its pipes.
    #[error("the system could not create a process for `{command}`")]
    Refused {
        /// The command as it was written.
        command: String,
        /// The system error.
        source: io::Error,
    },
}

impl LaunchError {
    /// Whether the command or its interpreter does not exist.
    pub fn is_missing_command(&self) -> bool {
        matches!(self, Self::CommandNotFound { .. } | Self::InterpreterNotFound { .. })
    }
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
                "put only the program in `command`, and its arguments as a list in `args`".into()
            }
            Self::CommandNotFound { command, .. } if command.starts_with('~') => {
                "`~` is not expanded here; give the full path, or write `${HOME}`".into()
            }
            Self::CommandNotFound { command, searched }
                if searched.is_empty() && command.starts_with('/') =>
            {
                "check the path in the server's `command`, or install the program there".into()
            }
            Self::CommandNotFound { searched, .. } if searched.is_empty() => {
                "give a full path; a relative path is resolved against the server's `cwd`".into()
            }
            Self::CommandNotFound { command, searched } => {
                let folders: Vec<_> = searched.iter().map(|folder| folder.display().to_string()).collect();
                format!(
                    "install `{command}`, or give its full path in `command`; searched {}",
                    folders.join(":")
                )
            }
            Self::NotExecutable { path } => {
                format!("run `chmod +x {}`, or set `command` to a program that runs it", path.display())
            }
            Self::InterpreterNotFound { interpreter, .. } => {
                format!("install `{interpreter}`, or add its folder to `PATH` in the server's `env`")
            }
            Self::FolderMissing { .. } => "create the folder, or correct `cwd`".into(),
            Self::Unpassable { .. } => {
                "remove the NUL character; a variable's name must also be non-empty and without `=`".into()
            }
            Self::TooLong { .. } => "pass large values in a file and give its path".into(),
            Self::NoReaper { .. } => "reinstall toolbooth, or check that its file may be run".into(),
            Self::Refused { .. } => {
                "check the limits on processes and open files (`ulimit -u`, `ulimit -n`) and the free memory"
                    .into()
            }
        })
    }
}
