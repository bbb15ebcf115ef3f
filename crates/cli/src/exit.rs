//! Exit codes, with the same meaning for every command.

use std::process::ExitCode;

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Ok,
    /// The command failed.
    Failed,
    /// The command line or the configuration is not valid.
    Usage,
    /// A policy or a person refused the request, or the gateway did not accept the credential.
    Refused,
    /// The call is held for approval.
    Held,
    /// The gateway is not running, cannot be reached, or is not a gateway.
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
