//! What can go wrong between the gateway and a server.

use crate::link::{MAX_QUESTIONS, MAX_TIME_ASKED};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::secret::KnownSecrets;

/// Whether a server may have seen the request that failed. Decides whether a retry is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Nothing left the gateway.
    No,
    /// The server may have acted on it.
    Maybe,
}

/// What would make a server take the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Somebody signs in.
    SignIn,
    /// Another configuration.
    Configure,
}

/// What a server does before it is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It says who it is.
    Handshake,
    /// It says what it offers.
    Listing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "finish the handshake",
            Self::Listing => "list what it offers",
        })
    }
}

/// A server could not be asked, or did not answer as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The server could not be reached.
    #[error("server `{server}` cannot be reached: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// Why, in our words.
        reason: String,
    },
    /// The server is not connected now.
    #[error("server `{server}` is not connected ({state}): {reason}")]
    NotConnected {
        /// The server.
        server: String,
        /// Its state.
        state: &'static str,
        /// Why.
        reason: String,
        /// When the next try comes, from now.
        retry_in: Option<Duration>,
    },
    /// The connection broke while a request was under way.
    #[error("server `{server}` went away during the call: {reason}")]
    Lost {
        /// The server.
        server: String,
        /// Why.
        reason: String,
        /// Whether the server may have seen the request.
        sent: Sent,
    },
    /// The server went away before it was connected.
    #[error("server `{server}` failed during start-up: {reason}")]
    StartFailed {
        /// The server.
        server: String,
        /// Why, in our words.
        reason: String,
    },
    /// The server was not connected in time.
    #[error("server `{server}` did not {stage} within {} s", after.as_secs_f64())]
    StartTimeout {
        /// The server.
        server: String,
        /// How far it did not come.
        stage: Stage,
        /// How long it was given.
        after: Duration,
    },
    /// No answer in time.
    #[error("server `{server}` did not answer within {} ms", after.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// How long it was given.
        after: Duration,
    },
    /// An answer over the limit.
    #[error("server `{server}` sent an answer over the limit of {limit} bytes")]
    TooLarge {
        /// The server.
        server: String,
        /// The limit.
        limit: usize,
    },
    /// Something that is no answer.
    #[error("server `{server}` answered with something that is no MCP message: {what}")]
    BadAnswer {
        /// The server.
        server: String,
        /// What was wrong with it.
        what: String,
    },
    /// The server wants credentials that the gateway does not have.
    #[error("server `{server}` wants authorisation")]
    NeedsAuth {
        /// The server.
        server: String,
        /// What it said in `WWW-Authenticate`.
        challenge: Option<String>,
        /// 401 or 403.
        status: u16,
        /// What would help.
        remedy: Remedy,
    },
    /// The server has forgotten our session.
    #[error("server `{server}` ended the session")]
    SessionExpired {
        /// The server.
        server: String,
    },
    /// The server takes no more requests now.
    #[error("server `{server}` is busy: its queue is full")]
    Busy {
        /// The server.
        server: String,
    },
    /// The caller has used up its share of the server's connections.
    #[error("server `{server}` is busy for you: you have {share} connections to it, which is your share")]
    ShareUsed {
        /// The server.
        server: String,
        /// How many connections one user may have.
        share: usize,
    },
    /// The server sent more requests than the gateway answers, and was disconnected.
    #[error("server `{server}` was disconnected: {reason}")]
    Flooded {
        /// The server.
        server: String,
        /// Which bound it broke.
        reason: String,
    },
    /// The server asked its client more, or for longer, than one call may.
    #[error(
        "server `{server}` asked too much during one call: over {} questions, or for over {} minutes",
        MAX_QUESTIONS,
        MAX_TIME_ASKED.as_secs() / 60
    )]
    AskedTooMuch {
        /// The server.
        server: String,
    },
    /// The server could not be started.
    #[error("{0}")]
    NotStarted(Box<toolbooth_core::fault::Problem>),
}

impl UpstreamError {
    /// The same, when it happened before the server was connected: no call was under way then.
    #[must_use]
    pub(crate) fn at_start(self) -> Self {
        match self {
            Self::Lost { server, reason, .. } => Self::StartFailed { server, reason },
            other => other,
        }
    }

    /// The same, with the server's own secrets masked in whatever it said.
    #[must_use]
    pub(crate) fn masked(mut self, secrets: &KnownSecrets) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let text = match &mut self {
            Self::Unreachable { reason, .. }
            | Self::NotConnected { reason, .. }
            | Self::Lost { reason, .. }
            | Self::StartFailed { reason, .. }
            | Self::Flooded { reason, .. } => Some(reason),
            Self::BadAnswer { what, .. } => Some(what),
            Self::NeedsAuth { challenge, .. } => challenge.as_mut(),
            _ => None,
        };
        if let Some(text) = text
            && let Cow::Owned(masked) = secrets.mask(text)
        {
            *text = masked;
        }
        self
    }

    /// Whether the server may have seen the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Unreachable { .. }
            | Self::NotConnected { .. }
            | Self::StartFailed { .. }
            | Self::StartTimeout { .. }
            | Self::NeedsAuth { .. }
            | Self::SessionExpired { .. }
            | Self::Busy { .. }
            | Self::ShareUsed { .. }
            | Self::NotStarted(_) => Sent::No,
            Self::Lost { sent, .. } => *sent,
            Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::BadAnswer { .. }
            | Self::Flooded { .. }
            | Self::AskedTooMuch { .. } => Sent::Maybe,
        }
    }
}

/// How sentences about a process begin.
const OF_PROCESS: &str = "its process";

/// What a server sent that is meant for a browser.
pub(crate) const HTML_PAGE: &str = "an HTML page";

/// What an HTTP status tells whoever wrote the address down.
fn http_hint(what: &str) -> Option<&'static str> {
    // The first status named is the server's; what follows may be its own words.
    let (_, rest) = what.split_once("HTTP ")?;
    let status: u16 = rest.get(..3)?.parse().ok()?;
    Some(match status {
        401 | 403 => "it does not take the gateway's credential: look at `auth` and `headers` of the server",
        404 | 405 => "nothing there takes MCP messages: check the path of `url`, which is often `/mcp`",
        300..=399 => "redirects are not followed: put the address it names into `url`",
        _ if rest.contains(HTML_PAGE) => {
            "that is no MCP endpoint: check the path of `url`, which is often `/mcp`"
        }
        _ => return None,
    })
}

impl Fault for UpstreamError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "server.unreachable",
            Self::NotConnected { .. } => "server.not-connected",
            Self::Lost { .. } => "server.lost",
            Self::StartFailed { .. } => "server.start-failed",
            Self::StartTimeout { .. } => "server.start-timeout",
            Self::Timeout { .. } => "call.timeout",
            Self::TooLarge { .. } => "server.answer-too-large",
            Self::BadAnswer { .. } => "server.bad-answer",
            Self::NeedsAuth { .. } => "server.needs-auth",
            Self::SessionExpired { .. } => "server.session-expired",
            Self::Busy { .. } | Self::ShareUsed { .. } => "server.busy",
            Self::Flooded { .. } => "server.flood",
            Self::AskedTooMuch { .. } => "server.asked-too-much",
            Self::NotStarted(problem) => problem.code,
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::NotStarted(problem) => problem.blame,
            Self::ShareUsed { .. } => Blame::Caller,
            _ => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("check that the server runs and that its `url` is right".into()),
            Self::NotConnected { retry_in: Some(wait), .. } => {
                Some(format!("the gateway tries again in {} s", wait.as_secs().max(1)))
            }
            Self::NotConnected { server, state: "needs_auth", .. } => {
                Some(format!("`toolbooth servers show {server}` says how to sign in"))
            }
            Self::NotConnected { .. } => Some("`toolbooth servers connect NAME` connects it".into()),
            Self::Lost { sent: Sent::Maybe, .. } => {
                Some("the server may have acted on the call: check before you repeat it".into())
            }
            Self::StartFailed { server, reason } => Some(match reason.starts_with(OF_PROCESS) {
                true => format!("`toolbooth servers logs {server}` shows what it said"),
                false => "the log of the server itself may tell why; the gateway tries again".into(),
            }),
            Self::BadAnswer { what, .. } => http_hint(what).map(str::to_owned),
            Self::StartTimeout { .. } => {
                Some("raise `connect_timeout` of the server if it needs longer".into())
            }
            Self::Timeout { .. } => {
                Some("raise `timeout` of the server, or `default_timeout` of the tool".into())
            }
            Self::TooLarge { .. } => Some("ask for less, or raise `limits.upstream_bytes`".into()),
            Self::NeedsAuth { server, remedy: Remedy::SignIn, .. } => {
                Some(format!("`toolbooth servers login {server}` signs in"))
            }
            Self::NeedsAuth { server, remedy: Remedy::Configure, .. } => Some(format!(
                "give it `auth` in its configuration; with \"oauth\" there, `toolbooth servers login {server}` signs in"
            )),
            Self::ShareUsed { .. } => Some(
                "end calls or sessions that you do not need; unused connections are closed by themselves"
                    .into(),
            ),
            Self::Flooded { server, .. } => Some(format!(
                "`toolbooth servers logs {server}` may show why it asks so much; report it to its author"
            )),
            Self::NotStarted(problem) => problem.hint.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_status_says_where_to_look() {
        let cases = [
            ("the handshake failed: HTTP 403 Forbidden and nothing else", Some("credential")),
            ("HTTP 401 Unauthorized with HTTP 404", Some("credential")),
            ("HTTP 404 Not Found with nothing", Some("path of `url`")),
            ("HTTP 302 Found, a redirect to https://a/mcp/", Some("into `url`")),
            ("HTTP 200 OK with an HTML page", Some("no MCP endpoint")),
            ("HTTP 200 OK with hello", None),
            ("an answer under another id", None),
        ];
        for (what, part) in cases {
            let error = UpstreamError::BadAnswer { server: "s".into(), what: what.into() };
            match (error.hint(), part) {
                (Some(hint), Some(part)) => assert!(hint.contains(part), "{what}: {hint}"),
                (hint, part) => assert_eq!(hint.as_deref(), part, "{what}"),
            }
        }
    }

    #[test]
    fn only_a_process_has_a_log_here() {
        let hint = |reason: &str| {
            UpstreamError::StartFailed { server: "s".into(), reason: reason.into() }
                .hint()
                .unwrap_or_default()
        };
        assert!(hint("its process ended (exit status: 1)").contains("servers logs s"));
        assert!(!hint("it answered HTTP 502 Bad Gateway").contains("servers logs"));
    }
}
