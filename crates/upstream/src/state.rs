//! Server states.

use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::fault::Problem;

/// The fault codes of a command or interpreter that does not exist.
pub(crate) const MISSING_COMMAND_CODES: [&str; 2] =
    ["server.command-not-found", "server.interpreter-not-found"];

/// The state of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    /// Disabled in the configuration.
    Disabled,
    /// The configuration entry is invalid.
    ConfigError(Problem),
    /// The entry comes from a project that has not been trusted yet.
    NeedsTrust,
    /// Not connected, and not requested.
    Disconnected,
    /// Connecting.
    Connecting,
    /// Handshake and listing are done.
    Connected,
    /// The connection failed and will be retried.
    Error {
        /// Why it failed.
        problem: Problem,
        /// The time of the next attempt.
        next_retry_at: Option<Instant>,
    },
    /// The server requires credentials.
    NeedsAuth(Problem),
}

impl ServerState {
    /// The state's name in all APIs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::ConfigError(_) => "config_error",
            Self::NeedsTrust => "needs_trust",
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Error { .. } => "error",
            Self::NeedsAuth(_) => "needs_auth",
        }
    }

    /// The problem, if there is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::ConfigError(problem) | Self::NeedsAuth(problem) | Self::Error { problem, .. } => {
                Some(problem)
            }
            _ => None,
        }
    }

    /// Whether the server is down because its command does not exist.
    pub fn is_missing_command(&self) -> bool {
        self.problem().is_some_and(|problem| MISSING_COMMAND_CODES.contains(&problem.code))
    }

    /// Time until the next attempt.
    pub fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Error { next_retry_at: Some(at), .. } => Some(at.saturating_duration_since(Instant::now())),
            _ => None,
        }
    }
}

/// A server's state as the APIs show it.
#[derive(Debug, Clone)]
pub struct StateReport {
    /// The state's name.
    pub state: &'static str,
    /// The reason, if something is wrong.
    pub reason: Option<String>,
    /// The fault code.
    pub code: Option<&'static str>,
    /// A hint how to fix it.
    pub hint: Option<String>,
    /// Seconds until the next attempt.
    pub retry_in_seconds: Option<u64>,
}

impl From<&ServerState> for StateReport {
    fn from(state: &ServerState) -> Self {
        let problem = state.problem();
        Self {
            state: state.as_str(),
            reason: problem.map(|problem| problem.message.clone()),
            code: problem.map(|problem| problem.code),
            hint: problem.and_then(|problem| problem.hint.clone()),
            retry_in_seconds: state.retry_in().map(|wait| wait.as_secs()),
        }
    }
}
