//! A launch that was checked: what the system needs to start the process.

use super::fault::LaunchError;
use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, io};

/// How the reaper of a server is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaper {
    /// An executable that calls [`reaper_main`](super::reaper_main).
    pub program: PathBuf,
    /// The arguments that make it do so; none of them may begin with `--`.
    pub args: Vec<String>,
}

impl Reaper {
    /// This executable, as `reaper`.
    pub fn current_exe() -> Self {
        // On Linux this path refers to the running executable even after an upgrade has replaced its file.
        let program = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => env::current_exe().unwrap_or_else(|_| PathBuf::from("toolbooth")),
        };
        Self { program, args: vec!["reaper".into()] }
    }
}

/// A launch whose command was found and whose values can be passed to a process.
pub(super) struct CheckedLaunch {
    /// The command as it was written, for error messages.
    pub shown: String,
    /// The file to run.
    pub file: PathBuf,
    /// The command's value, used as the process's `argv[0]`.
    pub name: OsString,
    pub args: Vec<OsString>,
    pub folder: PathBuf,
    pub env: Vec<(String, String)>,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux has a reaper"))]
    pub reaper: Reaper,
}

/// Classifies a system error by its remedy.
pub(super) fn refusal(command: String, source: io::Error) -> LaunchError {
    match source.kind() {
        io::ErrorKind::ArgumentListTooLong => LaunchError::TooLong { command },
        _ => LaunchError::Refused { command, source },
    }
}
