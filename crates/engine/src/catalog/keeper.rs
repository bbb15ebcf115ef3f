//! The catalog keeper: the only writer of the catalog. It collects what servers offer and publishes immutable
//! snapshots.
//!
//! The list of a new server is published at once. A changed list of a known server waits until it has been stable for
//! a moment, and is dropped if the change is reverted before that, so that flapping servers do not change the lists of
//! clients. A new definition of a used tool does not wait, because calls are judged by it. Only published lists are
//! cached for the next start.

use super::comparison::{changed_lists, is_same, same_meaning};
use super::discovery_cache::{self, CachedDiscovery};
use super::name_claims::NameClaims;
use super::{ChangeNotice, LiveCatalog, SurfaceCause};
use crate::server_table::ManagedServer;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toolbooth_core::catalog::{
    AdmissionContext, Assembly, AssemblyInput, Catalog, CatalogParts, Discovery, ListKind, MAX_TOOLS, Naming,
    NamingStyle, ServerCatalog, ServerToolFilter, SetAside, SkillSet, Tool, admit_by, assemble,
};
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::{Manifest, ManifestScope};
use toolbooth_core::names::ServerName;
use toolbooth_core::own_prompt::OwnPrompt;
use toolbooth_core::server::ServerEntry;
use toolbooth_store::{DiscoveryRecord, ExposedName};
use toolbooth_wire::Era;

/// An update of the catalog.
pub(crate) enum CatalogUpdate {
    /// A server listed what it offers.
    Discovered { server: ServerName, discovery: Box<Discovery>, era: Era },
    /// What a server offered last time, used until it is connected.
    Cached { entry: Arc<ServerEntry>, cached: CachedDiscovery },
    /// The gateway's own tools.
    Own { entry: Arc<ServerEntry>, discovery: Discovery },
    /// A server left the configuration or no longer runs.
    Removed(ServerName),
    /// A tool of a server was released from quarantine.
    Released(ServerName),
    /// The operator's manifests changed.
    Manifests(Arc<[Manifest]>),
    /// The gateway's own prompts changed.
    OwnPrompts(Arc<[OwnPrompt]>),
    /// The skills changed.
    Skills(Arc<SkillSet>),
    /// A user's key for a server was set or deleted. The snapshot caches lists for callers with the same rights, and one
    /// that was made during the change may be wrong, so there is a new snapshot.
    KeysChanged,
    /// Delayed changes are to be published now, on request.
    PublishNow,
    /// Several updates that are published together.
    Batch(Vec<CatalogUpdate>),
    /// An update whose sender wants to know when it is published and saved.
    WithReply(Box<CatalogUpdate>, oneshot::Sender<()>),
}

/// Updates with more tools than this are processed on a blocking thread, so that calls do not wait.
const LARGE_UPDATE: usize = 200;

impl CatalogUpdate {
    /// The number of tools in the update.
    fn size(&self) -> usize {
        match self {
            Self::Discovered { discovery, .. } => discovery.tools.len(),
            Self::Cached { cached, .. } => cached.discovery.tools.len(),
            Self::Own { discovery, .. } => discovery.tools.len(),
            Self::Removed(_)
            | Self::Released(_)
            | Self::KeysChanged
            | Self::PublishNow
            | Self::OwnPrompts(_) => 0,
            Self::Manifests(entries) => entries.len(),
            Self::Skills(skills) => skills.all().len(),
            Self::Batch(updates) => updates.iter().map(Self::size).sum(),
            Self::WithReply(update, _) => update.size(),
        }
    }

    /// Adds what servers listed: each server, its list, and its tools with suffixed names.
    fn collect_listings<'a>(&'a self, listings: &mut Vec<(&'a ServerName, &'a Discovery, &'a [String])>) {
        match self {
            Self::Discovered { server, discovery, .. } => {
                listings.push((server, &**discovery, <&[String]>::default()));
            }
            Self::Cached { entry, cached } => {
                listings.push((&entry.name, &cached.discovery, cached.suffixed.as_slice()));
            }
            Self::Batch(updates) => updates.iter().for_each(|update| update.collect_listings(listings)),
            Self::WithReply(update, _) => update.collect_listings(listings),
            _ => {}
        }
    }

    /// Adds the servers that are removed.
    fn collect_removed<'a>(&'a self, removed: &mut Vec<&'a ServerName>) {
        match self {
            Self::Removed(server) => removed.push(server),
            Self::Batch(updates) => updates.iter().for_each(|update| update.collect_removed(removed)),
            Self::WithReply(update, _) => update.collect_removed(removed),
            _ => {}
        }
    }
}

/// How long the list of a known server must be stable before its change is published: a list that changes back within
/// this time has not changed. Well below 1.5 seconds, which the official conformance suite waits for a notification.
const STABLE_FOR: Duration = Duration::from_millis(750);
/// The longest delay of a change, for servers whose lists never become stable.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// How long a connecting server waits for its list to be on disk.
const SAVING_LIMIT: Duration = Duration::from_secs(2);

/// Changes that wait until the lists of their servers are stable.
#[derive(Default)]
struct PendingChanges {
    parts: CatalogParts,
    /// Their records for the store, saved once they are published.
    records: BTreeMap<ServerName, DiscoveryRecord>,
    /// When they are published, and the latest time for that.
    due: Option<(Instant, Instant)>,
}

impl PendingChanges {
    /// Adds a change. It replaces an earlier one of the same server, which stays due at the latest time of that one.
    fn add(&mut self, part: ServerCatalog, record: Option<DiscoveryRecord>) {
        self.records.extend(record.map(|record| (part.entry.name.clone(), record)));
        self.parts.insert(part.entry.name.clone(), Arc::new(part));
        let now = Instant::now();
        let latest = self.due.map_or(now + MAX_DELAY, |(_, latest)| latest);
        self.due = Some(((now + STABLE_FOR).min(latest), latest));
    }

    fn forget(&mut self, server: &ServerName) {
        self.parts.remove(server);
        self.records.remove(server);
        if self.parts.is_empty() {
            self.due = None;
        }
    }

    fn take(&mut self) -> (CatalogParts, BTreeMap<ServerName, DiscoveryRecord>) {
        self.due = None;
        (std::mem::take(&mut self.parts), std::mem::take(&mut self.records))
    }
}

/// Whether a change was published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Publication {
    Due,
    Done,
}

/// The only writer of the catalog.
pub(super) struct CatalogKeeper {
    catalog: Weak<LiveCatalog>,
    /// What servers offer, after admission.
    base: CatalogParts,
    /// The server that owns each exposed name; no other server gets the name while it is configured.
    owners: HashMap<Box<str>, ServerName>,
    /// Names that the store gave to other servers than those that listed them here.
    claims: NameClaims,
    /// Listed changes that are not published yet.
    pending: PendingChanges,
    /// Why the catalog changed, for the metrics.
    cause: SurfaceCause,
    /// The operator's manifests.
    manifests: Arc<[Manifest]>,
    /// The gateway's own prompts, and whether they were published.
    own_prompts: (Arc<[OwnPrompt]>, Publication),
    /// The skills, and whether they were published.
    skills: (Arc<SkillSet>, Publication),
    /// The manifests, and after them the tools of skills.
    entries: Arc<[Manifest]>,
    /// Whether there is a snapshot without lists from before the latest change of users' keys.
    key_views: Publication,
    /// The published parts: `base` with the manifests applied.
    parts: CatalogParts,
    /// The discoveries of servers with quarantined tools, which are admitted again when a tool is released.
    quarantined: BTreeMap<ServerName, (Arc<ServerEntry>, Discovery)>,
    revision: u64,
    /// Records to save for the next start, once they are published.
    unsaved: Vec<DiscoveryRecord>,
    /// The write in progress; the next one waits for it, so that they stay in order.
    saving: Option<JoinHandle<()>>,
}

impl CatalogKeeper {
    pub(super) fn new(catalog: Weak<LiveCatalog>) -> Self {
        Self {
            catalog,
            base: CatalogParts::new(),
            owners: HashMap::new(),
            claims: NameClaims::default(),
            pending: PendingChanges::default(),
            cause: SurfaceCause::Configured,
            manifests: Arc::default(),
            own_prompts: (Arc::default(), Publication::Done),
            skills: (Arc::default(), Publication::Done),
            entries: Arc::default(),
            key_views: Publication::Done,
            parts: CatalogParts::new(),
            quarantined: BTreeMap::new(),
            revision: 0,
            unsaved: Vec::new(),
            saving: None,
        }
    }

    /// Processes updates until the catalog is dropped. Updates that are waiting are published together.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<CatalogUpdate>) {
        loop {
            // Pending changes are published when no update arrives for a while.
            let received = match self.pending.due {
                Some((due, _)) => tokio::time::timeout_at(due, inbox.recv()).await,
                None => Ok(inbox.recv().await),
            };
            let mut updates = match received {
                Ok(Some(update)) => vec![update],
                Ok(None) => return,
                Err(_) => vec![CatalogUpdate::PublishNow],
            };
            let Some(catalog) = self.catalog.upgrade() else { return };
            while let Ok(more) = inbox.try_recv() {
                updates.push(more);
            }
            self.claim_names(&updates, &catalog).await;
            // Admitting thousands of tools takes a while, and calls must not wait for it.
            let large = updates.iter().map(CatalogUpdate::size).sum::<usize>() > LARGE_UPDATE;
            let work = move || {
                let mut keeper = self;
                let mut waiting = Vec::new();
                keeper.cause = SurfaceCause::Configured;
                for update in updates {
                    // There is no other writer, so a panic in one update must not stop the others.
                    catch_panic(|| keeper.apply(update, &catalog, &mut waiting));
                }
                catch_panic(|| keeper.publish(&catalog));
                keeper.save(&catalog, waiting);
                keeper
            };
            let done = if large { tokio::task::spawn_blocking(work).await } else { Ok(work()) };
            let Ok(keeper) = done else { return };
            self = keeper;
        }
    }

    /// Claims the plain names of listed tools in the store, before they are given out here. Servers that leave lose theirs.
    async fn claim_names(&mut self, updates: &[CatalogUpdate], catalog: &LiveCatalog) {
        let mut removed = Vec::new();
        updates.iter().for_each(|update| update.collect_removed(&mut removed));
        // A server that was never listed here is removed at the start, when it may have names from earlier.
        removed.retain(|server| self.base.contains_key(*server));
        self.claims.release(&removed, catalog).await;
        let mut listings = Vec::new();
        updates.iter().for_each(|update| update.collect_listings(&mut listings));
        let (naming, servers) = (&catalog.options.naming, &catalog.shared.servers);
        let mut claims = Vec::new();
        for (server, discovery, suffixed) in listings {
            // It may have been removed while it was listing.
            let Some(entry) = servers.entry(server) else { continue };
            let filter = ServerToolFilter::of(&entry);
            for tools in discovery.tools[..discovery.tools.len().min(MAX_TOOLS)].chunks(LARGE_UPDATE) {
                for tool in tools {
                    let Some(own) = name_of(tool).filter(|own| !suffixed.contains(own)) else { continue };
                    // A tool that the operator denies does not keep its name from others.
                    if !filter.admits(&own) {
                        continue;
                    }
                    let plain = naming.expose_tool(server.as_str(), &own);
                    // A known tool keeps its name, and a name that this gateway gave out stays.
                    let known = self.base.get(server).is_some_and(|part| {
                        part.tools.binary_search_by(|tool| (*tool.name).cmp(own.as_str())).is_ok()
                    });
                    let is_decided = known || self.owners.contains_key(plain.as_str());
                    if !is_decided && !self.claims.is_of_other(&plain, server, servers) {
                        claims.push(ExposedName { name: plain, server: server.clone() });
                    }
                }
                // Reading the names of thousands of tools takes a while, too.
                tokio::task::yield_now().await;
            }
        }
        self.claims.claim(&claims, catalog).await;
    }

    /// Saves what was published for the next start, and then replies to the senders. So a server that is reported as
    /// connected is also in the cache after a kill.
    fn save(&mut self, catalog: &LiveCatalog, waiting: Vec<oneshot::Sender<()>>) {
        let reply = |waiting: Vec<oneshot::Sender<()>>| {
            for done in waiting {
                let _ = done.send(());
            }
        };
        if self.unsaved.is_empty() {
            return reply(waiting);
        }
        let (records, earlier) = (std::mem::take(&mut self.unsaved), self.saving.take());
        let store = catalog.shared.store.clone();
        let (saved, on_disk) = oneshot::channel();
        self.saving = Some(tokio::spawn(async move {
            if let Some(earlier) = earlier {
                let _ = earlier.await;
            }
            for result in join_all(records.into_iter().map(|record| store.save_discovery(record))).await {
                if let Err(error) = result {
                    tracing::warn!("the discovery of a server could not be cached: {error}");
                }
            }
            let _ = saved.send(());
        }));
        tokio::spawn(async move {
            // If the store hangs, only the cache for the next start is delayed; servers still become connected.
            let _ = tokio::time::timeout(SAVING_LIMIT, on_disk).await;
            reply(waiting);
        });
    }

    fn apply(
        &mut self,
        update: CatalogUpdate,
        catalog: &LiveCatalog,
        waiting: &mut Vec<oneshot::Sender<()>>,
    ) {
        match update {
            CatalogUpdate::Removed(name) => {
                self.pending.forget(&name);
                self.base.remove(&name);
                self.owners.retain(|_, owner| *owner != name);
                self.quarantined.remove(&name);
            }
            CatalogUpdate::Released(name) => {
                let discovered = self.quarantined.remove(&name);
                let part =
                    discovered.and_then(|(entry, discovery)| self.admit(&entry, &discovery, &[], catalog));
                if let Some(part) = part {
                    self.take_now(part);
                }
            }
            CatalogUpdate::KeysChanged => self.key_views = Publication::Due,
            CatalogUpdate::PublishNow => self.take_pending(),
            CatalogUpdate::Manifests(entries) => {
                self.manifests = entries;
                self.collect_entries();
            }
            CatalogUpdate::Skills(skills) if skills.all() == self.skills.0.all() => {}
            CatalogUpdate::Skills(skills) => {
                self.skills = (skills, Publication::Due);
                self.collect_entries();
            }
            CatalogUpdate::OwnPrompts(prompts) if prompts == self.own_prompts.0 => {}
            CatalogUpdate::OwnPrompts(prompts) => self.own_prompts = (prompts, Publication::Due),
            CatalogUpdate::Cached { entry, cached: CachedDiscovery { discovery, suffixed } } => {
                if let Some(part) = self.admit(&entry, &discovery, &suffixed, catalog) {
                    self.take_now(part);
                }
            }
            CatalogUpdate::Own { entry, discovery } => {
                if let Some(part) = self.admit(&entry, &discovery, &[], catalog) {
                    self.take_now(part);
                }
            }
            CatalogUpdate::Discovered { server, discovery, era } => {
                // It may have been removed while it was listing.
                let Some(entry) = catalog.shared.servers.entry(&server) else { return };
                // A list that means the same changes nothing: clients keep the text they have, also after a restart.
                if let Some(part) = self.admit(&entry, &discovery, &[], catalog) {
                    let record = record_of(catalog, &part, era, &discovery);
                    self.take_listing(part, record, catalog);
                }
            }
            CatalogUpdate::Batch(updates) => {
                updates.into_iter().for_each(|update| self.apply(update, catalog, waiting));
            }
            CatalogUpdate::WithReply(update, done) => {
                self.apply(*update, catalog, waiting);
                waiting.push(done);
            }
        }
    }

    /// Takes a server's list: at once if clients do not know the server yet, else when the list is stable.
    fn take_listing(&mut self, part: ServerCatalog, record: Option<DiscoveryRecord>, catalog: &LiveCatalog) {
        let known = self.base.get(&part.entry.name).filter(|known| known.entry == part.entry);
        match known {
            // A call must be judged by the server's current definition, not by an earlier one.
            Some(known) if is_urgent(known, &part, catalog) => self.cause = SurfaceCause::Changed,
            Some(_) => return self.pending.add(part, record),
            None => self.cause = SurfaceCause::Discovered,
        }
        self.unsaved.extend(record);
        self.take_now(part);
    }

    fn take_pending(&mut self) {
        let (parts, records) = self.pending.take();
        if !parts.is_empty() {
            self.cause = SurfaceCause::Changed;
            self.base.extend(parts);
            self.unsaved.extend(records.into_values());
        }
    }

    /// Admits what a server offers; `None` if nothing changed. Its tools keep their exposed names, and those in
    /// `suffixed` get the suffixed names of the last run.
    fn admit(
        &mut self,
        entry: &Arc<ServerEntry>,
        discovery: &Discovery,
        suffixed: &[String],
        catalog: &LiveCatalog,
    ) -> Option<ServerCatalog> {
        // The gateway's own tools have their names whatever servers claim.
        let taken = |name: &str| {
            self.owners.get(name).is_some_and(|owner| *owner != entry.name)
                || (!entry.is_own() && self.claims.is_of_other(name, &entry.name, &catalog.shared.servers))
        };
        // Models know the gateway's own tools by their bare names.
        let own = Naming { style: NamingStyle::Bare, ..catalog.options.naming };
        let naming = if entry.is_own() { &own } else { &catalog.options.naming };
        let released = |tool: &Tool| catalog.shared.decisions.is_released(tool);
        let now = self.base.get(&entry.name);
        let known = |own: &str| match now {
            Some(now) => {
                let at = now.tools.binary_search_by(|tool| (*tool.name).cmp(own)).ok()?; // Sorted by name.
                Some(now.tools[at].exposed.to_string())
            }
            None => suffixed.iter().any(|name| name == own).then(|| {
                let server = entry.name.as_str();
                naming.suffixed(&naming.expose_tool(server, own), server, own)
            }),
        };
        // The limit applies to servers, not to the gateway's own tools and those of manifests.
        let max_tools = match entry.is_own() || entry.is_virtual() {
            true => MAX_TOOLS,
            false => catalog.options.tools_per_server,
        };
        let by = AdmissionContext { naming, taken: &taken, known: &known, released: &released, max_tools };
        let part = admit_or_set_aside(entry, by, |by| admit_by(entry, discovery, by));
        for tool in &part.tools {
            self.owners.entry(tool.exposed.clone()).or_insert_with(|| entry.name.clone());
        }
        match part.quarantined.is_empty() {
            true => drop(self.quarantined.remove(&entry.name)),
            false => drop(self.quarantined.insert(entry.name.clone(), (entry.clone(), discovery.clone()))),
        }
        for aside in part.set_aside.iter().take(20) {
            if aside.kind == "schema" {
                tracing::info!(server.name = %entry.name, "tool `{}` of `{}` is {}", aside.name, entry.name, aside.reason);
                continue;
            }
            tracing::warn!(server.name = %entry.name, "{} `{}` of `{}`: {}", aside.kind, aside.name, entry.name, aside.reason);
        }
        // The order of keys has no meaning: clients keep the text they have.
        let same = |known: &Arc<ServerCatalog>| known.entry == *entry && same_meaning(known, &part);
        if self.pending.parts.get(&entry.name).is_some_and(same) {
            return None; // The same change is already pending.
        }
        if self.base.get(&entry.name).is_some_and(same) {
            self.pending.forget(&entry.name); // The list changed back.
            return None;
        }
        Some(part)
    }

    /// Collects the entries that are assembled: the manifests, then the tools of skills.
    fn collect_entries(&mut self) {
        let named: HashSet<(&str, &ManifestScope)> =
            self.manifests.iter().map(|entry| (entry.name.as_str(), &entry.scope)).collect();
        let mut skills = self.skills.0.tools();
        // Of two tools with one name, the one that the operator defines in a manifest is used.
        skills.retain(|entry| !named.contains(&(entry.name.as_str(), &entry.scope)));
        self.entries = match skills.is_empty() {
            true => self.manifests.clone(),
            false => self.manifests.iter().cloned().chain(skills).collect(),
        };
    }

    /// Takes a server's list without delay. A pending one is obsolete.
    fn take_now(&mut self, part: ServerCatalog) {
        self.pending.forget(&part.entry.name);
        self.base.insert(part.entry.name.clone(), Arc::new(part));
    }

    /// Publishes a snapshot if anything changed, and announces the changed lists.
    fn publish(&mut self, catalog: &LiveCatalog) {
        let before = std::mem::take(&mut self.parts);
        let servers = catalog.shared.servers.all();
        let configured = |name: &ServerName| match servers.get(name) {
            Some(ManagedServer::Running { server, .. }) => Some(server.entry.clone()),
            _ => None,
        };
        let Assembly { parts, mut entries } = assemble(AssemblyInput {
            base: &self.base,
            manifests: &self.entries,
            naming: &catalog.options.naming,
            gate: &catalog.shared.terms.load().gate,
            configured: &configured,
            owner: &|name| {
                let claimed = self.claims.owner(name, &catalog.shared.servers);
                claimed.or_else(|| self.owners.get(name)).cloned()
            },
            earlier: &before,
        });
        // Those of skills are not entries of the operator's manifests.
        entries.truncate(self.manifests.len());
        catalog.set_manifest_entries(entries);
        let mut changed = changed_lists(&before, &parts);
        if std::mem::replace(&mut self.own_prompts.1, Publication::Done) == Publication::Due {
            changed.retain(|kind| *kind != ListKind::Prompts);
            changed.push(ListKind::Prompts);
        }
        if std::mem::replace(&mut self.skills.1, Publication::Done) == Publication::Due {
            changed.retain(|kind| !matches!(kind, ListKind::Prompts | ListKind::Resources));
            changed.extend([ListKind::Prompts, ListKind::Resources]);
        }
        let key_views = std::mem::replace(&mut self.key_views, Publication::Done);
        if changed.is_empty() && is_same(&before, &parts) && key_views == Publication::Done {
            // The bytes are the same: keep those already shared with clients.
            self.parts = before;
            return;
        }
        self.parts = parts;
        self.revision += 1;
        let snapshot = Catalog::new(self.revision, self.parts.clone());
        let snapshot = snapshot.with_prompts(self.own_prompts.0.clone());
        catalog.publish(snapshot.with_skills(self.skills.0.clone()));
        catalog.shared.events.emit_catalog(&before, &self.parts);
        if changed.contains(&ListKind::Tools) {
            catalog.surface_tally.count(self.cause);
        }
        for kind in changed {
            catalog.announce(ChangeNotice::List(kind));
        }
    }
}

/// Runs a piece of the keeper's work. A panic ends only that piece and is logged.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    if done.is_err() {
        tracing::error!("an update of the catalog failed; this is a bug in the gateway, please report it");
    }
    done.ok()
}

/// Admits a server. If admission panics, all its tools are set aside, with that as the reason.
fn admit_or_set_aside<'a>(
    entry: &Arc<ServerEntry>,
    by: AdmissionContext<'a>,
    admit: impl FnOnce(AdmissionContext<'a>) -> ServerCatalog,
) -> ServerCatalog {
    catch_panic(|| admit(by)).unwrap_or_else(|| {
        let mut part = admit_by(entry, &Discovery::default(), by);
        let reason = "the server's list could not be processed; this is a bug in the gateway".to_owned();
        part.set_aside.push(SetAside { kind: "list", name: "tools/list".to_owned(), reason });
        part
    })
}

/// The server's own name of a tool that it lists.
fn name_of(tool: &RawJson) -> Option<String> {
    tool.member("name").and_then(|name| name.string().map(|name| name.into_owned()))
}

/// Whether the definition of a used tool changed, or a known tool went into quarantine.
fn is_urgent(known: &ServerCatalog, part: &ServerCatalog, catalog: &LiveCatalog) -> bool {
    let before = |tool: &Tool| {
        let index = known.tools.binary_search_by(|known| known.name.cmp(&tool.name)).ok()?;
        known.tools.get(index)
    };
    let is_redefined = |tool: &&Arc<Tool>| {
        before(tool).is_some_and(|before| {
            before.definition != tool.definition
                && catalog.shared.decisions.is_used(tool)
                && before.digest() != tool.digest()
        })
    };
    part.tools.iter().any(|tool| is_redefined(&tool))
        || part.quarantined.iter().any(|quarantined| before(&quarantined.tool).is_some())
}

/// The record of a discovery for the store.
fn record_of(
    catalog: &LiveCatalog,
    part: &ServerCatalog,
    era: Era,
    discovery: &Discovery,
) -> Option<DiscoveryRecord> {
    let server = part.entry.name.clone();
    let entry_hash = discovery_cache::source_of(&part.entry);
    let naming = &catalog.options.naming;
    let is_suffixed = |tool: &&Arc<Tool>| {
        let plain = naming.expose_tool(server.as_str(), &tool.name);
        *tool.exposed != *plain && *tool.exposed == *naming.suffixed(&plain, server.as_str(), &tool.name)
    };
    let suffixed = part.tools.iter().filter(is_suffixed).map(|tool| &*tool.name);
    let payload = discovery_cache::write(discovery, suffixed).bytes().clone();
    let saved_at_ms = catalog.shared.clock.now_ms();
    Some(DiscoveryRecord { server, entry_hash, era: era.as_str().to_owned(), saved_at_ms, payload })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::server::Transport;

    // A panic must not end the only writer of the catalog.
    #[test]
    fn a_panic_in_admission_sets_that_server_aside() {
        let name: ServerName = "bad".parse().expect("a name");
        let entry = Arc::new(ServerEntry::with_defaults(name, Transport::Bundled("x".into())));
        let by = AdmissionContext {
            naming: &Naming::default(),
            taken: &|_| false,
            known: &|_| None,
            released: &|_| false,
            max_tools: 1,
        };
        let part = admit_or_set_aside(&entry, by, |_| panic!("a tool that panics"));
        assert!(part.tools.is_empty());
        assert!(part.set_aside[0].reason.contains("a bug in the gateway"), "{:?}", part.set_aside);
        assert_eq!(catch_panic(|| 7), Some(7));
    }
}
