//! The engine: everything that lives while the gateway runs, and what doors may ask of it.

use crate::cached;
use crate::changes::Change;
use crate::clock;
use crate::clock::now_ms;
use crate::dead_letters::LetterRoom;
use crate::events::Events;
use crate::exposure::SurfaceTally;
use crate::files::{FileRoom, Files, Grant};
use crate::health::Health;
use crate::keeper::{CatalogKeeper, Part};
use crate::keys::sealing_key;
use crate::manifests::ManifestState;
use crate::memory::Memory;
use crate::newcomers::{Knowledge, Newcomers};
use crate::own::Seats;
use crate::parked::ParkingLot;
use crate::plan::{ServerPlan, Standing, wanted_headers};
use crate::record::Tally;
use crate::refusals::Refusals;
use crate::rights::Deferred;
use crate::roster::Roster;
use crate::routing::{Routing, keyed};
use crate::run::CallIds;
use crate::shown::Shown;
use crate::state::States;
use crate::subscriptions::Subscriptions;
use crate::terms::Terms;
use crate::trace::Tracing;
use crate::waiting_room::WaitingRoom;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as PlainMutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard, Semaphore, broadcast, mpsc};
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::inject::{FileBook, Files as FileNames, Identity, McpData, NoFiles};
use toolbooth_core::call::{CallFault, Injector, Judged, Moment, Sealed, seal};
use toolbooth_core::catalog::{Catalog, ListKind, Naming, Tool};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::sampling::DayBook;
use toolbooth_core::secret::SecretText;
use toolbooth_store::{Store, StoreError};
use toolbooth_upstream::open::Surroundings;
use toolbooth_upstream::{Context, ServerEvent, ServerState, Start, Supervised, UpstreamError};
use toolbooth_wire::Era;

/// How many servers connect at once.
const CONNECT_AT_ONCE: usize = 64;
/// How long what a server offered is kept when no configuration names it any more.
const FORGOTTEN_AFTER_MS: i64 = 30 * 24 * 3600 * 1000;
/// How many changes a slow client may lag behind before it is told to look at everything anew.
const CHANGE_BACKLOG: usize = 256;

/// What the configuration says to the engine, servers aside.
#[derive(Debug, Clone)]
pub struct Options {
    /// How tools are named toward clients.
    pub naming: Naming,
    /// The longest a call may take, whatever its server says.
    pub max_call: Duration,
    /// The key that arguments of dead letters are encrypted with; one that the store keeps, where absent.
    pub letter_key: Option<SecretText>,
    /// How many events are kept for those who come back.
    pub event_ring: usize,
    /// How many tools are taken from one server.
    pub tools_per_server: usize,
    /// The longest `_mcp_data` that a tool is given.
    pub mcp_data_bytes: usize,
}

/// A server as the engine holds it.
#[derive(Debug, Clone)]
pub enum Managed {
    /// Under supervision.
    Running {
        /// The hash of its entry.
        hash: String,
        /// The server.
        server: Arc<Supervised>,
    },
    /// Not run: disabled, broken or not trusted.
    Idle(ServerState),
}

impl Managed {
    /// Where the server stands.
    pub fn state(&self) -> ServerState {
        match self {
            Self::Running { server, .. } => server.state(),
            Self::Idle(state) => state.clone(),
        }
    }
}

/// The living gateway.
pub struct Engine {
    options: Options,
    store: Arc<dyn Store>,
    catalog: ArcSwap<Catalog>,
    servers: ArcSwap<BTreeMap<ServerName, Managed>>,
    context: Context,
    parts: mpsc::Sender<Part>,
    newcomers: Arc<Newcomers>,
    changes: broadcast::Sender<Change>,
    manifests: ManifestState,
    terms: ArcSwap<Terms>,
    memory: Memory,
    day_book: Arc<PlainMutex<DayBook>>,
    waiting_room: Arc<WaitingRoom>,
    roster: OnceLock<Weak<dyn Roster>>,
    pub(crate) deferred: Deferred,
    blank_call: AuditEntry,
    injectors: Vec<Box<dyn Injector>>,
    routing: Routing,
    itself: Weak<Engine>,
    files: Arc<Files>,
    tally: Arc<Tally>,
    states: States,
    parking: ParkingLot,
    letters: LetterRoom,
    health: Health,
    shown: Shown,
    pub(crate) refusals: Refusals,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) events: Arc<Events>,
    pub(crate) tracing: Tracing,
    started: Instant,
    own_seats: Seats,
    surface_tally: SurfaceTally,
    /// One reload at a time.
    applying: Mutex<()>,
    wanted_headers: ArcSwapOption<Vec<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("revision", &self.catalog.load().revision).finish_non_exhaustive()
    }
}

/// What one reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Applied {
    /// Servers that came.
    pub added: Vec<ServerName>,
    /// Servers that were started anew because their entry changed.
    pub restarted: Vec<ServerName>,
    /// Servers that went.
    pub removed: Vec<ServerName>,
    /// Servers that were left alone.
    pub unchanged: usize,
}

/// What the store knows of servers that start, by name.
type KnownDiscoveries = HashMap<ServerName, (Option<Era>, cached::Kept)>;

/// Servers of a configuration that can be put in force.
pub struct PreparedPlans<'a> {
    plans: Vec<ServerPlan>,
    known: KnownDiscoveries,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl std::fmt::Debug for PreparedPlans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedPlans").field("plans", &self.plans).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts an engine: the cached catalog at once, servers on their way.
    pub async fn start(
        options: Options,
        terms: Terms,
        store: Arc<dyn Store>,
        room: FileRoom,
        surroundings: Surroundings,
        plans: Vec<ServerPlan>,
    ) -> Result<Arc<Self>, Problem> {
        clock::resume(store.latest_clock().await?);
        let memory = Memory::load(&*store).await?;
        let files = Files::open(room, store.clone()).await?;
        let file_names = FileNames::new(files.terms().unknown);
        let key = sealing_key(&*store, "request-state-key").await?;
        let states = States::new(&key, store.clone());
        let mcp_data = McpData::with_budget(options.mcp_data_bytes);
        let (events, news) = mpsc::channel(1024);
        let (parts, inbox) = mpsc::channel(64);
        let (changes, _) = broadcast::channel(CHANGE_BACKLOG);
        let context = Context {
            surroundings: Arc::new(surroundings),
            events,
            slots: Arc::new(Semaphore::new(CONNECT_AT_ONCE)),
        };
        let health = Health::load(&*store).await?;
        let letters = LetterRoom::new(options.letter_key.clone());
        let engine = Arc::new_cyclic(|itself| Self {
            events: Events::new(options.event_ring),
            tracing: Tracing::default(),
            started: Instant::now(),
            options,
            store,
            catalog: ArcSwap::default(),
            servers: ArcSwap::default(),
            context,
            parts,
            newcomers: Arc::default(),
            changes,
            manifests: ManifestState::default(),
            terms: ArcSwap::from_pointee(terms),
            memory,
            day_book: Arc::default(),
            waiting_room: Arc::default(),
            roster: OnceLock::new(),
            deferred: Deferred::default(),
            blank_call: AuditEntry::new(0, "call", "", ""),
            injectors: vec![Box::new(Identity), Box::new(mcp_data), Box::new(file_names)],
            routing: Routing::default(),
            itself: itself.clone(),
            files,
            tally: Arc::default(),
            states,
            parking: ParkingLot::default(),
            letters,
            health,
            shown: Shown::default(),
            refusals: Refusals::default(),
            subscriptions: Subscriptions::default(),
            own_seats: Seats::default(),
            surface_tally: SurfaceTally::default(),
            applying: Mutex::new(()),
            wanted_headers: ArcSwapOption::empty(),
        });
        tokio::spawn(CatalogKeeper::new(Arc::downgrade(&engine)).run(inbox));
        tokio::spawn(hear(Arc::downgrade(&engine), news));
        // First, so that no server's tool has the name of one of ours.
        engine.offer_own_tools().await;
        let prepared = engine.prepare(plans).await?;
        engine.apply(prepared).await;
        Ok(engine)
    }

    /// Reads from the store what other servers need. All that can fail of [`Self::apply`] is done here, so that a
    /// reload that fails has changed nothing. Until the plans are applied or dropped, no others are prepared.
    pub async fn prepare(&self, plans: Vec<ServerPlan>) -> Result<PreparedPlans<'_>, StoreError> {
        let one_at_a_time = self.applying.lock().await;
        let known = self.known_discoveries(&plans, &self.servers.load_full()).await?;
        Ok(PreparedPlans { plans, known, _one_at_a_time: one_at_a_time })
    }

    /// Brings the servers in line with the configuration. Those whose entry is the same are left alone.
    pub async fn apply(&self, prepared: PreparedPlans<'_>) -> Applied {
        let PreparedPlans { plans, known, _one_at_a_time } = prepared;
        let before = self.servers.load_full();
        self.wanted_headers.store(wanted_headers(&plans).map(Arc::new));
        let mut applied = Applied::default();
        let mut after = BTreeMap::new();
        let mut leaving: Vec<Arc<Supervised>> = Vec::new();
        let mut parts = Vec::new();
        for ServerPlan { name, hash, standing } in plans {
            let earlier = match before.get(&name) {
                Some(Managed::Running { hash: running, server })
                    if *running == hash && matches!(standing, Standing::Run(..)) =>
                {
                    applied.unchanged += 1;
                    after.insert(name, Managed::Running { hash, server: server.clone() });
                    continue;
                }
                Some(Managed::Running { server, .. }) => {
                    self.emit_state(&name, &ServerState::Disconnected);
                    leaving.push(server.clone());
                    true
                }
                other => other.is_some(),
            };
            match standing {
                Standing::Idle(state) => {
                    parts.push(Part::Gone(name.clone()));
                    after.insert(name, Managed::Idle(state));
                }
                Standing::Run(entry, credential) => {
                    let found = known.get(&name);
                    match found {
                        Some((_, kept)) => {
                            parts.push(Part::Cached { entry: entry.clone(), kept: kept.clone() });
                        }
                        // What another server offered under this name is not this one's.
                        None => parts.push(Part::Gone(name.clone())),
                    }
                    if earlier {
                        applied.restarted.push(name.clone())
                    } else {
                        applied.added.push(name.clone())
                    }
                    let hint = found.and_then(|(era, _)| *era);
                    let is_new = found.is_none() && !self.catalog().servers().contains_key(&name);
                    // A lazy server that nobody has ever heard could not be called: it is started once.
                    let start = match entry.auto_connect && (is_new || !entry.lazy) {
                        true => Start::AtOnce,
                        false => Start::OnDemand,
                    };
                    if start == Start::AtOnce {
                        self.emit_state(&name, &ServerState::Connecting);
                    }
                    let server = Supervised::start(entry, hint, credential, start, &self.context);
                    if start == Start::AtOnce && !server.entry.lazy {
                        let knowledge = if is_new { Knowledge::Nothing } else { Knowledge::Earlier };
                        self.newcomers.expect(&server, knowledge);
                    }
                    after.insert(name, Managed::Running { hash, server });
                }
            }
        }
        for (name, managed) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            applied.removed.push(name.clone());
            parts.push(Part::Gone(name.clone()));
            if let Managed::Running { server, .. } = managed {
                self.emit_state(name, &ServerState::Disconnected);
                leaving.push(server.clone());
            }
        }
        self.servers.store(Arc::new(after));
        self.offer(Part::Many(parts)).await;
        futures_util::future::join_all(leaving.iter().map(|server| server.stop())).await;
        applied
    }

    /// The headers that any server wants of callers; nothing, where none wants any.
    pub fn wanted_headers(&self) -> arc_swap::Guard<Option<Arc<Vec<String>>>> {
        self.wanted_headers.load()
    }

    /// What servers that start now offered last time.
    async fn known_discoveries(
        &self,
        plans: &[ServerPlan],
        before: &BTreeMap<ServerName, Managed>,
    ) -> Result<KnownDiscoveries, StoreError> {
        let starts = |plan: &ServerPlan| {
            matches!(plan.standing, Standing::Run(..))
                && !matches!(before.get(&plan.name), Some(Managed::Running { hash, .. }) if *hash == plan.hash)
        };
        let starting: Vec<&ServerName> =
            plans.iter().filter(|plan| starts(plan)).map(|plan| &plan.name).collect();
        if starting.is_empty() {
            return Ok(HashMap::new());
        }
        let mut known = HashMap::new();
        let mut stale = Vec::new();
        let long_ago = now_ms() - FORGOTTEN_AFTER_MS;
        for record in self.store.discoveries().await? {
            match plans.iter().find(|plan| plan.name == record.server).map(|plan| &plan.standing) {
                // Another server under the name of one that is gone.
                Some(Standing::Run(entry, _)) if cached::source_of(entry) != record.entry_hash => {
                    stale.push(record.server);
                    continue;
                }
                // Another configuration may share the store, so not at once.
                None if record.saved_at_ms < long_ago => {
                    stale.push(record.server);
                    continue;
                }
                _ => {}
            }
            if starting.contains(&&record.server)
                && let Ok(text) = RawJson::parse(record.payload)
                && let Some(kept) = cached::read(&text)
            {
                known.insert(record.server, (Era::from_word(&record.era), kept));
            }
        }
        for server in stale {
            self.store.forget_discovery(&server).await?;
        }
        Ok(known)
    }

    /// Hands news to the keeper of the catalog and waits until it is in.
    pub(crate) async fn offer(&self, part: Part) {
        let (done, kept) = tokio::sync::oneshot::channel();
        if self.parts.send(Part::Then(Box::new(part), done)).await.is_ok() {
            let _ = kept.await;
        }
    }

    pub(crate) fn manifest_state(&self) -> &ManifestState {
        &self.manifests
    }

    /// The catalog now.
    pub fn catalog(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.catalog.load()
    }

    /// The same for those who keep it while they wait for something.
    pub fn catalog_now(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    pub(crate) fn newcomers(&self) -> &Arc<Newcomers> {
        &self.newcomers
    }

    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.follow_providers(&catalog);
        self.catalog.store(Arc::new(catalog));
    }

    /// All servers, by name.
    pub fn servers(&self) -> Arc<BTreeMap<ServerName, Managed>> {
        self.servers.load_full()
    }

    /// A server that can be asked.
    pub fn server(&self, name: &ServerName) -> Result<Arc<Supervised>, UpstreamError> {
        match self.servers.load().get(name) {
            Some(Managed::Running { server, .. }) => Ok(server.clone()),
            other => Err(UpstreamError::NotConnected {
                server: name.to_string(),
                state: other.map_or("gone", |managed| managed.state().as_str()),
                reason: "it is not running".into(),
                retry_in: None,
            }),
        }
    }

    /// Changes that clients may want to hear of, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Tells clients that their lists may be others now: not the catalog changed, but who may see what.
    pub fn announce_all_lists(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.announce(Change::List(kind));
        }
    }

    pub(crate) fn announce(&self, change: Change) {
        let _ = self.changes.send(change);
    }

    /// What the configuration says.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Durable state.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Files of callers.
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// How calls ended.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// How long the gateway has run.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Request states.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// Calls that wait for their client to come back.
    pub fn parking(&self) -> &ParkingLot {
        &self.parking
    }

    /// How calls ended lately, by tool and by provider.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What clients were shown of the catalog.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    pub(crate) fn letters(&self) -> &LetterRoom {
        &self.letters
    }

    /// The terms calls are made on.
    pub fn terms(&self) -> arc_swap::Guard<Arc<Terms>> {
        self.terms.load()
    }

    /// Puts other terms in force, for every call from now on.
    pub fn set_terms(&self, mut terms: Terms) {
        let earlier = self.terms().encoder.clone();
        terms.encoder = terms.encoder.map(|encoder| encoder.or_earlier(earlier.as_ref()));
        self.terms.store(Arc::new(terms));
        // Clients may be shown more or less now; each stream looks at its own list.
        self.announce(Change::List(ListKind::Tools));
    }

    /// Says who knows users that are not there. The first one stands.
    pub fn set_roster(&self, roster: &Arc<dyn Roster>) {
        let _ = self.roster.set(Arc::downgrade(roster));
    }

    pub(crate) fn roster(&self) -> Option<Arc<dyn Roster>> {
        self.roster.get().and_then(Weak::upgrade)
    }

    /// How often what clients are shown has changed.
    pub fn surface_tally(&self) -> &SurfaceTally {
        &self.surface_tally
    }

    pub(crate) fn own_seats(&self) -> &Seats {
        &self.own_seats
    }

    /// Where the gateway's own executable is.
    pub(crate) fn own_executable(&self) -> &std::path::Path {
        &self.context.surroundings.own_executable
    }

    /// What servers have used of the gateway's model today. Reloads do not reset it.
    pub(crate) fn day_book(&self) -> &Arc<PlainMutex<DayBook>> {
        &self.day_book
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        self.itself.clone()
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn waiting_room(&self) -> &Arc<WaitingRoom> {
        &self.waiting_room
    }

    /// The parts of an audit entry that all calls share, so that they are made once.
    pub(crate) fn blank_call_entry(&self) -> AuditEntry {
        self.blank_call.clone()
    }

    /// Accepts a tool as it is at its first use.
    pub(crate) fn pin_first_use(&self, tool: &Tool) {
        if tool.server.is_own() {
            return;
        }
        if let Some(pin) = self.memory.first_use(tool) {
            let store = self.store.clone();
            tokio::spawn(async move {
                if let Err(error) = store.save_pins(vec![pin]).await {
                    tracing::error!("a definition was not kept as accepted: {error}");
                }
            });
        }
    }

    /// Stage 6: supplies what is the gateway's to give, by the catalog of this moment.
    pub(crate) fn seal(
        &self,
        judged: Judged,
        ids: CallIds,
        grant: Option<&Grant>,
    ) -> Result<Sealed, CallFault> {
        let catalog = self.catalog();
        let call_id = || ids.call.to_string();
        let files: &dyn FileBook = grant.map_or(&NoFiles, |grant| grant);
        let moment = Moment { catalog: &catalog, call_id: &call_id, files };
        Ok(keyed(seal(judged, &self.injectors, &moment)?, ids.key))
    }

    /// Ends every server and flushes the store.
    pub async fn shut_down(&self) {
        let servers = self.servers.swap(Arc::default());
        let stopping = servers.values().filter_map(|managed| match managed {
            Managed::Running { server, .. } => Some(server.stop()),
            Managed::Idle(_) => None,
        });
        futures_util::future::join_all(stopping).await;
        self.save_health().await;
        self.save_clock().await;
        self.events.end_webhooks().await;
        self.tracing.end().await;
        let _ = self.store.flush().await;
        self.store.close().await;
    }
}

/// Passes news of servers on to those it concerns.
async fn hear(engine: Weak<Engine>, mut news: mpsc::Receiver<ServerEvent>) {
    while let Some(event) = news.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        match event {
            ServerEvent::State(name, state) => {
                tracing::info!(server.name = %name, "server `{name}` is {}", state.as_str());
                engine.emit_state(&name, &state);
            }
            ServerEvent::Discovered { server, discovery, era, kept } => {
                let news = Part::Discovered { server: server.clone(), discovery, era };
                let _ = engine.parts.send(Part::Then(Box::new(news), kept)).await;
                engine.renew_subscriptions(&server);
            }
            ServerEvent::ResourceUpdated { server, params } => {
                engine.announce(Change::Resource { server, params })
            }
        }
    }
}
