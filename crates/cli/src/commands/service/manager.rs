//! The service managers of the supported systems: systemd and launchd.

use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;
use toolbooth_config::Sources;

/// The name of the systemd unit.
const UNIT: &str = "toolbooth.service";
/// The label of the launchd service.
pub(super) const LABEL: &str = "dev.toolbooth.gateway";
/// How long a command of the service manager may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of characters of its error text that are shown.
const MAX_ERROR_CHARS: usize = 300;

/// The program that starts services of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceManager {
    /// systemd, with a unit of the user.
    Systemd,
    /// launchd, with an agent of the user.
    Launchd,
}

impl ServiceManager {
    /// The manager of this system.
    pub fn of_platform() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }

    /// The file of the service; `None` without a home folder.
    pub fn file(self, sources: &Sources) -> Option<PathBuf> {
        match self {
            Self::Systemd => {
                let base = sources
                    .xdg_config_home
                    .clone()
                    .or_else(|| Some(sources.home.as_ref()?.join(".config")))?;
                Some(base.join("systemd/user").join(UNIT))
            }
            Self::Launchd => {
                Some(sources.home.as_ref()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist")))
            }
        }
    }

    /// The commands that start the service now and at every login.
    pub fn start_commands(self, file: &Path) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", UNIT]),
            ],
            Self::Launchd => {
                vec![words(&["launchctl", "bootstrap", &domain(), &file.display().to_string()])]
            }
        }
    }

    /// The commands that stop the service and keep it from starting again.
    pub fn stop_commands(self) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![words(&["systemctl", "--user", "disable", "--now", UNIT])],
            Self::Launchd => vec![words(&["launchctl", "bootout", &format!("{}/{LABEL}", domain())])],
        }
    }

    /// The commands to run after the file was removed.
    pub fn after_removal(self) -> Vec<Vec<String>> {
        match self {
            Self::Systemd => vec![words(&["systemctl", "--user", "daemon-reload"])],
            Self::Launchd => Vec::new(),
        }
    }

    /// A note for users of a new service.
    pub fn after_install(self) -> &'static str {
        match self {
            Self::Systemd => "`loginctl enable-linger` keeps it running while you are logged out.\n",
            Self::Launchd => "",
        }
    }

    /// Where the output of a service that failed is.
    pub fn logs_hint(self) -> &'static str {
        match self {
            Self::Systemd => "Its log: journalctl --user -u toolbooth\n",
            Self::Launchd => "",
        }
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The launchd domain of this user's session.
fn domain() -> String {
    format!("gui/{}", nix::unistd::getuid())
}

/// Runs a command of the service manager. The error says why it failed.
pub(super) async fn run_command(words: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let output = match tokio::time::timeout(COMMAND_TIMEOUT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("`{program}` was not found"));
        }
        Ok(Err(error)) => return Err(format!("`{program}` cannot be started: {error}")),
        Err(_) => return Err(format!("`{program}` did not end within {} s", COMMAND_TIMEOUT.as_secs())),
    };
    if output.status.success() {
        return Ok(());
    }
    let said: String = String::from_utf8_lossy(&output.stderr).chars().take(MAX_ERROR_CHARS).collect();
    Err(format!("`{}` failed: {}", words.join(" "), said.trim()))
}
