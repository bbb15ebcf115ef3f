//! The engine: the state of a running gateway, and the methods that its doors (MCP, REST, control socket) call.

use crate::call_metrics::CallMetrics;
use crate::call_record::CallIds;
use crate::changes::ChangeNotice;
use crate::clock;
use crate::clock::now_ms;
use crate::dead_letters::DeadLetterState;
use crate::decision_cache::DecisionCache;
use crate::desired_server::{DesiredServer, DesiredState, wanted_headers};
use crate::discovery_cache;
use crate::events::EventRing;
use crate::exposure::SurfaceTally;
use crate::exposure_stats::ExposureStats;
use crate::files::{CallerFiles, FileGrant, FileStorage};
use crate::health::HealthMonitor;
use crate::keeper::{CatalogKeeper, CatalogUpdate};
use crate::keys::sealing_key;
use crate::manifests::ManifestState;
use crate::own::OwnToolLimits;
use crate::parked::ParkingLot;
use crate::refusals::RefusalLog;
use crate::request_state::RequestStates;
use crate::rights::DeferredCalls;
use crate::roster::Roster;
use crate::routing::{Routing, keyed};
use crate::startup_wait::{Knowledge, StartingServers};
use crate::subscriptions::Subscriptions;
use crate::terms::Terms;
use crate::trace::Tracing;
use crate::waiting_room::WaitingRoom;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex as PlainMutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Semaphore, broadcast, mpsc};
use tokio::time::Instant;
use toolbooth_core::audit::AuditEntry;
use toolbooth_core::call::inject::{FileInjector, FileUrlSource, IdentityInjector, McpDataInjector, NoFiles};
use toolbooth_core::call::{CallFault, Injector, Judged, SealContext, Sealed, seal};
use toolbooth_core::catalog::{Catalog, ListKind, Naming, Tool};
use toolbooth_core::fault::Problem;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::sampling::TokenBudget;
use toolbooth_core::secret::SecretText;
use toolbooth_store::{Store, StoreError};
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::{ServerEvent, ServerState, Start, Supervised, SupervisorContext, UpstreamError};
use toolbooth_wire::Era;

/// The maximum number of servers that connect at the same time.
const CONNECT_AT_ONCE: usize = 64;
/// How long the cached discovery of a server is kept after it has left the configuration.
const DISCOVERY_RETENTION_MS: i64 = 30 * 24 * 3600 * 1000;
/// The number of change notices that a slow client may lag behind before it has to reload all lists.
const CHANGE_BACKLOG: usize = 256;

/// Settings of the engine that only a restart changes, except the servers.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How the names of tools are formed.
    pub naming: Naming,
    /// The hard limit on the duration of a call.
    pub max_call: Duration,
    /// The encryption key of dead letters; without one, a key in the store is used.
    pub letter_key: Option<SecretText>,
    /// The number of events that are kept for clients that reconnect.
    pub event_ring: usize,
    /// The maximum number of tools of one server.
    pub tools_per_server: usize,
    /// The size limit of the injected `_mcp_data`.
    pub mcp_data_bytes: usize,
}

/// A configured server.
#[derive(Debug, Clone)]
pub enum ManagedServer {
    /// Running or able to run: under supervision.
    Running {
        /// The hash of its configuration entry.
        hash: String,
        /// The server.
        server: Arc<Supervised>,
    },
    /// Not run: disabled, invalid or not trusted.
    Idle(ServerState),
}

impl ManagedServer {
    /// The state of the server.
    pub fn state(&self) -> ServerState {
        match self {
            Self::Running { server, .. } => server.state(),
            Self::Idle(state) => state.clone(),
        }
    }
}

/// A running gateway.
pub struct Engine {
    options: EngineOptions,
    store: Arc<dyn Store>,
    catalog: ArcSwap<Catalog>,
    servers: ArcSwap<BTreeMap<ServerName, ManagedServer>>,
    context: SupervisorContext,
    catalog_updates: mpsc::Sender<CatalogUpdate>,
    starting_servers: Arc<StartingServers>,
    changes: broadcast::Sender<ChangeNotice>,
    manifests: ManifestState,
    terms: ArcSwap<Terms>,
    decisions: DecisionCache,
    day_book: Arc<PlainMutex<TokenBudget>>,
    waiting_room: Arc<WaitingRoom>,
    roster: OnceLock<Weak<dyn Roster>>,
    pub(crate) deferred: DeferredCalls,
    blank_call: AuditEntry,
    injectors: Vec<Box<dyn Injector>>,
    routing: Routing,
    itself: Weak<Engine>,
    files: Arc<CallerFiles>,
    call_metrics: Arc<CallMetrics>,
    states: RequestStates,
    parking: ParkingLot,
    letters: DeadLetterState,
    health: HealthMonitor,
    exposure_stats: ExposureStats,
    pub(crate) refusals: RefusalLog,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) events: Arc<EventRing>,
    pub(crate) tracing: Tracing,
    started: Instant,
    own_tool_limits: OwnToolLimits,
    surface_tally: SurfaceTally,
    /// Held during a reload, so that reloads run one at a time.
    applying: Mutex<()>,
    wanted_headers: ArcSwapOption<Vec<String>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("revision", &self.catalog.load().revision).finish_non_exhaustive()
    }
}

/// The changes made by a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ReloadReport {
    /// Servers that are new.
    pub added: Vec<ServerName>,
    /// Servers that were restarted because their entry changed.
    pub restarted: Vec<ServerName>,
    /// Servers that were removed.
    pub removed: Vec<ServerName>,
    /// The number of servers that did not change.
    pub unchanged: usize,
}

/// Cached discoveries of servers that are about to start, by name.
type KnownDiscoveries = HashMap<ServerName, (Option<Era>, discovery_cache::CachedDiscovery)>;

/// The servers of a configuration, ready to be applied.
pub struct PreparedServers<'a> {
    servers: Vec<DesiredServer>,
    known: KnownDiscoveries,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl std::fmt::Debug for PreparedServers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedServers").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts an engine. The cached catalog is available at once; servers connect in the background.
    pub async fn start(
        options: EngineOptions,
        terms: Terms,
        store: Arc<dyn Store>,
        room: FileStorage,
        open_context: OpenContext,
        servers: Vec<DesiredServer>,
    ) -> Result<Arc<Self>, Problem> {
        clock::resume(store.latest_clock().await?);
        let decisions = DecisionCache::load(&*store).await?;
        let files = CallerFiles::open(room, store.clone()).await?;
        let file_names = FileInjector::new(files.terms().unknown);
        let key = sealing_key(&*store, "request-state-key").await?;
        let states = RequestStates::new(&key, store.clone());
        let mcp_data = McpDataInjector::with_budget(options.mcp_data_bytes);
        let (events, server_events) = mpsc::channel(1024);
        let (catalog_updates, inbox) = mpsc::channel(64);
        let (changes, _) = broadcast::channel(CHANGE_BACKLOG);
        let context = SupervisorContext {
            open_context: Arc::new(open_context),
            events,
            slots: Arc::new(Semaphore::new(CONNECT_AT_ONCE)),
        };
        let health = HealthMonitor::load(&*store).await?;
        let letters = DeadLetterState::new(options.letter_key.clone());
        let engine = Arc::new_cyclic(|itself| Self {
            events: EventRing::new(options.event_ring),
            tracing: Tracing::default(),
            started: Instant::now(),
            options,
            store,
            catalog: ArcSwap::default(),
            servers: ArcSwap::default(),
            context,
            catalog_updates,
            starting_servers: Arc::default(),
            changes,
            manifests: ManifestState::default(),
            terms: ArcSwap::from_pointee(terms),
            decisions,
            day_book: Arc::default(),
            waiting_room: Arc::default(),
            roster: OnceLock::new(),
            deferred: DeferredCalls::default(),
            blank_call: AuditEntry::new(0, "call", "", ""),
            injectors: vec![Box::new(IdentityInjector), Box::new(mcp_data), Box::new(file_names)],
            routing: Routing::default(),
            itself: itself.clone(),
            files,
            call_metrics: Arc::default(),
            states,
            parking: ParkingLot::default(),
            letters,
            health,
            exposure_stats: ExposureStats::default(),
            refusals: RefusalLog::default(),
            subscriptions: Subscriptions::default(),
            own_tool_limits: OwnToolLimits::default(),
            surface_tally: SurfaceTally::default(),
            applying: Mutex::new(()),
            wanted_headers: ArcSwapOption::empty(),
        });
        tokio::spawn(CatalogKeeper::new(Arc::downgrade(&engine)).run(inbox));
        tokio::spawn(forward_server_events(Arc::downgrade(&engine), server_events));
        // First, so that no server can take the name of one of the gateway's own tools.
        engine.offer_own_tools().await;
        let prepared = engine.prepare(servers).await?;
        engine.apply(prepared).await;
        Ok(engine)
    }

    /// Reads what the servers need from the store. Everything in a reload that can fail happens here, so that a
    /// failed reload changes nothing. Other reloads wait until the result is applied or dropped.
    pub async fn prepare(&self, servers: Vec<DesiredServer>) -> Result<PreparedServers<'_>, StoreError> {
        let one_at_a_time = self.applying.lock().await;
        let known = self.known_discoveries(&servers, &self.servers.load_full()).await?;
        Ok(PreparedServers { servers, known, _one_at_a_time: one_at_a_time })
    }

    /// Starts, restarts and stops servers as configured. Servers whose entry did not change are not touched.
    pub async fn apply(&self, prepared: PreparedServers<'_>) -> ReloadReport {
        let PreparedServers { servers, known, _one_at_a_time } = prepared;
        let before = self.servers.load_full();
        self.wanted_headers.store(wanted_headers(&servers).map(Arc::new));
        let mut report = ReloadReport::default();
        let mut after = BTreeMap::new();
        let mut leaving: Vec<Arc<Supervised>> = Vec::new();
        let mut updates = Vec::new();
        for DesiredServer { name, hash, state } in servers {
            let was_known = match before.get(&name) {
                Some(ManagedServer::Running { hash: running, server })
                    if *running == hash && matches!(state, DesiredState::Run(..)) =>
                {
                    report.unchanged += 1;
                    after.insert(name, ManagedServer::Running { hash, server: server.clone() });
                    continue;
                }
                Some(ManagedServer::Running { server, .. }) => {
                    self.emit_state(&name, &ServerState::Disconnected);
                    leaving.push(server.clone());
                    true
                }
                other => other.is_some(),
            };
            match state {
                DesiredState::Idle(state) => {
                    updates.push(CatalogUpdate::Removed(name.clone()));
                    after.insert(name, ManagedServer::Idle(state));
                }
                DesiredState::Run(entry, credential) => {
                    let found = known.get(&name);
                    match found {
                        Some((_, cached)) => {
                            let (entry, cached) = (entry.clone(), cached.clone());
                            updates.push(CatalogUpdate::Cached { entry, cached });
                        }
                        // Another server may have been cached under this name: its tools must not be shown.
                        None => updates.push(CatalogUpdate::Removed(name.clone())),
                    }
                    if was_known {
                        report.restarted.push(name.clone())
                    } else {
                        report.added.push(name.clone())
                    }
                    let hint = found.and_then(|(era, _)| *era);
                    let is_new = found.is_none() && !self.catalog().servers().contains_key(&name);
                    // A lazy server whose tools are unknown could not be called: it is started once to list them.
                    let start = match entry.auto_connect && (is_new || !entry.lazy) {
                        true => Start::AtOnce,
                        false => Start::OnDemand,
                    };
                    if start == Start::AtOnce {
                        self.emit_state(&name, &ServerState::Connecting);
                    }
                    let server = Supervised::start(entry, hint, credential, start, &self.context);
                    if start == Start::AtOnce && !server.entry.lazy {
                        let knowledge = if is_new { Knowledge::Nothing } else { Knowledge::Cached };
                        self.starting_servers.add(&server, knowledge);
                    }
                    after.insert(name, ManagedServer::Running { hash, server });
                }
            }
        }
        for (name, managed) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
            report.removed.push(name.clone());
            updates.push(CatalogUpdate::Removed(name.clone()));
            if let ManagedServer::Running { server, .. } = managed {
                self.emit_state(name, &ServerState::Disconnected);
                leaving.push(server.clone());
            }
        }
        self.servers.store(Arc::new(after));
        self.update_catalog(CatalogUpdate::Batch(updates)).await;
        futures_util::future::join_all(leaving.iter().map(|server| server.stop())).await;
        report
    }

    /// The request headers of callers that any server wants forwarded; `None` if no server does.
    pub fn wanted_headers(&self) -> arc_swap::Guard<Option<Arc<Vec<String>>>> {
        self.wanted_headers.load()
    }

    /// The cached discoveries of servers that are about to start.
    async fn known_discoveries(
        &self,
        desired: &[DesiredServer],
        before: &BTreeMap<ServerName, ManagedServer>,
    ) -> Result<KnownDiscoveries, StoreError> {
        let starts = |server: &DesiredServer| {
            matches!(server.state, DesiredState::Run(..))
                && !matches!(before.get(&server.name), Some(ManagedServer::Running { hash, .. }) if *hash == server.hash)
        };
        let starting: Vec<&ServerName> =
            desired.iter().filter(|server| starts(server)).map(|server| &server.name).collect();
        if starting.is_empty() {
            return Ok(HashMap::new());
        }
        let mut known = HashMap::new();
        let mut stale = Vec::new();
        let expired_before = now_ms() - DISCOVERY_RETENTION_MS;
        for record in self.store.discoveries().await? {
            match desired.iter().find(|server| server.name == record.server).map(|server| &server.state) {
                // The name now belongs to another server.
                Some(DesiredState::Run(entry, _))
                    if discovery_cache::source_of(entry) != record.entry_hash =>
                {
                    stale.push(record.server);
                    continue;
                }
                // Kept for a while, because another configuration may share the store.
                None if record.saved_at_ms < expired_before => {
                    stale.push(record.server);
                    continue;
                }
                _ => {}
            }
            if starting.contains(&&record.server)
                && let Ok(text) = RawJson::parse(record.payload)
                && let Some(cached) = discovery_cache::read(&text)
            {
                known.insert(record.server, (Era::from_word(&record.era), cached));
            }
        }
        for server in stale {
            self.store.forget_discovery(&server).await?;
        }
        Ok(known)
    }

    /// Sends an update to the catalog keeper, and waits until it is published and saved.
    pub(crate) async fn update_catalog(&self, update: CatalogUpdate) {
        let (done, published) = tokio::sync::oneshot::channel();
        if self.catalog_updates.send(CatalogUpdate::WithReply(Box::new(update), done)).await.is_ok() {
            let _ = published.await;
        }
    }

    pub(crate) fn manifest_state(&self) -> &ManifestState {
        &self.manifests
    }

    /// The current catalog, for a short look.
    pub fn catalog(&self) -> arc_swap::Guard<Arc<Catalog>> {
        self.catalog.load()
    }

    /// The current catalog, for callers that keep it across an `await`.
    pub fn catalog_now(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    pub(crate) fn starting_servers(&self) -> &Arc<StartingServers> {
        &self.starting_servers
    }

    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.follow_providers(&catalog);
        self.catalog.store(Arc::new(catalog));
    }

    /// All servers, by name.
    pub fn servers(&self) -> Arc<BTreeMap<ServerName, ManagedServer>> {
        self.servers.load_full()
    }

    /// A server that requests can be sent to.
    pub fn server(&self, name: &ServerName) -> Result<Arc<Supervised>, UpstreamError> {
        match self.servers.load().get(name) {
            Some(ManagedServer::Running { server, .. }) => Ok(server.clone()),
            other => Err(UpstreamError::NotConnected {
                server: name.to_string(),
                state: other.map_or("gone", |managed| managed.state().as_str()),
                reason: "it is not running".into(),
                retry_in: None,
            }),
        }
    }

    /// Subscribes to changes that clients are notified of.
    pub fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.changes.subscribe()
    }

    /// Notifies clients that their lists may have changed, because permissions changed and not the catalog.
    pub fn announce_all_lists(&self) {
        for kind in [ListKind::Tools, ListKind::Prompts, ListKind::Resources] {
            self.announce(ChangeNotice::List(kind));
        }
    }

    pub(crate) fn announce(&self, change: ChangeNotice) {
        let _ = self.changes.send(change);
    }

    /// The settings that only a restart changes.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The durable store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The files of callers.
    pub fn files(&self) -> &Arc<CallerFiles> {
        &self.files
    }

    /// Metrics of finished calls.
    pub fn call_metrics(&self) -> &Arc<CallMetrics> {
        &self.call_metrics
    }

    /// How long the gateway has been running.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sealed request states of modern clients.
    pub fn states(&self) -> &RequestStates {
        &self.states
    }

    /// Calls that wait for their client to answer a question.
    pub fn parking(&self) -> &ParkingLot {
        &self.parking
    }

    /// The recent health of tools and providers.
    pub fn health(&self) -> &HealthMonitor {
        &self.health
    }

    /// Statistics on what clients were shown of the catalog.
    pub fn exposure_stats(&self) -> &ExposureStats {
        &self.exposure_stats
    }

    pub(crate) fn letters(&self) -> &DeadLetterState {
        &self.letters
    }

    /// The settings that a reload replaces.
    pub fn terms(&self) -> arc_swap::Guard<Arc<Terms>> {
        self.terms.load()
    }

    /// Replaces the settings for all calls from now on.
    pub fn set_terms(&self, mut terms: Terms) {
        let earlier = self.terms().encoder.clone();
        terms.encoder = terms.encoder.map(|encoder| encoder.or_earlier(earlier.as_ref()));
        self.terms.store(Arc::new(terms));
        // Clients may see more or fewer tools now; each stream compares its own list.
        self.announce(ChangeNotice::List(ListKind::Tools));
    }

    /// Sets the roster, which looks up the rights of absent callers. Only the first call has an effect.
    pub fn set_roster(&self, roster: &Arc<dyn Roster>) {
        let _ = self.roster.set(Arc::downgrade(roster));
    }

    pub(crate) fn roster(&self) -> Option<Arc<dyn Roster>> {
        self.roster.get().and_then(Weak::upgrade)
    }

    /// How often the tools that clients see have changed.
    pub fn surface_tally(&self) -> &SurfaceTally {
        &self.surface_tally
    }

    pub(crate) fn own_tool_limits(&self) -> &OwnToolLimits {
        &self.own_tool_limits
    }

    /// The path of the gateway's own executable.
    pub(crate) fn own_executable(&self) -> &std::path::Path {
        &self.context.open_context.own_executable
    }

    /// How much servers have used the gateway's model today. A reload does not reset it.
    pub(crate) fn day_book(&self) -> &Arc<PlainMutex<TokenBudget>> {
        &self.day_book
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        self.itself.clone()
    }

    pub(crate) fn decisions(&self) -> &DecisionCache {
        &self.decisions
    }

    pub(crate) fn waiting_room(&self) -> &Arc<WaitingRoom> {
        &self.waiting_room
    }

    /// An audit entry with the fields that all calls share.
    pub(crate) fn blank_call_entry(&self) -> AuditEntry {
        self.blank_call.clone()
    }

    /// Pins the definition of a tool at its first use.
    pub(crate) fn pin_first_use(&self, tool: &Tool) {
        if tool.server.is_own() {
            return;
        }
        if let Some(pin) = self.decisions.first_use(tool) {
            let store = self.store.clone();
            tokio::spawn(async move {
                if let Err(error) = store.save_pins(vec![pin]).await {
                    tracing::error!("the pin of a tool could not be saved: {error}");
                }
            });
        }
    }

    /// Stage 6: adds what only the gateway supplies, from the current catalog.
    pub(crate) fn seal(
        &self,
        judged: Judged,
        ids: CallIds,
        grant: Option<&FileGrant>,
    ) -> Result<Sealed, CallFault> {
        let catalog = self.catalog();
        let call_id = || ids.call.to_string();
        let files: &dyn FileUrlSource = grant.map_or(&NoFiles, |grant| grant);
        let context = SealContext { catalog: &catalog, call_id: &call_id, files };
        Ok(keyed(seal(judged, &self.injectors, &context)?, ids.key))
    }

    /// Stops all servers, and flushes and closes the store.
    pub async fn shut_down(&self) {
        let servers = self.servers.swap(Arc::default());
        let stopping = servers.values().filter_map(|managed| match managed {
            ManagedServer::Running { server, .. } => Some(server.stop()),
            ManagedServer::Idle(_) => None,
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

/// Passes events of servers on to the catalog keeper, event followers and clients.
async fn forward_server_events(engine: Weak<Engine>, mut events: mpsc::Receiver<ServerEvent>) {
    while let Some(event) = events.recv().await {
        let Some(engine) = engine.upgrade() else { return };
        match event {
            ServerEvent::State(name, state) => {
                tracing::info!(server.name = %name, "server `{name}` is {}", state.as_str());
                engine.emit_state(&name, &state);
            }
            ServerEvent::Discovered { server, discovery, era, kept } => {
                let update = CatalogUpdate::Discovered { server: server.clone(), discovery, era };
                let _ = engine.catalog_updates.send(CatalogUpdate::WithReply(Box::new(update), kept)).await;
                engine.renew_subscriptions(&server);
            }
            ServerEvent::ResourceUpdated { server, params } => {
                engine.announce(ChangeNotice::Resource { server, params })
            }
        }
    }
}
