//! The servers of a running gateway: supervision, reload, refresh, and the events of servers.

mod desired;
mod refresh;
mod reload;
mod slow_start;
mod user_keys;
mod vaults;

pub use desired::{DesiredServer, DesiredState};
pub use refresh::RefreshScope;
pub use reload::{PreparedServers, ReloadReport};

use crate::catalog::{CatalogUpdate, ChangeNotice, LiveCatalog, Subscriptions};
use crate::events::EventRing;
use crate::server_table::{ManagedServer, ServerTable, ServersByName};
use crate::shared_state::SharedState;
use arc_swap::ArcSwapOption;
use std::num::NonZero;
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, Semaphore, mpsc};
use toolbooth_core::clock::Clock;
use toolbooth_core::names::ServerName;
use toolbooth_store::Store;
use toolbooth_upstream::open::OpenContext;
use toolbooth_upstream::{ServerEvent, ServerState, Supervised, SupervisorContext, UpstreamError};

/// The maximum number of servers that connect at the same time.
const CONNECT_AT_ONCE: usize = 64;
/// The maximum number of commands among them, for each processor core. A command often needs a second of a core until it
/// answers, and half a minute is the default of `connect_timeout`.
const START_AT_ONCE_PER_CORE: usize = 8;
/// The number of events of servers that wait to be passed on.
const EVENT_BACKLOG: usize = 1024;

/// The servers of a running gateway.
pub struct Servers {
    clock: Arc<Clock>,
    store: Arc<dyn Store>,
    table: Arc<ServerTable>,
    catalog: Arc<LiveCatalog>,
    subscriptions: Arc<Subscriptions>,
    events: Arc<EventRing>,
    supervision: SupervisorContext,
    wanted_headers: ArcSwapOption<Vec<String>>,
    /// Held during a reload, so that reloads run one at a time.
    applying: Mutex<()>,
}

/// The maximum number of commands that start at the same time.
fn start_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores * START_AT_ONCE_PER_CORE).min(CONNECT_AT_ONCE)
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Servers {
    /// Starts without servers; `prepare` and `apply` add them.
    pub(crate) fn start(
        shared: &SharedState,
        catalog: Arc<LiveCatalog>,
        subscriptions: Arc<Subscriptions>,
        open_context: OpenContext,
    ) -> Arc<Self> {
        let (sender, receiver) = mpsc::channel(EVENT_BACKLOG);
        let supervision = SupervisorContext {
            open_context: Arc::new(open_context),
            events: sender,
            slots: Arc::new(Semaphore::new(CONNECT_AT_ONCE)),
            process_slots: Arc::new(Semaphore::new(start_at_once())),
        };
        let servers = Arc::new(Self {
            clock: shared.clock.clone(),
            store: shared.store.clone(),
            table: shared.servers.clone(),
            catalog,
            subscriptions,
            events: shared.events.clone(),
            supervision,
            wanted_headers: ArcSwapOption::empty(),
            applying: Mutex::new(()),
        });
        tokio::spawn(forward_server_events(Arc::downgrade(&servers), receiver));
        servers
    }

    /// All servers, by name.
    pub fn all(&self) -> Arc<ServersByName> {
        self.table.all()
    }

    /// A server that requests can be sent to.
    pub fn running(&self, name: &ServerName) -> Result<Arc<Supervised>, UpstreamError> {
        self.table.running(name)
    }

    /// The request headers of callers that any server wants forwarded; `None` if no server does.
    pub fn wanted_headers(&self) -> arc_swap::Guard<Option<Arc<Vec<String>>>> {
        self.wanted_headers.load()
    }

    /// Stops all servers.
    pub(crate) async fn stop_all(&self) {
        let servers = self.table.replace(ServersByName::new());
        let stopping = servers.values().filter_map(|managed| match managed {
            ManagedServer::Running { server, .. } => Some(server.stop()),
            ManagedServer::Idle(_) => None,
        });
        futures_util::future::join_all(stopping).await;
    }

    fn emit_state(&self, name: &ServerName, state: &ServerState) {
        self.events.emit_state(name, state, self.catalog.tool_count(name));
    }
}

/// Passes events of servers on to the catalog keeper, event followers and clients.
async fn forward_server_events(servers: Weak<Servers>, mut events: mpsc::Receiver<ServerEvent>) {
    while let Some(event) = events.recv().await {
        let Some(servers) = servers.upgrade() else { return };
        match event {
            ServerEvent::State(name, state) => {
                tracing::info!(server.name = %name, "server `{name}` is {}", state.as_str());
                servers.emit_state(&name, &state);
            }
            ServerEvent::Discovered { server, discovery, era, kept } => {
                let update = CatalogUpdate::Discovered { server: server.clone(), discovery, era };
                servers.catalog.send_update(update, kept).await;
                servers.subscriptions.renew(&server);
            }
            ServerEvent::ResourceUpdated { server, params } => {
                servers.catalog.announce(ChangeNotice::Resource { server, params })
            }
        }
    }
}
