//! The catalog of a running gateway: the current snapshot, its keeper, and the notices of changes.
//!
//! `keeper` is the only writer. Servers and the configuration send it updates, and it publishes immutable snapshots.
//! A request loads one snapshot and uses it throughout. `startup_wait` lets requests wait for servers that are
//! starting; `pins` and `quarantine` handle changed and suspicious definitions.

mod changes;
mod comparison;
mod discovery_cache;
mod event_visibility;
mod keeper;
mod manifests;
mod name_claims;
mod pins;
mod quarantine;
mod startup_wait;
mod subscriptions;
mod surface;

pub use changes::ChangeNotice;
pub(crate) use discovery_cache::{CachedDiscovery, read as read_discovery, source_of};
pub(crate) use keeper::CatalogUpdate;
pub use manifests::LoadedManifests;
pub use pins::Comparison;
pub use startup_wait::CatalogReadiness;
pub(crate) use startup_wait::{Knowledge, START_WAIT};
pub use subscriptions::{SubscribeError, Subscriptions};
pub use surface::{SurfaceCause, SurfaceTally};

use crate::providers::ProviderStates;
use crate::shared_state::SharedState;
use arc_swap::{ArcSwap, Guard};
use keeper::CatalogKeeper;
use manifests::ManifestState;
use startup_wait::StartingServers;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc};
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::{Catalog, ListKind, Naming, SkillSet, Tool};
use toolbooth_core::names::ServerName;
use toolbooth_core::own_prompt::OwnPrompt;
use toolbooth_core::skill::Skill;

/// The number of change notices that a slow client may lag behind before it has to reload all lists.
const CHANGE_BACKLOG: usize = 256;
/// The number of catalog updates that wait for the keeper.
const UPDATE_BACKLOG: usize = 64;

/// Settings of the catalog that only a restart changes.
#[derive(Debug, Clone)]
pub(crate) struct CatalogOptions {
    /// How the names of tools are formed.
    pub(crate) naming: Naming,
    /// The maximum number of tools of one server.
    pub(crate) tools_per_server: usize,
}

/// The catalog of a running gateway.
pub struct LiveCatalog {
    options: CatalogOptions,
    shared: SharedState,
    providers: Arc<ProviderStates>,
    current: ArcSwap<Catalog>,
    updates: mpsc::Sender<CatalogUpdate>,
    changes: broadcast::Sender<ChangeNotice>,
    manifests: ManifestState,
    starting: Arc<StartingServers>,
    surface_tally: SurfaceTally,
}

impl std::fmt::Debug for LiveCatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveCatalog").field("revision", &self.load().revision).finish_non_exhaustive()
    }
}

impl LiveCatalog {
    /// Starts the keeper with an empty catalog.
    pub(crate) fn start(
        options: CatalogOptions,
        shared: &SharedState,
        providers: Arc<ProviderStates>,
    ) -> Arc<Self> {
        let (updates, inbox) = mpsc::channel(UPDATE_BACKLOG);
        let (changes, _) = broadcast::channel(CHANGE_BACKLOG);
        let catalog = Arc::new(Self {
            options,
            shared: shared.clone(),
            providers,
            current: ArcSwap::default(),
            updates,
            changes,
            manifests: ManifestState::default(),
            starting: Arc::default(),
            surface_tally: SurfaceTally::default(),
        });
        tokio::spawn(CatalogKeeper::new(Arc::downgrade(&catalog)).run(inbox));
        catalog
    }

    /// The current snapshot, for a short look.
    pub fn load(&self) -> Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// The current snapshot, for callers that keep it across an `await`.
    pub fn snapshot(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Replaces the snapshot; for the keeper.
    fn publish(&self, catalog: Catalog) {
        self.providers.follow(&catalog);
        self.current.store(Arc::new(catalog));
    }

    /// Sends an update to the keeper, and waits until it is published and saved.
    pub(crate) async fn update(&self, update: CatalogUpdate) {
        let (done, published) = tokio::sync::oneshot::channel();
        if self.updates.send(CatalogUpdate::WithReply(Box::new(update), done)).await.is_ok() {
            let _ = published.await;
        }
    }

    /// Sends an update to the keeper. `done` is notified when it is published and saved.
    pub(crate) async fn send_update(&self, update: CatalogUpdate, done: tokio::sync::oneshot::Sender<()>) {
        let _ = self.updates.send(CatalogUpdate::WithReply(Box::new(update), done)).await;
    }

    /// Replaces the gateway's own prompts, and waits until the catalog contains them.
    pub async fn set_own_prompts(&self, prompts: Vec<OwnPrompt>) {
        self.update(CatalogUpdate::OwnPrompts(prompts.into())).await;
    }

    /// Replaces the skills, and waits until the catalog contains them.
    pub(crate) async fn set_skills(&self, skills: Vec<Arc<Skill>>) {
        self.update(CatalogUpdate::Skills(Arc::new(SkillSet::new(skills)))).await;
    }

    /// Publishes a new snapshot after a user's key for a server was set or deleted, and notifies clients.
    pub(crate) async fn follow_keys(&self) {
        self.update(CatalogUpdate::KeysChanged).await;
        self.announce_all_lists();
    }

    /// Publishes pending changes at once, without waiting for lists to become stable.
    pub async fn publish_now(&self) {
        self.update(CatalogUpdate::PublishNow).await;
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

    /// Notifies clients of a change.
    pub fn announce(&self, change: ChangeNotice) {
        let _ = self.changes.send(change);
    }

    /// How often the tools that clients see have changed.
    pub fn surface_tally(&self) -> &SurfaceTally {
        &self.surface_tally
    }

    /// The number of tools of a server.
    pub(crate) fn tool_count(&self, server: &ServerName) -> usize {
        self.load().servers().get(server).map_or(0, |part| part.tool_count())
    }

    /// A server's tools with this name; several if personas have their own versions.
    pub(crate) fn tools_named(&self, server: &ServerName, tool: &str) -> Vec<Arc<Tool>> {
        let catalog = self.load();
        let part = catalog.servers().get(server);
        let tools = part.into_iter().flat_map(|part| &part.tools);
        tools.filter(|found| *found.name == *tool).cloned().collect()
    }

    /// The name that clients use for a server's tool; `None` if the tool is gone.
    pub fn client_name_of(&self, server: &str, tool: &str) -> Option<String> {
        let catalog = self.load();
        let (_, part) = catalog.servers().iter().find(|(name, _)| name.as_str() == server)?;
        part.tools.iter().find(|found| *found.name == *tool).map(|found| found.exposed.to_string())
    }

    /// A name that resolves to a tool whatever its exposed name is now. The caller's persona selects among several
    /// versions.
    pub(crate) fn stable_name_of(&self, server: &ServerName, tool: &str) -> String {
        match self.load().servers().get(server).is_some_and(|part| part.entry.is_virtual()) {
            true => format!("tool.{tool}"),
            false => format!("mcp.{server}.{tool}"),
        }
    }

    /// The servers that may have a resource, best match first; only the named one, if one is named.
    pub(crate) fn servers_of_resource(
        &self,
        uri: &str,
        only: Option<&ServerName>,
        caller: &Caller,
    ) -> Vec<ServerName> {
        let catalog = self.load();
        match only {
            Some(server) if catalog.may_have_resource(server, uri, caller) => vec![server.clone()],
            Some(_) => Vec::new(),
            None => catalog.resource(uri, caller).iter().map(|server| server.entry.name.clone()).collect(),
        }
    }
}
