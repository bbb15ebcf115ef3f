//! The parameters for starting a server process, checked before anything runs.

use super::checked_launch::{CheckedLaunch, Reaper};
use super::fault::LaunchError;
use super::platform;
use super::resolve::CommandSearch;
use super::running::ServerProcess;
use std::path::PathBuf;
use std::{env, io};
use tokio::sync::Semaphore;
use toolbooth_core::secret::SecretText;

/// A server process to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a name looked up in the `PATH` of `env`, or a path.
    pub command: SecretText,
    /// Its arguments.
    pub args: Vec<SecretText>,
    /// The working folder; defaults to the gateway's.
    pub cwd: Option<PathBuf>,
    /// The complete environment, see [`clean_environment`](super::clean_environment).
    pub env: Vec<(String, SecretText)>,
    /// How its reaper is run.
    pub reaper: Reaper,
}

/// Limits how many processes are started concurrently. More would only wait for each other in the kernel.
static STARTING: Semaphore = Semaphore::const_new(2);

impl Launch {
    /// Starts the process on a blocking thread: forking takes milliseconds, and calls must not wait for it.
    /// If the caller drops the future, the process is ended.
    pub async fn begin(self) -> Result<ServerProcess, LaunchError> {
        let command = self.command.shown().to_owned();
        let refused = |source| LaunchError::Refused { command, source };
        let turn = match STARTING.acquire().await {
            Ok(turn) => turn,
            Err(closed) => return Err(refused(io::Error::other(closed))),
        };
        let start = move || {
            let _turn = turn;
            self.spawn()
        };
        match tokio::task::spawn_blocking(start).await {
            Ok(started) => started,
            Err(lost) => Err(refused(io::Error::other(lost))),
        }
    }

    /// Whether the command exists now. Starts nothing.
    pub fn finds_command(self) -> bool {
        let missing = self.check().err();
        !missing.is_some_and(|error| error.is_missing_command())
    }

    /// Starts the process. Must be called within a tokio runtime.
    pub fn spawn(self) -> Result<ServerProcess, LaunchError> {
        platform::start(self.check()?)
    }

    fn check(self) -> Result<CheckedLaunch, LaunchError> {
        let Self { command, args, cwd, env, reaper } = self;
        check_values(&command, &args, &env)?;
        let folder = working_folder(cwd, &command)?;
        let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.expose());
        let file = CommandSearch { folder: &folder, path }.find(&command)?;
        Ok(CheckedLaunch {
            shown: command.shown().into(),
            file,
            name: command.expose().into(),
            args: args.iter().map(|arg| arg.expose().into()).collect(),
            folder,
            env: env.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect(),
            reaper,
        })
    }
}

fn working_folder(cwd: Option<PathBuf>, command: &SecretText) -> Result<PathBuf, LaunchError> {
    let here = env::current_dir();
    let folder = match (cwd, here) {
        (Some(folder), _) if folder.is_absolute() => folder,
        (Some(folder), Ok(here)) => here.join(folder),
        (None, Ok(here)) => here,
        (_, Err(source)) => return Err(LaunchError::Refused { command: command.shown().into(), source }),
    };
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(LaunchError::FolderMissing { path: folder }),
    }
}

fn check_values(
    command: &SecretText,
    args: &[SecretText],
    env: &[(String, SecretText)],
) -> Result<(), LaunchError> {
    let unpassable = |what: String| Err(LaunchError::Unpassable { what });
    if command.expose().contains('\0') {
        return unpassable("`command`".into());
    }
    if let Some(index) = args.iter().position(|arg| arg.expose().contains('\0')) {
        return unpassable(format!("argument {}", index + 1));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return unpassable("the name of a variable in `env`".into());
        }
        if value.expose().contains('\0') {
            return unpassable(format!("the variable `{name}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use toolbooth_core::fault::Fault;

    fn launch() -> Launch {
        Launch {
            command: SecretText::plain("sh"),
            args: Vec::new(),
            cwd: None,
            env: vec![("PATH".into(), SecretText::plain("/usr/bin:/bin"))],
            reaper: Reaper::current_exe(),
        }
    }

    #[test]
    fn values_that_cannot_be_passed_are_refused_and_not_shown() {
        let secret = || SecretText::expanded("${KEY}", "hun\0ter2");
        let cases = [
            Launch { command: secret(), ..launch() },
            Launch { args: vec![secret()], ..launch() },
            Launch { env: vec![("KEY".into(), secret())], ..launch() },
            Launch { env: vec![("A=B".into(), SecretText::plain(""))], ..launch() },
        ];
        for case in cases {
            let error = case.check().err().unwrap();
            assert_eq!(error.code(), "server.unpassable-value");
            assert!(!error.to_string().contains("ter2"));
        }
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = Launch { cwd: Some("/no/such/folder".into()), ..launch() }.check().err().unwrap();
        assert_eq!(error.to_string(), "the working folder `/no/such/folder` does not exist");
    }
}
