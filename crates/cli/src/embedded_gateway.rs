//! A gateway inside the process of a command: the same engine and REST routes as `toolbooth serve`, but no socket.

use crate::callers;
use crate::failure::CommandFailure;
use crate::gateway;
use crate::progress::while_waiting;
use crate::remote_gateway::GatewayReply;
use crate::render;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use toolbooth_config::{LoadedConfig, Sources};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::server::Restart;
use toolbooth_engine::ManagedServer;
use toolbooth_engine::clock::system_clock;
use toolbooth_engine::{DesiredState, Engine, RightsSource, Vaults};
use toolbooth_server::identify::PERSONA_HEADER;
use toolbooth_server::rest::{self, Reload, RestState};
use toolbooth_store::{Store, StoreUrl};
use toolbooth_upstream::{ServerState, Supervised};
use tower::ServiceExt;

/// How long the catalog may take to include the tools of a connected server.
const CATALOG_PATIENCE: Duration = Duration::from_secs(2);

/// The extra time beyond a server's own timeouts, for stopping it.
const GRACE: Duration = Duration::from_secs(6);

/// The servers that a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerSelection<'a> {
    /// Those that a gateway connects at startup.
    AutoConnected,
    /// All that can run.
    All,
    /// One, by name.
    One(&'a str),
}

/// A gateway inside this process.
pub struct EmbeddedGateway {
    engine: Arc<Engine>,
    router: Router,
    /// The configuration of the gateway.
    pub loaded: LoadedConfig,
    /// The persona of all requests.
    pub persona: Option<String>,
    /// Whether its store is in memory only.
    pub has_temporary_store: bool,
    lifetime: GatewayLifetime,
    // Owned here, because the engine has only a weak reference.
    _rights_source: Arc<dyn RightsSource>,
}

/// The lifetime of an embedded gateway.
enum GatewayLifetime {
    /// One command.
    OneCommand,
    /// A session. Servers are connected automatically only once, so that a server the user disconnects stays so.
    Session(AtomicBool),
}

/// Whether the effects of a command must outlast it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorePersistence {
    /// Required: the command fails without the store.
    Required,
    /// Optional: a store in memory will do.
    BestEffort,
}

impl EmbeddedGateway {
    /// Starts a gateway whose servers are connected only by `connect`.
    pub async fn start(
        sources: &Sources,
        loaded: LoadedConfig,
        persistence: StorePersistence,
    ) -> Result<Self, CommandFailure> {
        let (store, has_temporary_store) = match persistence {
            StorePersistence::BestEffort => open_store(&loaded).await?,
            StorePersistence::Required => {
                (gateway::claim_store(&loaded.settings).await.map_err(CommandFailure::failed)?, false)
            }
        };
        let clock = system_clock();
        // The key of a temporary store cannot decrypt stored tokens, and must not replace them.
        let vaults = match has_temporary_store {
            true => Vaults::in_memory(clock.clone()),
            false => gateway::vaults(&loaded.settings, &store, &clock),
        };
        let mut plans = gateway::plans(&loaded, &vaults);
        for plan in &mut plans {
            if let DesiredState::Run(entry, _) = &mut plan.state {
                let entry = Arc::make_mut(entry);
                entry.auto_connect = false;
                // One attempt only, so that its reason is shown.
                entry.restart = Restart::Never;
            }
        }
        let engine = gateway::engine_of(&loaded, sources, clock, store, plans, None)
            .await
            .map_err(CommandFailure::failed)?;
        // Only this process can reach it, and its user can read the store, so requests are made as the owner.
        let owner = callers::owner(&loaded).map_err(CommandFailure::usage)?;
        let front_end =
            gateway::front_end(engine.clone(), &loaded.settings, owner, None, CancellationToken::new());
        // This gateway does not take over unfinished calls. But a call approved here runs here, with the rights that
        // its caller has by the gateway's settings.
        let rights_source: Arc<dyn RightsSource> = match callers::identity(&loaded) {
            Ok(identity) => {
                gateway::front_end(engine.clone(), &loaded.settings, identity, None, CancellationToken::new())
            }
            Err(_) => front_end.clone(),
        };
        engine.set_rights_source(&rights_source);
        let router = rest::router(RestState::new(front_end, no_reload()));
        let lifetime = GatewayLifetime::OneCommand;
        Ok(Self {
            engine,
            router,
            loaded,
            persona: None,
            has_temporary_store,
            lifetime,
            _rights_source: rights_source,
        })
    }

    /// Keeps the gateway for a session.
    pub fn keep_for_session(&mut self) {
        self.lifetime = GatewayLifetime::Session(AtomicBool::new(false));
    }

    /// Whether the gateway is kept for a session.
    pub fn is_session(&self) -> bool {
        matches!(self.lifetime, GatewayLifetime::Session(_))
    }

    /// Connects servers and waits until each is connected or has failed.
    pub async fn connect(&self, selection: ServerSelection<'_>) {
        if let (GatewayLifetime::Session(started), ServerSelection::AutoConnected) =
            (&self.lifetime, selection)
            && started.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let servers = self.engine.servers().all();
        let chosen: Vec<Arc<Supervised>> = servers
            .iter()
            .filter_map(|(name, managed)| match managed {
                ManagedServer::Running { server, .. } => Some((name.as_str(), server)),
                ManagedServer::Idle(_) => None,
            })
            .filter(|(name, _)| self.is_selected(selection, name))
            .map(|(_, server)| server.clone())
            .collect();
        let what = match chosen.as_slice() {
            [one] => format!("connecting `{}`", one.entry.name),
            many => format!("connecting {}", render::count(many.len(), "server")),
        };
        while_waiting(what, async {
            let connected = join_all(chosen.iter().map(|server| wait_for_server(server))).await;
            let listed = chosen.iter().zip(connected).filter(|(_, connected)| *connected);
            let names: Vec<_> = listed.map(|(server, _)| server.entry.name.clone()).collect();
            let seen = async {
                while !names.iter().all(|name| self.engine.catalog().load().servers().contains_key(name)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(CATALOG_PATIENCE, seen).await;
            // Lets the tasks run that replace the cached lists by the new ones.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn is_selected(&self, selection: ServerSelection<'_>, name: &str) -> bool {
        match selection {
            ServerSelection::All => true,
            ServerSelection::One(one) => one == name,
            ServerSelection::AutoConnected => {
                let entry = self.loaded.server(name).and_then(|server| server.state.entry());
                let is_new =
                    || !self.engine.catalog().load().servers().keys().any(|known| known.as_str() == name);
                entry.is_none_or(|entry| entry.auto_connect && (!entry.lazy || is_new()))
            }
        }
    }

    /// Sends a streaming request and returns the response unread.
    pub async fn stream(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<Response<Body>, CommandFailure> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(persona) = &self.persona {
            request = request.header(&PERSONA_HEADER, persona);
        }
        let request = request.body(body).map_err(|error| inside(&error.to_string()))?;
        match self.router.clone().oneshot(request).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    }

    /// Sends a request and reads the answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<GatewayReply, CommandFailure> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        if let Some(persona) = &self.persona {
            request = request.header(&PERSONA_HEADER, persona);
        }
        let request = request
            .body(Body::new(Full::new(body.unwrap_or_default())))
            .map_err(|error| inside(&error.to_string()))?;
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| inside(&error.to_string()))?;
        Ok(GatewayReply { status, body: body.to_bytes() })
    }

    /// Stops the gateway and every process it started.
    pub async fn close(self) {
        while_waiting("stopping", self.engine.shut_down()).await;
    }
}

/// Waits until a server is connected or has failed. Trying both eras may take longer than one `connect_timeout`.
async fn wait_for_server(server: &Supervised) -> bool {
    let _ = server.ready().await;
    let settled = async {
        while server.state() == ServerState::Connecting {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(server.entry.connect_timeout * 2 + GRACE, settled).await;
    server.state() == ServerState::Connected
}

fn inside(why: &str) -> CommandFailure {
    CommandFailure::failed(Problem {
        code: "request.failed",
        blame: Blame::Gateway,
        message: format!("the gateway could not answer: {why}"),
        hint: None,
    })
}

/// Opens the configured store, or a store in memory if that fails. Returns whether the store is temporary.
async fn open_store(loaded: &LoadedConfig) -> Result<(Arc<dyn Store>, bool), CommandFailure> {
    match gateway::open_store(&loaded.settings).await {
        Ok(store) => return Ok((store, false)),
        Err(problem) if problem.code == "store.in-use" => {}
        Err(problem) => {
            let sentence = render::plain(&problem.message);
            render::complain(&format!("warning[{}]: {sentence}; continuing without it\n", problem.code));
        }
    }
    let memory = toolbooth_store::open(&StoreUrl::Memory).await;
    memory.map(|store| (store, true)).map_err(|error| CommandFailure::failed(Problem::of(&error)))
}

fn no_reload() -> Reload {
    Arc::new(|_| Box::pin(async { Err(not_running()) }))
}

/// The problem of a command that needs a running gateway.
pub fn not_running() -> Problem {
    Problem {
        code: "gateway.not-running",
        blame: Blame::Caller,
        message: "no gateway is running here".into(),
        hint: Some("`toolbooth start` starts one; --url names a remote one".into()),
    }
}
