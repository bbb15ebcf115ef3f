//! Opening a connection: from a server's entry to a server that has shaken hands.

use crate::bundled::{self, Bundled, BundledParts};
use crate::connection::{Connection, Linked, Opened};
use crate::error::UpstreamError;
use crate::handshake::{Opening, shake};
use crate::http::{Client, Credential, HttpParts, HttpPeer, Origin, OriginError};
use crate::legacy_sse::{self, SseParts};
use crate::peer::Notice;
use crate::process::{Launch, Reaper, StderrTail, clean_environment};
use crate::stdio::{self, StdioParts};
use crate::websocket::{self, WebSocketParts};
use ::http::{HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::mpsc;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::{EraChoice, Remote, ServerEntry, Transport};
use toolbooth_wire::Era;

/// What connections need from the gateway's surroundings, read once at start.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The gateway's environment; children get a small part of it.
    pub host_environment: BTreeMap<String, String>,
    /// Which of its variables children get.
    pub allowed_environment: Vec<String>,
    /// How the reaper of a child is run.
    pub reaper: Reaper,
    /// Where the servers that come with the binary are found.
    pub bundled: Bundled,
    /// Where the binary is, for workers that are processes of their own.
    pub own_executable: PathBuf,
    /// What `roots/list` outside a call is answered with: a whole result.
    pub roots: Option<RawJson>,
    /// The longest line or body taken from a server.
    pub answer_limit: usize,
}

/// One connection that is to be opened.
#[derive(Debug)]
pub struct OpenRequest<'a> {
    /// The server.
    pub entry: &'a ServerEntry,
    /// The era it spoke last time.
    pub hint: Option<Era>,
    /// What a legacy server is told the client can do.
    pub capabilities: RawJson,
    /// What the server must not repeat.
    pub secrets: &'a KnownSecrets,
    /// Where its standard error is kept.
    pub stderr: &'a StderrTail,
    /// The gateway's credential.
    pub credential: Credential,
    /// Where its notices go.
    pub notices: mpsc::Sender<Notice>,
}

impl Surroundings {
    /// Opens a connection and shakes hands.
    pub async fn open(&self, request: OpenRequest<'_>) -> Result<Connection, UpstreamError> {
        let secrets = request.secrets;
        let opened = self.open_in_some_era(request).await;
        opened.map_err(|error| error.at_start().masked(secrets))
    }

    async fn open_in_some_era(&self, request: OpenRequest<'_>) -> Result<Connection, UpstreamError> {
        let entry = request.entry;
        let mut opening = Opening {
            server: entry.name.to_string(),
            hint: match (&entry.transport, entry.era) {
                (Transport::Sse(_), _) | (_, EraChoice::Legacy) => Some(Era::Legacy),
                (_, EraChoice::Modern) => Some(Era::Modern),
                (_, EraChoice::Auto) => request.hint,
            },
            capabilities: request.capabilities.clone(),
            patience: entry.connect_timeout,
            secrets: request.secrets.clone(),
            credential: request.credential.clone(),
        };
        let first = shake(self.dial(&request).await?, &opening).await;
        match first {
            // Some servers die of a word they do not know. They are asked the old way.
            Err(UpstreamError::Lost { .. }) if opening.hint != Some(Era::Legacy) && may_hang_up(entry) => {
                opening.hint = Some(Era::Legacy);
                shake(self.dial(&request).await?, &opening).await
            }
            Err(error) if is_no_streamable_http(&error) => match &entry.transport {
                Transport::Http(remote) => {
                    opening.hint = Some(Era::Legacy);
                    self.step_back(&request, remote, &opening, error).await
                }
                _ => Err(error),
            },
            other => other,
        }
    }

    async fn dial(&self, request: &OpenRequest<'_>) -> Result<Opened, UpstreamError> {
        let entry = request.entry;
        match &entry.transport {
            Transport::Stdio { command, args, cwd, env } => {
                let launch = Launch {
                    command: command.clone(),
                    args: args.clone(),
                    cwd: cwd.clone(),
                    env: clean_environment(&self.host_environment, &self.allowed_environment, env),
                    reaper: self.reaper.clone(),
                };
                self.start(request, launch).await
            }
            Transport::Own | Transport::Virtual => Err(UpstreamError::NotConnected {
                server: entry.name.to_string(),
                state: "own",
                reason: "the gateway runs its own tools itself".into(),
                retry_in: None,
            }),
            Transport::Bundled(name) => {
                let peer = bundled::open(BundledParts {
                    server: entry.name.to_string(),
                    name,
                    bundled: self.bundled,
                    notices: request.notices.clone(),
                    roots: self.roots.clone(),
                })?;
                Ok(Opened { peer: Box::new(peer), linked: Linked::No })
            }
            Transport::Http(remote) => {
                let peer = HttpPeer::new(HttpParts {
                    server: entry.name.as_str().into(),
                    client: Client::new(origin_of(entry, remote)?, entry.connect_timeout),
                    headers: headers_of(entry, remote)?,
                    credential: request.credential.clone(),
                    notices: request.notices.clone(),
                    roots: self.roots.clone(),
                    body_limit: self.answer_limit,
                    stall: entry.timeout,
                });
                Ok(Opened { peer: Box::new(peer), linked: Linked::Yes })
            }
            Transport::Sse(remote) => self.follow_stream(request, remote).await,
            Transport::WebSocket(remote) => {
                let wrong = |_| config_fault(entry, "its `url` is no ws or wss URL");
                let peer = websocket::open(WebSocketParts {
                    server: entry.name.to_string(),
                    origin: websocket::origin(remote.url.expose()).map_err(wrong)?,
                    headers: headers_of(entry, remote)?,
                    credential: request.credential.clone(),
                    notices: request.notices.clone(),
                    roots: self.roots.clone(),
                    message_limit: self.answer_limit,
                    connect_timeout: entry.connect_timeout,
                    ping_every: websocket::PING_EVERY,
                })
                .await?;
                Ok(Opened { peer: Box::new(peer), linked: Linked::No })
            }
        }
    }

    async fn follow_stream(
        &self,
        request: &OpenRequest<'_>,
        remote: &Remote,
    ) -> Result<Opened, UpstreamError> {
        let entry = request.entry;
        let peer = legacy_sse::open(SseParts {
            server: entry.name.to_string(),
            origin: origin_of(entry, remote)?,
            headers: headers_of(entry, remote)?,
            credential: request.credential.clone(),
            notices: request.notices.clone(),
            roots: self.roots.clone(),
            message_limit: self.answer_limit,
            connect_timeout: entry.connect_timeout,
        })
        .await?;
        Ok(Opened { peer: Box::new(peer), linked: Linked::No })
    }

    /// Tries the older transport on a server that knows nothing of Streamable HTTP. What went wrong
    /// there is said only if it is about the server, not about the transport.
    async fn step_back(
        &self,
        request: &OpenRequest<'_>,
        remote: &Remote,
        opening: &Opening,
        first: UpstreamError,
    ) -> Result<Connection, UpstreamError> {
        tracing::debug!(server.name = %opening.server, "{first}; trying the older HTTP+SSE transport");
        match self.follow_stream(request, remote).await {
            Ok(opened) => shake(opened, opening).await,
            Err(error @ UpstreamError::NeedsAuth { .. }) => Err(error),
            Err(error) => {
                tracing::debug!(server.name = %opening.server, "{error}; it does not speak HTTP+SSE either");
                Err(first)
            }
        }
    }

    async fn start(&self, request: &OpenRequest<'_>, launch: Launch) -> Result<Opened, UpstreamError> {
        let peer = stdio::open(StdioParts {
            server: request.entry.name.to_string(),
            launch,
            stderr: request.stderr.clone(),
            notices: request.notices.clone(),
            roots: self.roots.clone(),
            line_limit: self.answer_limit,
        })
        .await?;
        Ok(Opened { peer: Box::new(peer), linked: Linked::No })
    }
}

fn may_hang_up(entry: &ServerEntry) -> bool {
    matches!(entry.transport, Transport::Stdio { .. } | Transport::Bundled(_) | Transport::WebSocket(_))
}

/// Whether a handshake failed the way it does where nobody takes POSTs: with these three and no message.
fn is_no_streamable_http(error: &UpstreamError) -> bool {
    let UpstreamError::BadAnswer { what, .. } = error else { return false };
    // The first status named is the server's; what follows may be its own words.
    let status = what.split_once("HTTP ").and_then(|(_, rest)| rest.get(..3));
    matches!(status, Some("400" | "404" | "405"))
}

/// The address of a remote server.
pub(crate) fn origin_of(entry: &ServerEntry, remote: &Remote) -> Result<Origin, UpstreamError> {
    Origin::parse(remote.url.expose()).map_err(|error| match error {
        OriginError::OtherKind(_) => config_fault(entry, "its `url` is not an http or https URL"),
        OriginError::UserInfo => {
            config_fault(entry, "its `url` holds user info (`user:password@`), which is not allowed")
        }
    })
}

/// The configured headers of a remote server.
pub(crate) fn headers_of(
    entry: &ServerEntry,
    remote: &Remote,
) -> Result<Vec<(HeaderName, HeaderValue)>, UpstreamError> {
    let header = |(name, value): (&String, &SecretText)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let headers: Option<Vec<_>> = remote.headers.iter().map(header).collect();
    headers.ok_or_else(|| config_fault(entry, "one of its `headers` holds what a header may not"))
}

fn config_fault(entry: &ServerEntry, what: &str) -> UpstreamError {
    UpstreamError::NotStarted(Box::new(Problem {
        code: "server.config",
        blame: Blame::Gateway,
        message: format!("server `{}` cannot be reached: {what}", entry.name),
        hint: Some("`toolbooth config check` shows the entry".into()),
    }))
}
