//! The states of a server.

use serde::Serialize;
use std::time::{Duration, SystemTime};
use toolbooth_core::fault::Problem;

/// Where a server stands.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerState {
    /// Switched off in the configuration.
    Disabled,
    /// Its entry is wrong.
    ConfigError(Problem),
    /// Its entry came with a project and nobody has said yes yet.
    NeedsTrust,
    /// Nobody has asked for it.
    Disconnected,
    /// On its way.
    Connecting,
    /// Handshake and lists done.
    Connected,
    /// It failed, and will be tried again.
    Error {
        /// Why.
        problem: Problem,
        /// When it is tried again.
        next_retry_at: Option<SystemTime>,
    },
    /// It wants credentials.
    NeedsAuth(Problem),
}

impl ServerState {
    /// The word used on every door.
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

    /// What is wrong, if anything is.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::ConfigError(problem) | Self::NeedsAuth(problem) | Self::Error { problem, .. } => {
                Some(problem)
            }
            _ => None,
        }
    }

    /// How long until the next try.
    pub fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Error { next_retry_at: Some(at), .. } => {
                Some(at.duration_since(SystemTime::now()).unwrap_or_default())
            }
            _ => None,
        }
    }
}

/// A server's state as doors show it.
#[derive(Debug, Clone, Serialize)]
pub struct StateReport {
    /// The state's word.
    pub state: &'static str,
    /// Why, if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The fault's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Seconds until the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
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
