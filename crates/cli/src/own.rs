//! A gateway of a command's own, for as long as the command runs: the same engine and the same REST
//! routes as a running one, but no socket.

use crate::callers;
use crate::failure::Failure;
use crate::gateway;
use crate::progress::while_waiting;
use crate::remote::Reply;
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
use toolbooth_config::{Loaded, Sources};
use toolbooth_core::fault::{Blame, Problem};
use toolbooth_core::server::Restart;
use toolbooth_engine::engine::Managed;
use toolbooth_engine::{Engine, Roster, Standing, Vaults};
use toolbooth_server::identify::PERSONA_HEADER;
use toolbooth_server::rest::{self, Reload, Rest};
use toolbooth_store::{Store, StoreUrl};
use toolbooth_upstream::{ServerState, Supervised};
use tower::ServiceExt;

/// How long the catalog may take to show what a connected server listed.
const CATALOG_PATIENCE: Duration = Duration::from_secs(2);

/// How much longer than it may a server is waited for: ending it takes time too.
const GRACE: Duration = Duration::from_secs(6);

/// Which servers a command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// Those that a gateway would connect when it starts.
    Started,
    /// Every one that can run at all.
    All,
    /// One, by its name.
    One(&'a str),
}

/// A gateway inside this process.
pub struct Own {
    engine: Arc<Engine>,
    router: Router,
    /// The configuration it was made from.
    pub loaded: Loaded,
    /// The persona it is asked through.
    pub persona: Option<String>,
    /// Whether its store ends with it.
    pub forgets: bool,
    stay: Stay,
    // Kept, since the engine only looks at it: who absent users are.
    _roster: Arc<dyn Roster>,
}

/// How long a gateway of a command's own is there.
enum Stay {
    /// For one answer.
    Answer,
    /// For a session: what starts by itself is started once, so that what a person disconnects stays so.
    Session(AtomicBool),
}

/// Whether what a command does must outlast it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// It must: without the store there is nothing to do.
    Needed,
    /// It would be nice.
    IfPossible,
}

impl Own {
    /// Starts a gateway in which no server runs until it is wanted.
    pub async fn start(sources: &Sources, loaded: Loaded, keeping: Keeping) -> Result<Self, Failure> {
        let (store, forgets) = match keeping {
            Keeping::IfPossible => open_store(&loaded).await?,
            Keeping::Needed => {
                (gateway::claim_store(&loaded.settings).await.map_err(Failure::failed)?, false)
            }
        };
        // Under the key of a store that forgets, nothing that is kept could be opened, and nothing may be replaced.
        let vaults = match forgets {
            true => Vaults::passing(),
            false => gateway::vaults(&loaded.settings, &store),
        };
        let mut plans = gateway::plans(&loaded, &vaults);
        for plan in &mut plans {
            if let Standing::Run(entry, _) = &mut plan.standing {
                let entry = Arc::make_mut(entry);
                entry.auto_connect = false;
                // One try and its reason; a second would hide the first.
                entry.restart = Restart::Never;
            }
        }
        let engine =
            gateway::engine_of(&loaded, sources, store, plans, None).await.map_err(Failure::failed)?;
        // Nobody else can reach it, and whoever can read the store needs no leave: they are its owner.
        let owner = callers::owner(&loaded).map_err(Failure::usage)?;
        let door = gateway::door(engine.clone(), &loaded.settings, owner, None, CancellationToken::new());
        // What others left unfinished is not this command's business, so it takes nothing over. But what is
        // approved here runs here, with the rights its caller has by the gateway's own settings.
        let roster: Arc<dyn Roster> = match callers::identity(&loaded) {
            Ok(identity) => {
                gateway::door(engine.clone(), &loaded.settings, identity, None, CancellationToken::new())
            }
            Err(_) => door.clone(),
        };
        engine.set_roster(&roster);
        let router = rest::router(Rest::new(door, no_reload()));
        let stay = Stay::Answer;
        Ok(Self { engine, router, loaded, persona: None, forgets, stay, _roster: roster })
    }

    /// Keeps it for many answers from now on.
    pub fn settle_in(&mut self) {
        self.stay = Stay::Session(AtomicBool::new(false));
    }

    /// Whether it is there for more than one answer.
    pub fn stays(&self) -> bool {
        matches!(self.stay, Stay::Session(_))
    }

    /// Connects servers and waits until each is connected or known not to be.
    pub async fn connect(&self, wanted: Wanted<'_>) {
        if let (Stay::Session(started), Wanted::Started) = (&self.stay, wanted)
            && started.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let servers = self.engine.servers();
        let chosen: Vec<Arc<Supervised>> = servers
            .iter()
            .filter_map(|(name, managed)| match managed {
                Managed::Running { server, .. } => Some((name.as_str(), server)),
                Managed::Idle(_) => None,
            })
            .filter(|(name, _)| self.is_wanted(wanted, name))
            .map(|(_, server)| server.clone())
            .collect();
        let what = match chosen.as_slice() {
            [one] => format!("connecting `{}`", one.entry.name),
            many => format!("connecting {}", render::count(many.len(), "server")),
        };
        while_waiting(what, async {
            let connected = join_all(chosen.iter().map(|server| settle(server))).await;
            let listed = chosen.iter().zip(connected).filter(|(_, connected)| *connected);
            let names: Vec<_> = listed.map(|(server, _)| server.entry.name.clone()).collect();
            let seen = async {
                while !names.iter().all(|name| self.engine.catalog().servers().contains_key(name)) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(CATALOG_PATIENCE, seen).await;
            // What was cached may just be being replaced by what was listed: two tasks hand it on.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn is_wanted(&self, wanted: Wanted<'_>, name: &str) -> bool {
        match wanted {
            Wanted::All => true,
            Wanted::One(one) => one == name,
            Wanted::Started => {
                let entry = self.loaded.server(name).and_then(|server| server.state.entry());
                let is_new = || !self.engine.catalog().servers().keys().any(|known| known.as_str() == name);
                entry.is_none_or(|entry| entry.auto_connect && (!entry.lazy || is_new()))
            }
        }
    }

    /// Sends something that comes piece by piece, and leaves the answer to be read likewise.
    pub async fn stream(&self, method: Method, path: &str, body: Body) -> Result<Response<Body>, Failure> {
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

    /// Asks something.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Reply, Failure> {
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
        Ok(Reply { status, body: body.to_bytes() })
    }

    /// Ends it and every process it started.
    pub async fn close(self) {
        while_waiting("stopping", self.engine.shut_down()).await;
    }
}

/// Waits until a server is connected or known not to be. A handshake in two eras may take longer than
/// one `connect_timeout`.
async fn settle(server: &Supervised) -> bool {
    let _ = server.ready().await;
    let settled = async {
        while server.state() == ServerState::Connecting {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(server.entry.connect_timeout * 2 + GRACE, settled).await;
    server.state() == ServerState::Connected
}

fn inside(why: &str) -> Failure {
    Failure::failed(Problem {
        code: "request.failed",
        blame: Blame::Gateway,
        message: format!("the gateway could not answer: {why}"),
        hint: None,
    })
}

/// The store of the configuration; another command may hold it just now, and then nothing is kept.
async fn open_store(loaded: &Loaded) -> Result<(Arc<dyn Store>, bool), Failure> {
    match gateway::open_store(&loaded.settings).await {
        Ok(store) => return Ok((store, false)),
        Err(problem) if problem.code == "store.in-use" => {}
        Err(problem) => {
            let sentence = render::plain(&problem.message);
            render::complain(&format!("warning[{}]: {sentence}; going on without it\n", problem.code));
        }
    }
    let memory = toolbooth_store::open(&StoreUrl::Memory).await;
    memory.map(|store| (store, true)).map_err(|error| Failure::failed(Problem::of(&error)))
}

fn no_reload() -> Reload {
    Arc::new(|_| Box::pin(async { Err(not_running()) }))
}

/// A command needs a gateway that runs, and none does.
pub fn not_running() -> Problem {
    Problem {
        code: "gateway.not-running",
        blame: Blame::Caller,
        message: "no gateway is running here".into(),
        hint: Some("`toolbooth serve` starts one; --url names one elsewhere".into()),
    }
}
