//! Opens a connection: from a server's entry to an established connection.

use crate::bundled::{self, Bundled, BundledParts};
use crate::connection::{Connection, Linked, OpenedPeer};
use crate::error::UpstreamError;
use crate::handshake::{HandshakeContext, perform_handshake};
use crate::http::{HttpOrigin, HttpParts, HttpPeer, OriginClient, OriginError, ServerCredential};
use crate::legacy_sse;
use crate::peer::ServerNotice;
use crate::process::{Launch, Reaper, StderrTail, clean_environment};
use crate::remote_parts::RemoteParts;
use crate::stdio::{self, StdioParts};
use crate::websocket;
use ::http::{HeaderName, HeaderValue};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::mpsc;
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::json::RawJson;
use toolbooth_core::secret::{KnownSecrets, SecretText};
use toolbooth_core::server::{EraChoice, RemoteEndpoint, ServerEntry, Transport};
use toolbooth_wire::Era;

/// The gateway-wide settings for opening connections, read once at startup.
#[derive(Debug, Clone)]
pub struct OpenContext {
    /// The gateway's environment; child processes inherit a small part of it.
    pub host_environment: BTreeMap<String, String>,
    /// The variables that child processes inherit.
    pub allowed_environment: Vec<String>,
    /// How a child's reaper is run.
    pub reaper: Reaper,
    /// Looks bundled servers up by name.
    pub bundled: Bundled,
    /// The path of this binary, for workers that run as separate processes.
    pub own_executable: PathBuf,
    /// The answer to `roots/list` outside a call: a complete result.
    pub roots: Option<RawJson>,
    /// Maximum length of a line or body from a server.
    pub answer_limit: usize,
}

/// Parameters for opening one connection.
#[derive(Debug)]
pub struct OpenRequest<'a> {
    /// The server.
    pub entry: &'a ServerEntry,
    /// The era it used last time.
    pub hint: Option<Era>,
    /// The client capabilities announced to a legacy server.
    pub capabilities: RawJson,
    /// Secrets to mask in everything the server sends.
    pub secrets: &'a KnownSecrets,
    /// Keeps the server's standard error.
    pub stderr: &'a StderrTail,
    /// The gateway's credential.
    pub credential: ServerCredential,
    /// Receives the server's notices.
    pub notices: mpsc::Sender<ServerNotice>,
}

impl OpenContext {
    /// Opens a connection and performs the handshake.
    pub async fn open(&self, request: OpenRequest<'_>) -> Result<Connection, UpstreamError> {
        let secrets = request.secrets;
        let opened = self.open_in_some_era(request).await;
        opened.map_err(|error| error.at_start().masked(secrets))
    }

    async fn open_in_some_era(&self, request: OpenRequest<'_>) -> Result<Connection, UpstreamError> {
        let entry = request.entry;
        let mut context = HandshakeContext {
            server: entry.name.to_string(),
            hint: match (&entry.transport, entry.era) {
                (Transport::Sse(_), _) | (_, EraChoice::Legacy) => Some(Era::Legacy),
                (_, EraChoice::Modern) => Some(Era::Modern),
                (_, EraChoice::Auto) => request.hint,
            },
            capabilities: request.capabilities.clone(),
            time_limit: entry.connect_timeout,
            secrets: request.secrets.clone(),
            credential: request.credential.clone(),
        };
        let first = perform_handshake(self.dial(&request).await?, &context).await;
        match first {
            // Some servers exit on an unknown request. They are retried as legacy servers.
            Err(UpstreamError::Lost { .. }) if context.hint != Some(Era::Legacy) && may_hang_up(entry) => {
                context.hint = Some(Era::Legacy);
                perform_handshake(self.dial(&request).await?, &context).await
            }
            Err(error) if lacks_streamable_http(&error) => match &entry.transport {
                Transport::Http(remote) => {
                    context.hint = Some(Era::Legacy);
                    self.fall_back_to_sse(&request, remote, &context, error).await
                }
                _ => Err(error),
            },
            other => other,
        }
    }

    /// The process of a local server; `None` if the server is not a process.
    fn launch_of(&self, entry: &ServerEntry) -> Option<Launch> {
        let Transport::Stdio { command, args, cwd, env } = &entry.transport else { return None };
        Some(Launch {
            command: command.clone(),
            args: args.clone(),
            cwd: cwd.clone(),
            env: clean_environment(&self.host_environment, &self.allowed_environment, env),
            reaper: self.reaper.clone(),
        })
    }

    /// Whether the command of a server exists now. Starts nothing. Always true for a server that is not a process.
    pub fn finds_command(&self, entry: &ServerEntry) -> bool {
        self.launch_of(entry).is_none_or(Launch::finds_command)
    }

    async fn dial(&self, request: &OpenRequest<'_>) -> Result<OpenedPeer, UpstreamError> {
        let entry = request.entry;
        if let Some(launch) = self.launch_of(entry) {
            return self.start(request, launch).await;
        }
        match &entry.transport {
            // A process was started above.
            Transport::Own | Transport::Virtual | Transport::Stdio { .. } => {
                Err(UpstreamError::NotConnected {
                    server: entry.name.to_string(),
                    state: "own",
                    reason: "the gateway runs its own tools itself".into(),
                    retry_in: None,
                })
            }
            Transport::Bundled(name) => {
                let peer = bundled::open(BundledParts {
                    server: entry.name.to_string(),
                    name,
                    bundled: self.bundled,
                    notices: request.notices.clone(),
                    roots: self.roots.clone(),
                })?;
                Ok(OpenedPeer { peer: Box::new(peer), linked: Linked::No })
            }
            Transport::Http(remote) => {
                let peer = HttpPeer::new(HttpParts {
                    server: entry.name.as_str().into(),
                    client: OriginClient::new(origin_of(entry, remote)?, entry.connect_timeout),
                    headers: headers_of(entry, remote)?,
                    credential: request.credential.clone(),
                    notices: request.notices.clone(),
                    roots: self.roots.clone(),
                    body_limit: self.answer_limit,
                    stall: entry.timeout,
                });
                Ok(OpenedPeer { peer: Box::new(peer), linked: Linked::Yes })
            }
            Transport::Sse(remote) => self.follow_stream(request, remote).await,
            Transport::WebSocket(remote) => {
                let wrong = |_| config_fault(entry, "its `url` is not a ws or wss URL");
                let origin = websocket::origin(remote.url.expose()).map_err(wrong)?;
                let parts = self.remote_parts(request, remote, origin)?;
                let peer = websocket::open(parts, websocket::PING_EVERY).await?;
                Ok(OpenedPeer { peer: Box::new(peer), linked: Linked::No })
            }
        }
    }

    async fn follow_stream(
        &self,
        request: &OpenRequest<'_>,
        remote: &RemoteEndpoint,
    ) -> Result<OpenedPeer, UpstreamError> {
        let origin = origin_of(request.entry, remote)?;
        let peer = legacy_sse::open(self.remote_parts(request, remote, origin)?).await?;
        Ok(OpenedPeer { peer: Box::new(peer), linked: Linked::No })
    }

    fn remote_parts(
        &self,
        request: &OpenRequest<'_>,
        remote: &RemoteEndpoint,
        origin: HttpOrigin,
    ) -> Result<RemoteParts, UpstreamError> {
        let entry = request.entry;
        Ok(RemoteParts {
            server: entry.name.to_string(),
            origin,
            headers: headers_of(entry, remote)?,
            credential: request.credential.clone(),
            notices: request.notices.clone(),
            roots: self.roots.clone(),
            message_limit: self.answer_limit,
            connect_timeout: entry.connect_timeout,
        })
    }

    /// Tries the older HTTP+SSE transport on a server without Streamable HTTP. If that fails too, the first
    /// error is returned, except for a refused credential.
    async fn fall_back_to_sse(
        &self,
        request: &OpenRequest<'_>,
        remote: &RemoteEndpoint,
        context: &HandshakeContext,
        first: UpstreamError,
    ) -> Result<Connection, UpstreamError> {
        tracing::debug!(server.name = %context.server, "{first}; trying the older HTTP+SSE transport");
        match self.follow_stream(request, remote).await {
            Ok(opened) => perform_handshake(opened, context).await,
            Err(error @ UpstreamError::NeedsAuth { .. }) => Err(error),
            Err(error) => {
                tracing::debug!(server.name = %context.server, "{error}; it does not support HTTP+SSE either");
                Err(first)
            }
        }
    }

    async fn start(&self, request: &OpenRequest<'_>, launch: Launch) -> Result<OpenedPeer, UpstreamError> {
        let peer = stdio::open(StdioParts {
            server: request.entry.name.to_string(),
            launch,
            stderr: request.stderr.clone(),
            notices: request.notices.clone(),
            roots: self.roots.clone(),
            line_limit: self.answer_limit,
        })
        .await?;
        Ok(OpenedPeer { peer: Box::new(peer), linked: Linked::No })
    }
}

fn may_hang_up(entry: &ServerEntry) -> bool {
    matches!(entry.transport, Transport::Stdio { .. } | Transport::Bundled(_) | Transport::WebSocket(_))
}

/// Whether a handshake failed as it does at an endpoint that does not accept POSTs: with one of these
/// statuses and without a message.
fn lacks_streamable_http(error: &UpstreamError) -> bool {
    let UpstreamError::BadAnswer { what, .. } = error else { return false };
    // The first status in the text is the server's; the rest may be its own words.
    let status = what.split_once("HTTP ").and_then(|(_, rest)| rest.get(..3));
    matches!(status, Some("400" | "404" | "405"))
}

/// The origin of a remote server.
pub(crate) fn origin_of(entry: &ServerEntry, remote: &RemoteEndpoint) -> Result<HttpOrigin, UpstreamError> {
    HttpOrigin::parse(remote.url.expose()).map_err(|error| match error {
        OriginError::OtherKind(_) => config_fault(entry, "its `url` is not an http or https URL"),
        OriginError::UserInfo => {
            config_fault(entry, "its `url` contains user info (`user:password@`), which is not allowed")
        }
    })
}

/// The configured headers of a remote server.
pub(crate) fn headers_of(
    entry: &ServerEntry,
    remote: &RemoteEndpoint,
) -> Result<Vec<(HeaderName, HeaderValue)>, UpstreamError> {
    let header = |(name, value): (&String, &SecretText)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    };
    let headers: Option<Vec<_>> = remote.headers.iter().map(header).collect();
    headers.ok_or_else(|| {
        config_fault(entry, "one of its `headers` contains characters that are not allowed in a header")
    })
}

fn config_fault(entry: &ServerEntry, what: &str) -> UpstreamError {
    UpstreamError::NotStarted(Box::new(Problem {
        code: "server.config",
        blame: Blame::Gateway,
        message: format!("server `{}` cannot be reached: {what}", entry.name),
        hint: Some("`toolbooth config check` shows the entry".into()),
    }))
}
