//! The gateway that a command uses: the one at `--url`, the running one, or an embedded one.

use crate::embedded_gateway::{EmbeddedGateway, ServerSelection, StorePersistence, not_running};
use crate::exit::Exit;
use crate::failure::CommandFailure;
use crate::gateway;
use crate::gateway_record::GatewayRecord;
use crate::global_options::GlobalOptions;
use crate::progress::while_waiting;
use crate::remote_gateway::{GatewayReply, RemoteGateway};
use crate::render::{self, Paint, Tone};
use crate::running_gateway::find_stopping;
use crate::stored_tokens::StoredTokens;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::Value;
use std::sync::Once;
use toolbooth_config::{Finding, LoadedConfig, ServerConfigState, Sources};
use toolbooth_core::fault::Problem;

/// The gateway that a command uses.
pub enum GatewayHandle {
    /// A running gateway.
    Running(RemoteGateway),
    /// A gateway inside this process.
    Embedded(Box<EmbeddedGateway>),
}

/// Whether a command uses a gateway that was started with other files than those on its own command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedFiles {
    /// Only if the command names none.
    Same,
    /// It does.
    Any,
}

impl GatewayHandle {
    /// Finds a running gateway, or starts an embedded one.
    pub async fn open(global: &GlobalOptions) -> Result<Self, CommandFailure> {
        if let Some(running) = Self::running(global).await? {
            return Ok(running);
        }
        let (sources, loaded) = gateway::load(global)?;
        Self::start_embedded(global, &sources, loaded).await
    }

    /// Like `open`, for commands that need a persistent store.
    pub async fn open_persistent(global: &GlobalOptions) -> Result<Self, CommandFailure> {
        if let Some(running) = Self::running(global).await? {
            return Ok(running);
        }
        let (sources, loaded) = gateway::load(global)?;
        let mut embedded = EmbeddedGateway::start(&sources, loaded, StorePersistence::Required).await?;
        embedded.persona = global.persona.clone();
        Ok(Self::Embedded(Box::new(embedded)))
    }

    /// Finds a running gateway, or fails.
    pub async fn require_running(global: &GlobalOptions) -> Result<Self, CommandFailure> {
        if let Some(running) = Self::running(global).await? {
            return Ok(running);
        }
        let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
        let problem = match find_stopping(&gateway::data_dir(&sources)) {
            Some(record) => Problem {
                message: format!("the gateway (process {}) is stopping", record.pid),
                hint: Some("`toolbooth start` starts it again when it has ended".into()),
                ..not_running()
            },
            None => not_running(),
        };
        Err(CommandFailure::new(Exit::Unreachable, problem))
    }

    /// Starts an embedded gateway.
    pub async fn start_embedded(
        global: &GlobalOptions,
        sources: &Sources,
        loaded: LoadedConfig,
    ) -> Result<Self, CommandFailure> {
        let errors = loaded.findings.iter().filter(|finding| concerns_settings(&loaded, finding)).count();
        if errors > 0 && !global.json {
            let word = Paint::stderr().tone(Tone::Warn, "warning");
            let errors = render::count(errors, "error");
            render::complain(&format!(
                "{word}: the configuration has {errors}; `toolbooth config check` shows them\n"
            ));
        }
        let mut embedded = EmbeddedGateway::start(sources, loaded, StorePersistence::BestEffort).await?;
        embedded.persona = global.persona.clone();
        Ok(Self::Embedded(Box::new(embedded)))
    }

    /// The gateway at `--url`, or the one that is running on this data directory.
    pub async fn running(global: &GlobalOptions) -> Result<Option<Self>, CommandFailure> {
        Self::find(global, NamedFiles::Same).await
    }

    /// Like `running`, also if the gateway was started with other files than the command names.
    pub async fn running_with_any_files(global: &GlobalOptions) -> Result<Option<Self>, CommandFailure> {
        Self::find(global, NamedFiles::Any).await
    }

    async fn find(global: &GlobalOptions, files: NamedFiles) -> Result<Option<Self>, CommandFailure> {
        let sources = gateway::sources(global).map_err(CommandFailure::usage)?;
        let remote_at = |url: &str| {
            let mut remote = RemoteGateway::at(url)?;
            remote.set_token(given_token(global));
            remote.set_persona(global.persona.clone());
            Ok::<_, CommandFailure>(remote)
        };
        let with_stored_token = |mut remote: RemoteGateway| {
            if !remote.has_token() {
                remote.set_token(StoredTokens::of(&sources).find(&remote.url));
            }
            remote
        };
        if let Some(url) = &global.url {
            return Ok(Some(Self::Running(with_stored_token(remote_at(url)?))));
        }
        let record = GatewayRecord::find(&gateway::data_dir(&sources));
        let Some(record) = record.filter(|record| !record.stopping) else { return Ok(None) };
        // Files named on the command line win over a gateway that uses others.
        let named = gateway::named(&sources);
        if files == NamedFiles::Same && !named.is_empty() && named != record.named {
            return Ok(None);
        }
        let mut remote = remote_at(&record.url)?;
        remote.set_folder(&sources.cwd);
        // Unless a token is given, a command of the gateway's user administers it over the control socket. A stored
        // token of another user does not change this.
        if record.control.is_some() && !remote.has_token() {
            remote.set_control(record.control);
            if remote.is_alive().await {
                return Ok(Some(Self::Running(remote)));
            }
            remote.set_control(None);
        }
        let remote = with_stored_token(remote);
        Ok(remote.is_alive().await.then_some(Self::Running(remote)))
    }

    /// Connects servers of an embedded gateway; a running one connects them itself.
    pub async fn connect(&self, selection: ServerSelection<'_>) {
        if let Self::Embedded(embedded) = self {
            embedded.connect(selection).await;
        }
    }

    /// Sends a GET request and parses the answer.
    pub async fn get(&self, path: &str) -> Result<Value, CommandFailure> {
        let body = while_waiting("waiting for an answer", self.ask(Method::GET, path, None)).await?.good()?;
        read(&body)
    }

    /// Sends a GET request and returns the body unparsed, to keep its number format and member order.
    pub async fn fetch(&self, path: &str) -> Result<Bytes, CommandFailure> {
        while_waiting("waiting for an answer", self.ask(Method::GET, path, None)).await?.good()
    }

    /// Whether the store is lost when the command ends.
    pub fn has_temporary_store(&self) -> bool {
        matches!(self, Self::Embedded(embedded) if embedded.has_temporary_store)
    }

    /// Sends a DELETE request and parses the answer.
    pub async fn delete(&self, path: &str) -> Result<Value, CommandFailure> {
        let answer = self.ask(Method::DELETE, path, None);
        read(&while_waiting("waiting for an answer", answer).await?.good()?)
    }

    /// Sends a POST request and returns the body unparsed; `what` describes it for the progress message.
    pub async fn post(&self, what: &str, path: &str, body: Option<Bytes>) -> Result<Bytes, CommandFailure> {
        while_waiting(what, self.ask(Method::POST, path, body)).await?.good()
    }

    /// Sends a PATCH request and returns the body unparsed; `what` describes it for the progress message.
    pub async fn patch(&self, what: &str, path: &str, body: Bytes) -> Result<Bytes, CommandFailure> {
        while_waiting(what, self.ask(Method::PATCH, path, Some(body))).await?.good()
    }

    /// Sends a PUT request and returns the body unparsed; `what` describes it for the progress message.
    pub async fn put(&self, what: &str, path: &str, body: Bytes) -> Result<Bytes, CommandFailure> {
        while_waiting(what, self.ask(Method::PUT, path, Some(body))).await?.good()
    }

    /// Sends a streaming request and returns the response unread.
    pub async fn stream(
        &self,
        method: Method,
        path: &str,
        length: Option<u64>,
        body: Body,
    ) -> Result<Response<Body>, CommandFailure> {
        let answer = match self {
            Self::Running(remote) => remote.stream(method, path, length, body).await?,
            Self::Embedded(embedded) => embedded.stream(method, path, body).await?,
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        match GatewayReply::of(answer).await.good() {
            Ok(_) => Err(CommandFailure::new(Exit::Unreachable, not_running())),
            Err(failure) => Err(failure),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<GatewayReply, CommandFailure> {
        match self {
            Self::Running(remote) => remote.ask(method, path, body).await,
            Self::Embedded(embedded) => embedded.ask(method, path, body).await,
        }
    }

    /// Closes the gateway; an embedded one stops all its processes.
    pub async fn close(self) {
        if let Self::Embedded(embedded) = self {
            embedded.close().await;
        }
    }
}

/// The token that the command line or the environment gives.
pub fn given_token(global: &GlobalOptions) -> Option<String> {
    if global.token.is_some() {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            let word = Paint::stderr().tone(Tone::Warn, "warning");
            render::complain(&format!(
                "{word}: --token is visible in the process list; use TOOLBOOTH_TOKEN or `toolbooth login`\n"
            ));
        });
    }
    let token = global.token.clone().or_else(|| std::env::var("TOOLBOOTH_TOKEN").ok());
    token.filter(|token| !token.is_empty())
}

/// Whether an error concerns settings. Errors of servers are shown with the servers.
fn concerns_settings(loaded: &LoadedConfig, finding: &Finding) -> bool {
    let of_server = finding.key.as_deref().is_some_and(|key| key == "servers" || key.starts_with("servers."));
    let of_server = of_server
        || loaded
            .servers
            .iter()
            .any(|server| matches!(&server.state, ServerConfigState::Broken(reason) if reason == finding));
    finding.is_error() && !of_server
}

/// Parses an answer.
pub fn read(body: &Bytes) -> Result<Value, CommandFailure> {
    serde_json::from_slice(body).map_err(|_| {
        let failure =
            CommandFailure::misuse("gateway.stranger", "the answer is not from a Toolbooth gateway", None);
        CommandFailure { exit: Exit::Unreachable, ..failure }.hint("check --url and TOOLBOOTH_URL")
    })
}
