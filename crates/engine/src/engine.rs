//! The engine: starts the parts of a running gateway and holds them. Front ends (MCP, REST, control socket) use the
//! parts they need.

use crate::answer::Answer;
use crate::approvals::{Approvals, Plans};
use crate::audit::{AuditLog, BearerTokens};
use crate::call::{CallPipeline, CallRequest, PipelineParts};
use crate::call_tasks::CallTasks;
use crate::catalog::{CatalogOptions, ChangeNotice, LiveCatalog, Subscriptions};
use crate::clock;
use crate::dead_letters::DeadLetters;
use crate::events::EventRing;
use crate::exposure::Exposure;
use crate::files::{CallerFiles, FileStorage, OpenedFile, TokenRefusal, TokenUse, is_admitted};
use crate::health::HealthMonitor;
use crate::inquiry::Inquiries;
use crate::jobs::Jobs;
use crate::keys::sealing_key;
use crate::own::OwnTools;
use crate::parked::ParkingLot;
use crate::providers::ProviderStates;
use crate::replica_mail::ReplicaMail;
use crate::request_state::RequestStates;
use crate::rights_source::{AbsentCaller, Rights, RightsSource, RightsSourceLink};
use crate::routing::Routing;
use crate::search::ToolSearch;
use crate::servers::{DesiredServer, Servers};
use crate::shared_sessions::SharedSessions;
use crate::shared_state::SharedState;
use crate::skills::Skills;
use crate::terms::{SharedTerms, Terms};
use crate::trace::Tracing;
use arc_swap::Guard;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use toolbooth_core::caller::IdentifiedBy;
use toolbooth_core::catalog::{ListKind, Naming};
use toolbooth_core::clock::Clock;
use toolbooth_core::fault::Problem;
use toolbooth_core::file::FileRow;
use toolbooth_core::secret::SecretText;
use toolbooth_store::{Store, StoreError};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::open::OpenContext;

/// Settings of the engine that only a restart changes, except the servers.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The clock of the gateway.
    pub clock: Arc<Clock>,
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

/// A running gateway: its parts, and the few operations that span several of them.
///
/// The parts form layers. From the lowest: store, terms, events; audit, files, health; catalog; servers, exposure,
/// search, routing; approvals, plans, dead letters, skills; calls; jobs, call tasks. A part uses only parts below it.
/// Approvals, dead letters and skills start calls through traits that the call pipeline implements.
pub struct Engine {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    terms: SharedTerms,
    events: Arc<EventRing>,
    tracing: Arc<Tracing>,
    audit: Arc<AuditLog>,
    tokens: Arc<BearerTokens>,
    files: Arc<CallerFiles>,
    health: Arc<HealthMonitor>,
    catalog: Arc<LiveCatalog>,
    subscriptions: Arc<Subscriptions>,
    servers: Arc<Servers>,
    exposure: Arc<Exposure>,
    search: Arc<ToolSearch>,
    own_tools: Arc<OwnTools>,
    routing: Arc<Routing>,
    rights_source: Arc<RightsSourceLink>,
    approvals: Arc<Approvals>,
    plans: Arc<Plans>,
    dead_letters: Arc<DeadLetters>,
    skills: Arc<Skills>,
    jobs: Arc<Jobs>,
    calls: Arc<CallPipeline>,
    call_tasks: Arc<CallTasks>,
    inquiries: Arc<Inquiries>,
    states: RequestStates,
    parking: ParkingLot,
    replica_mail: Arc<ReplicaMail>,
    shared_sessions: SharedSessions,
    started: Instant,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts an engine. The cached catalog is available at once; servers connect in the background.
    pub async fn start(
        options: EngineOptions,
        terms: Terms,
        store: Arc<dyn Store>,
        storage: FileStorage,
        open_context: OpenContext,
        desired: Vec<DesiredServer>,
    ) -> Result<Arc<Self>, Problem> {
        let started = Instant::now();
        let EngineOptions {
            clock,
            naming,
            max_call,
            letter_key,
            event_ring,
            tools_per_server,
            mcp_data_bytes,
        } = options;
        clock::resume(&clock, store.latest_clock().await?);
        let shared = SharedState::load(clock.clone(), store.clone(), terms, event_ring).await?;
        let files = CallerFiles::open(storage, store.clone(), clock.clone()).await?;
        let health = Arc::new(HealthMonitor::load(store.clone(), clock.clone()).await?);
        let state_key = sealing_key(&*store, "request-state-key").await?;
        let states = RequestStates::new(&state_key, store.clone(), clock.clone());
        let audit = Arc::new(AuditLog::new(clock.clone(), store.clone(), shared.events.clone()));
        let tokens = Arc::new(BearerTokens::new(clock.clone(), store.clone(), audit.clone()));
        let tracing = Arc::new(Tracing::new(clock.clone()));

        // The catalog, and what is shown of it.
        let providers = Arc::new(ProviderStates::new(shared.servers.clone()));
        let catalog =
            LiveCatalog::start(CatalogOptions { naming, tools_per_server }, &shared, providers.clone());
        let exposure = Arc::new(Exposure::new(&shared, catalog.clone()));
        let search = Arc::new(ToolSearch::new(&shared, catalog.clone()));
        let routing = Arc::new(Routing::new(&shared, catalog.clone(), providers));
        let own_tools = Arc::new(OwnTools::new(
            shared.terms.clone(),
            exposure.clone(),
            search.clone(),
            files.clone(),
            open_context.own_executable.clone(),
        ));

        // Calls.
        let approvals = Arc::new(Approvals::new(&shared, audit.clone(), catalog.clone()));
        let plans = Arc::new(Plans::new(approvals.clone()));
        let dead_letters = Arc::new(DeadLetters::new(&shared, catalog.clone(), letter_key));
        let skills = Arc::new(Skills::new(&shared, catalog.clone()));
        let parts = PipelineParts {
            catalog: catalog.clone(),
            approvals: approvals.clone(),
            plans: plans.clone(),
            dead_letters: dead_letters.clone(),
            exposure: exposure.clone(),
            own_tools: own_tools.clone(),
            routing: routing.clone(),
            skills: skills.clone(),
            files: files.clone(),
            health: health.clone(),
            audit: audit.clone(),
            tracing: tracing.clone(),
        };
        let calls = Arc::new(CallPipeline::new(&shared, parts, max_call, mcp_data_bytes));
        let runner = Arc::downgrade(&calls);
        approvals.set_runner(runner.clone());
        skills.set_runner(runner.clone());
        dead_letters.set_runner(runner);
        let jobs = Jobs::new(&shared, catalog.clone(), health.clone(), skills.clone(), approvals.clone());
        let jobs = Arc::new(jobs);
        let held_runs = Arc::downgrade(&jobs);
        skills.set_held_runs(held_runs.clone());
        approvals.set_end_listener(held_runs);
        let call_tasks = Arc::new(CallTasks::new(&shared));
        let inquiries = Arc::new(Inquiries::new(&shared, catalog.clone(), max_call));

        // The gateway's own tools first, so that no server can take the name of one.
        own_tools.offer().await;
        let subscriptions = Arc::new(Subscriptions::new(catalog.clone(), shared.servers.clone()));
        let servers = Servers::start(&shared, catalog.clone(), subscriptions.clone(), open_context);
        servers.apply(servers.prepare(desired).await?).await;

        let shared_sessions = SharedSessions::new(store.clone(), clock.clone());
        let (parking, SharedState { terms, events, rights_source, replica_mail, .. }) =
            (ParkingLot::default(), shared);
        Ok(Arc::new(Self {
            clock,
            store,
            terms,
            events,
            rights_source,
            tracing,
            audit,
            tokens,
            files,
            health,
            catalog,
            exposure,
            search,
            routing,
            own_tools,
            subscriptions,
            servers,
            approvals,
            plans,
            dead_letters,
            skills,
            jobs,
            calls,
            call_tasks,
            inquiries,
            states,
            parking,
            replica_mail,
            shared_sessions,
            started,
        }))
    }

    /// Makes a tool call. Dropping the future cancels the call at the server; the cancellation is recorded, too.
    pub fn call<'a>(
        &'a self,
        request: CallRequest,
        link: &'a CallLink,
    ) -> impl Future<Output = Result<Answer, Problem>> + Send + 'a {
        self.calls.call(request, link)
    }

    /// Replaces the settings for all calls from now on.
    pub fn set_terms(&self, mut terms: Terms) {
        let earlier = self.terms().encoder.clone();
        terms.encoder = terms.encoder.map(|encoder| encoder.or_earlier(earlier.as_ref()));
        self.terms.store(Arc::new(terms));
        // Clients may see more or fewer tools now; each stream compares its own list.
        self.catalog.announce(ChangeNotice::List(ListKind::Tools));
    }

    /// Sets the source, which looks up the rights of absent callers. Only the first call has an effect.
    pub fn set_rights_source(&self, rights_source: &Arc<dyn RightsSource>) {
        self.rights_source.set(rights_source);
    }

    /// Cleans up after an earlier process: interrupted calls end with an unknown outcome, and approved calls that
    /// were not claimed are run.
    pub async fn take_over(&self) {
        self.approvals.close_interrupted().await;
        match self.store.close_interrupted(self.clock.now_ms()).await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!(
                    "{count} calls were interrupted when the gateway ended; their outcome is unknown"
                )
            }
            Err(error) => tracing::error!("interrupted calls could not be closed: {error}"),
        }
        self.dead_letters.take_over().await;
        self.files.take_over().await;
        self.jobs.take_over().await;
        self.approvals.sweep().await;
        match self.store.is_shared() {
            // Requests on other gateways may be about to claim theirs.
            true => self.approvals.run_unclaimed().await,
            false => self.approvals.run_approved().await,
        }
    }

    /// Stores the latest known time, so that expired states stay expired if the clock is set back before the next
    /// start.
    pub async fn save_clock(&self) {
        clock::warn_if_behind(&self.clock);
        let Some(at_ms) = self.clock.storable_ms() else { return };
        if let Err(error) = self.store.raise_clock(at_ms).await {
            tracing::error!("the current time could not be stored: {error}");
        }
    }

    /// Removes what the store no longer needs to keep.
    pub async fn purge(&self) {
        // By the system's clock: a clock that was briefly ahead must not empty the audit.
        match self.store.purge(self.clock.wall_ms()).await {
            Ok(()) => {}
            // The gateway is stopping; the next one purges.
            Err(StoreError::Closed) => return,
            Err(error) => tracing::error!("the store could not be purged: {error}"),
        }
        match self.files.purge(self.clock.wall_ms()).await {
            Ok(0) => {}
            Ok(count) => tracing::info!("{count} files were older than `files.keep_days` and were deleted"),
            Err(StoreError::Closed) => {}
            Err(error) => tracing::error!("old files could not be deleted: {error}"),
        }
    }

    /// The file that a token gives access to, if the server that the URL was made for is in the catalog and the
    /// file's owner may still use that server.
    pub async fn file_by_token(
        &self,
        id: &str,
        token: Option<&str>,
        purpose: TokenUse,
    ) -> Result<FileRow, TokenRefusal> {
        let OpenedFile { file, server } = self.files.by_token(id, token, purpose).await?;
        let owner = AbsentCaller {
            user: &file.user,
            persona: None,
            session: file.session.as_deref(),
            level: None,
            identified_by: Some(&IdentifiedBy::Any),
        };
        let Rights::Known(owner) = self.rights_source.rights(owner).await else {
            return Err(TokenRefusal::Invalid);
        };
        match is_admitted(&self.catalog.load(), &server, &owner) {
            true => Ok(file),
            false => Err(TokenRefusal::Invalid),
        }
    }

    /// Stops all servers, and flushes and closes the store.
    pub async fn shut_down(&self) {
        self.jobs.stop().await;
        self.servers.stop_all().await;
        self.health.save().await;
        self.save_clock().await;
        self.events.end_webhooks().await;
        self.tracing.end().await;
        let _ = self.store.flush().await;
        self.store.close().await;
    }
}

/// The parts.
impl Engine {
    /// The clock.
    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The durable store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The settings that a reload replaces.
    pub fn terms(&self) -> Guard<Arc<Terms>> {
        self.terms.load()
    }

    /// The latest events and their followers.
    pub fn events(&self) -> &Arc<EventRing> {
        &self.events
    }

    /// The tracer of calls.
    pub fn tracing(&self) -> &Tracing {
        &self.tracing
    }

    /// The audit log.
    pub fn audit(&self) -> &Arc<AuditLog> {
        &self.audit
    }

    /// The tokens that the gateway issued.
    pub fn tokens(&self) -> &Arc<BearerTokens> {
        &self.tokens
    }

    /// The files of callers.
    pub fn files(&self) -> &Arc<CallerFiles> {
        &self.files
    }

    /// The recent health of tools and providers.
    pub fn health(&self) -> &Arc<HealthMonitor> {
        &self.health
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<LiveCatalog> {
        &self.catalog
    }

    /// The subscriptions of clients to resources.
    pub fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// The servers.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// Which tools each client is shown.
    pub fn exposure(&self) -> &Arc<Exposure> {
        &self.exposure
    }

    /// The search for tools.
    pub fn search(&self) -> &Arc<ToolSearch> {
        &self.search
    }

    /// The gateway's own tools.
    pub fn own_tools(&self) -> &Arc<OwnTools> {
        &self.own_tools
    }

    /// The choice of providers, and reports on them.
    pub fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    /// The held calls and the decisions on them.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// The plans of callers.
    pub fn plans(&self) -> &Arc<Plans> {
        &self.plans
    }

    /// The dead letters.
    pub fn dead_letters(&self) -> &Arc<DeadLetters> {
        &self.dead_letters
    }

    /// The jobs and tasks.
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// The skills.
    pub fn skills(&self) -> &Arc<Skills> {
        &self.skills
    }

    /// The call pipeline.
    pub fn calls(&self) -> &Arc<CallPipeline> {
        &self.calls
    }

    /// Calls that their clients follow as tasks.
    pub fn call_tasks(&self) -> &Arc<CallTasks> {
        &self.call_tasks
    }

    /// Requests other than tool calls.
    pub fn inquiries(&self) -> &Arc<Inquiries> {
        &self.inquiries
    }

    /// Sealed request states of modern clients.
    pub fn states(&self) -> &RequestStates {
        &self.states
    }

    /// Calls that wait for their client to answer a question.
    pub fn parking(&self) -> &ParkingLot {
        &self.parking
    }

    /// Messages to other gateways on the same store.
    pub fn replica_mail(&self) -> &Arc<ReplicaMail> {
        &self.replica_mail
    }

    /// Sessions of legacy clients that other gateways on the same store can use.
    pub fn shared_sessions(&self) -> &SharedSessions {
        &self.shared_sessions
    }

    /// How long the gateway has been running.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}
