//! Errors between the gateway and a server.

use crate::question_limits::{MAX_QUESTIONS, MAX_TIME_ASKED};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use toolbooth_core::fault::{Blame, Fault};
use toolbooth_core::secret::KnownSecrets;

/// Whether a server may have received the failed request. Decides whether a retry is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentStatus {
    /// The request was not sent.
    No,
    /// The server may have processed it.
    Maybe,
}

/// What fixes a refused credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Sign in.
    SignIn,
    /// Change the configuration.
    Configure,
    /// The user gives another key.
    GiveKey,
}

/// The stages of connecting to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStage {
    /// The handshake.
    Handshake,
    /// Listing tools, prompts and resources.
    Listing,
}

impl fmt::Display for StartStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "finish the handshake",
            Self::Listing => "list what it offers",
        })
    }
}

/// A request to a server failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The server could not be reached.
    #[error("server `{server}` cannot be reached: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The server is not connected.
    #[error("server `{server}` is not connected ({state}): {reason}")]
    NotConnected {
        /// The server.
        server: String,
        /// Its state.
        state: &'static str,
        /// Why.
        reason: String,
        /// Time until the next attempt.
        retry_in: Option<Duration>,
    },
    /// The connection was lost during a request.
    #[error("server `{server}` disconnected during the call: {reason}")]
    Lost {
        /// The server.
        server: String,
        /// Why.
        reason: String,
        /// Whether the server may have received the request.
        sent: SentStatus,
    },
    /// The connection was lost before the handshake and the first listing finished.
    #[error("server `{server}` failed during start-up: {reason}")]
    StartFailed {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// Connecting took too long.
    #[error("server `{server}` did not {stage} within {} s", after.as_secs_f64())]
    StartTimeout {
        /// The server.
        server: String,
        /// The stage that timed out.
        stage: StartStage,
        /// The timeout.
        after: Duration,
    },
    /// The server did not answer in time.
    #[error("server `{server}` did not answer within {} ms", after.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// The timeout.
        after: Duration,
    },
    /// The answer is over the size limit.
    #[error("server `{server}` sent an answer over the limit of {limit} bytes")]
    TooLarge {
        /// The server.
        server: String,
        /// The limit.
        limit: usize,
    },
    /// The answer is not a valid MCP message.
    #[error("server `{server}` sent an answer that is not an MCP message: {what}")]
    BadAnswer {
        /// The server.
        server: String,
        /// What is wrong with it.
        what: String,
    },
    /// The server requires credentials that the gateway does not have.
    #[error("server `{server}` requires authorization")]
    NeedsAuth {
        /// The server.
        server: String,
        /// Its `WWW-Authenticate` header.
        challenge: Option<String>,
        /// 401 or 403.
        status: u16,
        /// What fixes it.
        remedy: Remedy,
    },
    /// The server needs a key of the caller's own, and the caller has not given one.
    #[error("server `{server}` needs your own key, and you have not given one")]
    NeedsKey {
        /// The server.
        server: String,
    },
    /// The server no longer knows the session.
    #[error("server `{server}` ended the session")]
    SessionExpired {
        /// The server.
        server: String,
    },
    /// The server refused the request because it has too many.
    #[error("server `{server}` is overloaded: it answered HTTP {status}")]
    Overloaded {
        /// The server.
        server: String,
        /// 429 or 503.
        status: u16,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The outgoing queue is full.
    #[error("server `{server}` is busy: its queue is full")]
    Busy {
        /// The server.
        server: String,
    },
    /// The caller has reached the limit of connections per user.
    #[error("server `{server}` is busy: you already have {share} connections to it, the limit per user")]
    ShareUsed {
        /// The server.
        server: String,
        /// The limit of connections per user.
        share: usize,
    },
    /// The server sent more requests than the gateway accepts, and was disconnected.
    #[error("server `{server}` was disconnected: {reason}")]
    Flooded {
        /// The server.
        server: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The server asked the client too many questions during one call, or for too long.
    #[error(
        "server `{server}` asked too many questions during one call: the limits are {} questions and {} minutes",
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
    /// Turns a loss into [`StartFailed`](Self::StartFailed): before the server is connected, no call is in
    /// flight.
    #[must_use]
    pub(crate) fn at_start(self) -> Self {
        match self {
            Self::Lost { server, reason, .. } => Self::StartFailed { server, reason },
            other => other,
        }
    }

    /// Masks the server's secrets in the texts that came from it.
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

    /// Whether the server may have received the request.
    pub fn sent(&self) -> SentStatus {
        match self {
            Self::Unreachable { .. }
            | Self::NotConnected { .. }
            | Self::StartFailed { .. }
            | Self::StartTimeout { .. }
            | Self::NeedsAuth { .. }
            | Self::NeedsKey { .. }
            | Self::SessionExpired { .. }
            | Self::Overloaded { .. }
            | Self::Busy { .. }
            | Self::ShareUsed { .. }
            | Self::NotStarted(_) => SentStatus::No,
            Self::Lost { sent, .. } => *sent,
            Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::BadAnswer { .. }
            | Self::Flooded { .. }
            | Self::AskedTooMuch { .. } => SentStatus::Maybe,
        }
    }
}

/// How a user gives a key to a server.
pub fn give_key(server: &str) -> String {
    format!("give it with `toolbooth servers key set {server}`, or with PUT /servers/{server}/key")
}

/// The prefix of reasons that concern a process.
const PROCESS_PREFIX: &str = "its process";

/// Describes an HTML response.
pub(crate) const HTML_PAGE: &str = "an HTML page";

/// A configuration hint for an unexpected HTTP status.
fn http_hint(what: &str) -> Option<&'static str> {
    // The first status in the text is the server's; the rest may be its own words.
    let (_, rest) = what.split_once("HTTP ")?;
    let status: u16 = rest.get(..3)?.parse().ok()?;
    Some(match status {
        401 | 403 => "it rejects the gateway's credential: check `auth` and `headers` of the server",
        404 | 405 => "there is no MCP endpoint at this URL: check the path of `url`, which is often `/mcp`",
        300..=399 => "redirects are not followed: set `url` to the address it redirects to",
        _ if rest.contains(HTML_PAGE) => {
            "the URL is not an MCP endpoint: check the path of `url`, which is often `/mcp`"
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
            Self::NeedsKey { .. } => "server.needs-key",
            Self::SessionExpired { .. } => "server.session-expired",
            Self::Busy { .. } | Self::ShareUsed { .. } | Self::Overloaded { .. } => "server.busy",
            Self::Flooded { .. } => "server.flood",
            Self::AskedTooMuch { .. } => "server.asked-too-much",
            Self::NotStarted(problem) => problem.code,
        }
    }

    fn blame(&self) -> Blame {
        match self {
            Self::NotStarted(problem) => problem.blame,
            // One user's key says nothing about the server's health for others.
            Self::ShareUsed { .. }
            | Self::NeedsKey { .. }
            | Self::NeedsAuth { remedy: Remedy::GiveKey, .. } => Blame::Caller,
            _ => Blame::Upstream,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => {
                Some("check that the server is running and that its `url` is correct".into())
            }
            Self::NotConnected { retry_in: Some(wait), .. } => {
                Some(format!("the gateway retries in {} s", wait.as_secs().max(1)))
            }
            Self::NotConnected { server, state: "needs_auth", .. } => {
                Some(format!("`toolbooth servers show {server}` shows how to sign in"))
            }
            Self::NotConnected { .. } => Some("`toolbooth servers connect NAME` connects it".into()),
            Self::Lost { sent: SentStatus::Maybe, .. } => {
                Some("the server may have processed the call: check before you repeat it".into())
            }
            Self::StartFailed { server, reason } => Some(match reason.starts_with(PROCESS_PREFIX) {
                true => format!("`toolbooth servers logs {server}` shows its output"),
                false => "the server's own log may show the reason; the gateway retries".into(),
            }),
            Self::BadAnswer { what, .. } => http_hint(what).map(str::to_owned),
            Self::StartTimeout { .. } => {
                Some("raise `connect_timeout` of the server if it needs more time".into())
            }
            Self::Timeout { .. } => {
                Some("raise `timeout` of the server, or `default_timeout` of the tool".into())
            }
            Self::TooLarge { .. } => Some("ask for less, or raise `limits.upstream_bytes`".into()),
            Self::NeedsAuth { server, remedy: Remedy::SignIn, .. } => {
                Some(format!("`toolbooth servers login {server}` signs in"))
            }
            Self::NeedsAuth { server, remedy: Remedy::Configure, .. } => Some(format!(
                "set `auth` in its configuration; with \"oauth\", `toolbooth servers login {server}` signs in"
            )),
            Self::NeedsKey { server } => Some(give_key(server)),
            Self::NeedsAuth { server, remedy: Remedy::GiveKey, .. } => {
                Some(format!("the server refused your key; `toolbooth servers key set {server}` replaces it"))
            }
            Self::ShareUsed { .. } => Some(
                "end calls or sessions that you do not need; idle connections are closed automatically"
                    .into(),
            ),
            Self::Flooded { server, .. } => Some(format!(
                "`toolbooth servers logs {server}` may show why it sends so many requests; report it to its author"
            )),
            Self::Overloaded { retry_after: Some(wait), .. } => {
                Some(format!("it asks to wait for {} s", wait.as_secs().max(1)))
            }
            Self::NotStarted(problem) => problem.hint.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_status_selects_the_hint() {
        let cases = [
            ("the handshake failed: HTTP 403 Forbidden and an empty body", Some("credential")),
            ("HTTP 401 Unauthorized with HTTP 404", Some("credential")),
            ("HTTP 404 Not Found with nothing", Some("path of `url`")),
            ("HTTP 302 Found, a redirect to https://a/mcp/", Some("set `url`")),
            ("HTTP 200 OK with an HTML page", Some("not an MCP endpoint")),
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
    fn only_process_failures_refer_to_the_server_log() {
        let hint = |reason: &str| {
            UpstreamError::StartFailed { server: "s".into(), reason: reason.into() }
                .hint()
                .unwrap_or_default()
        };
        assert!(hint("its process ended (exit status: 1)").contains("servers logs s"));
        assert!(!hint("it answered HTTP 502 Bad Gateway").contains("servers logs"));
    }
}
