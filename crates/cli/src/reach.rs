//! The gateway a command talks to: the named one, the running one, or one of its own for the moment.

use crate::arguments::Global;
use crate::credentials::Credentials;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::gateway;
use crate::own::{Keeping, Own, Wanted, not_running};
use crate::presence::Presence;
use crate::progress::while_waiting;
use crate::remote::{Remote, Reply};
use crate::render::{self, Paint, Tone};
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::Value;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;
use toolbooth_config::{Finding, Loaded, ServerConfigState, Sources};

/// How long a gateway that is said to run here may take to show it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// A gateway within reach.
pub enum Reach {
    /// One that runs.
    Running(Remote),
    /// One of the command's own.
    Own(Box<Own>),
}

impl Reach {
    /// Finds the gateway to talk to, or makes one.
    pub async fn open(global: &Global) -> Result<Self, Failure> {
        if let Some(running) = Self::running(global).await? {
            return Ok(running);
        }
        let (sources, loaded) = gateway::load(global)?;
        Self::own(global, &sources, loaded).await
    }

    /// Like `open`, for what must be kept: a store that forgets will not do.
    pub async fn open_lasting(global: &Global) -> Result<Self, Failure> {
        if let Some(running) = Self::running(global).await? {
            return Ok(running);
        }
        let (sources, loaded) = gateway::load(global)?;
        let mut own = Own::start(&sources, loaded, Keeping::Needed).await?;
        own.persona = global.persona.clone();
        Ok(Self::Own(Box::new(own)))
    }

    /// Finds the gateway to talk to, and fails where none runs.
    pub async fn demand(global: &Global) -> Result<Self, Failure> {
        Self::running(global).await?.ok_or_else(|| Failure::failed(not_running()))
    }

    /// A gateway of the command's own.
    pub async fn own(global: &Global, sources: &Sources, loaded: Loaded) -> Result<Self, Failure> {
        let errors = loaded.findings.iter().filter(|finding| concerns_settings(&loaded, finding)).count();
        if errors > 0 && !global.json {
            let word = Paint::stderr().tone(Tone::Warn, "warning");
            let errors = render::count(errors, "error");
            render::complain(&format!(
                "{word}: the configuration has {errors}; `toolbooth config check` shows them\n"
            ));
        }
        let mut own = Own::start(sources, loaded, Keeping::IfPossible).await?;
        own.persona = global.persona.clone();
        Ok(Self::Own(Box::new(own)))
    }

    /// The gateway that was named or that runs on this data folder.
    pub async fn running(global: &Global) -> Result<Option<Self>, Failure> {
        let sources = gateway::sources(global).map_err(Failure::usage)?;
        let remote_at = |url: &str| {
            let mut remote = Remote::at(url)?;
            remote.set_token(given_token(global).or_else(|| Credentials::of(&sources).find(&remote.url)));
            remote.set_persona(global.persona.clone());
            Ok::<_, Failure>(remote)
        };
        if let Some(url) = &global.url {
            return Ok(Some(Self::Running(remote_at(url)?)));
        }
        let Some(presence) = Presence::find(&gateway::data_dir(&sources)) else { return Ok(None) };
        // Somebody who names files means those, not the ones of a gateway that reads others.
        let named = gateway::named(&sources);
        if !named.is_empty() && named != presence.named {
            return Ok(None);
        }
        let mut remote = remote_at(&presence.url)?;
        // Without a credential of its own, a command of the gateway's user administers it over the control socket.
        if presence.control.is_some() && !remote.has_token() {
            remote.set_control(presence.control);
            if lives(&remote).await {
                return Ok(Some(Self::Running(remote)));
            }
            remote.set_control(None);
        }
        Ok(lives(&remote).await.then_some(Self::Running(remote)))
    }

    /// Connects servers, where the gateway is the command's own; a running one does that by itself.
    pub async fn connect(&self, wanted: Wanted<'_>) {
        if let Self::Own(own) = self {
            own.connect(wanted).await;
        }
    }

    /// Asks for something to read.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        let body = while_waiting("waiting for an answer", self.ask(Method::GET, path, None)).await?.good()?;
        read(&body)
    }

    /// Asks for something that is passed on as it is: its numbers and their order are not ours.
    pub async fn fetch(&self, path: &str) -> Result<Bytes, Failure> {
        while_waiting("waiting for an answer", self.ask(Method::GET, path, None)).await?.good()
    }

    /// Whether what is done now is forgotten when the command ends.
    pub fn forgets(&self) -> bool {
        matches!(self, Self::Own(own) if own.forgets)
    }

    /// Asks for something to be taken away.
    pub async fn delete(&self, path: &str) -> Result<Value, Failure> {
        let asked = self.ask(Method::DELETE, path, None);
        read(&while_waiting("waiting for an answer", asked).await?.good()?)
    }

    /// Asks for something to be done, and says what while that takes; the answer is left unread.
    pub async fn post(&self, what: &str, path: &str, body: Option<Bytes>) -> Result<Bytes, Failure> {
        while_waiting(what, self.ask(Method::POST, path, body)).await?.good()
    }

    /// Sends something piece by piece, or asks for something that comes so.
    pub async fn stream(
        &self,
        method: Method,
        path: &str,
        length: Option<u64>,
        body: Body,
    ) -> Result<Response<Body>, Failure> {
        let answer = match self {
            Self::Running(remote) => remote.stream(method, path, length, body).await?,
            Self::Own(own) => own.stream(method, path, body).await?,
        };
        if answer.status().is_success() {
            return Ok(answer);
        }
        match Reply::of(answer).await.good() {
            Ok(_) => Err(Failure::failed(not_running())),
            Err(failure) => Err(failure),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Reply, Failure> {
        match self {
            Self::Running(remote) => remote.ask(method, path, body).await,
            Self::Own(own) => own.ask(method, path, body).await,
        }
    }

    /// Lets go of it; a gateway of the command's own leaves no process behind.
    pub async fn close(self) {
        if let Self::Own(own) = self {
            own.close().await;
        }
    }
}

/// The token that the command line or the environment gives.
pub fn given_token(global: &Global) -> Option<String> {
    if global.token.is_some() {
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            let word = Paint::stderr().tone(Tone::Warn, "warning");
            render::complain(&format!(
                "{word}: --token can be seen in the list of processes; use TOOLBOOTH_TOKEN or `toolbooth login`\n"
            ));
        });
    }
    let token = global.token.clone().or_else(|| std::env::var("TOOLBOOTH_TOKEN").ok());
    token.filter(|token| !token.is_empty())
}

/// Whether an error is about settings: a broken server is shown where servers are.
fn concerns_settings(loaded: &Loaded, finding: &Finding) -> bool {
    let of_server = finding.key.as_deref().is_some_and(|key| key == "servers" || key.starts_with("servers."));
    let of_server = of_server
        || loaded
            .servers
            .iter()
            .any(|server| matches!(&server.state, ServerConfigState::Broken(reason) if reason == finding));
    finding.is_error() && !of_server
}

/// The gateway that runs on a data folder and shows it. Its file alone is no proof: after a crash the
/// number in it may be another process's.
pub async fn living(data_dir: &Path) -> Option<Presence> {
    let presence = Presence::find(data_dir)?;
    let remote = Remote::at(&presence.url).ok()?;
    lives(&remote).await.then_some(presence)
}

async fn lives(remote: &Remote) -> bool {
    let sign = tokio::time::timeout(SIGN_OF_LIFE, remote.ask(Method::GET, "/health", None)).await;
    matches!(sign, Ok(Ok(reply)) if reply.status.is_success())
}

/// Reads an answer.
pub fn read(body: &Bytes) -> Result<Value, Failure> {
    serde_json::from_slice(body).map_err(|_| {
        let failure =
            Failure::misuse("gateway.stranger", "what answered there is no Toolbooth gateway", None);
        Failure { exit: Exit::Unreachable, ..failure }.hint("check --url and TOOLBOOTH_URL")
    })
}
