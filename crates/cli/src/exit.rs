//! Exit codes: the same meaning in every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It worked.
    Ok,
    /// The thing asked for failed.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// Policy said no.
    Refused,
    /// A person must decide first.
    Held,
    /// The gateway that was named cannot be reached.
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Held => 4,
            Exit::Unreachable => 5,
        })
    }
}
