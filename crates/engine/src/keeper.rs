//! The catalog keeper: the only writer of the catalog. It collects what servers offer and publishes immutable
//! snapshots.
//!
//! The list of a new server is published at once. A changed list of a known server waits until it has been stable for
//! a moment, and is dropped if the change is reverted before that, so that flapping servers do not change the lists of
//! clients. A new definition of a used tool does not wait, because calls are judged by it. Only published lists are
//! cached for the next start.

use crate::changes::ChangeNotice;
use crate::clock::now_ms;
use crate::discovery_cache::{self, CachedDiscovery};
use crate::engine::{Engine, ManagedServer};
use crate::exposure::SurfaceCause;
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toolbooth_core::catalog::{
    AdmissionContext, Assembly, AssemblyInput, Catalog, CatalogItem, CatalogParts, Discovery, ListKind,
    MAX_TOOLS, Naming, NamingStyle, ServerCatalog, SetAside, Tool, ToolAccess, admit_by, assemble,
};
use toolbooth_core::manifest::Manifest;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_store::DiscoveryRecord;
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
            Self::Removed(_) | Self::Released(_) | Self::PublishNow => 0,
            Self::Manifests(entries) => entries.len(),
            Self::Batch(updates) => updates.iter().map(Self::size).sum(),
            Self::WithReply(update, _) => update.size(),
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

/// The only writer of the catalog.
pub(crate) struct CatalogKeeper {
    engine: Weak<Engine>,
    /// What servers offer, after admission.
    base: CatalogParts,
    /// The server that owns each exposed name; no other server gets the name while it is configured.
    owners: HashMap<Box<str>, ServerName>,
    /// Listed changes that are not published yet.
    pending: PendingChanges,
    /// Why the catalog changed, for the metrics.
    cause: SurfaceCause,
    /// The operator's manifests.
    manifests: Arc<[Manifest]>,
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
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        Self {
            engine,
            base: CatalogParts::new(),
            owners: HashMap::new(),
            pending: PendingChanges::default(),
            cause: SurfaceCause::Configured,
            manifests: Arc::default(),
            parts: CatalogParts::new(),
            quarantined: BTreeMap::new(),
            revision: 0,
            unsaved: Vec::new(),
            saving: None,
        }
    }

    /// Processes updates until the engine is dropped. Updates that are waiting are published together.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<CatalogUpdate>) {
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
            let Some(engine) = self.engine.upgrade() else { return };
            while let Ok(more) = inbox.try_recv() {
                updates.push(more);
            }
            // Admitting thousands of tools takes a while, and calls must not wait for it.
            let large = updates.iter().map(CatalogUpdate::size).sum::<usize>() > LARGE_UPDATE;
            let work = move || {
                let mut keeper = self;
                let mut waiting = Vec::new();
                keeper.cause = SurfaceCause::Configured;
                for update in updates {
                    // There is no other writer, so a panic in one update must not stop the others.
                    catch_panic(|| keeper.apply(update, &engine, &mut waiting));
                }
                catch_panic(|| keeper.publish(&engine));
                keeper.save(&engine, waiting);
                keeper
            };
            let done = if large { tokio::task::spawn_blocking(work).await } else { Ok(work()) };
            let Ok(keeper) = done else { return };
            self = keeper;
        }
    }

    /// Saves what was published for the next start, and then replies to the senders. So a server that is reported as
    /// connected is also in the cache after a kill.
    fn save(&mut self, engine: &Engine, waiting: Vec<oneshot::Sender<()>>) {
        let reply = |waiting: Vec<oneshot::Sender<()>>| {
            for done in waiting {
                let _ = done.send(());
            }
        };
        if self.unsaved.is_empty() {
            return reply(waiting);
        }
        let (records, earlier) = (std::mem::take(&mut self.unsaved), self.saving.take());
        let store = engine.store().clone();
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

    fn apply(&mut self, update: CatalogUpdate, engine: &Arc<Engine>, waiting: &mut Vec<oneshot::Sender<()>>) {
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
                    discovered.and_then(|(entry, discovery)| self.admit(&entry, &discovery, &[], engine));
                if let Some(part) = part {
                    self.base.insert(name, Arc::new(part));
                }
            }
            CatalogUpdate::PublishNow => self.take_pending(),
            CatalogUpdate::Manifests(entries) => self.manifests = entries,
            CatalogUpdate::Cached { entry, cached: CachedDiscovery { discovery, suffixed } } => {
                if let Some(part) = self.admit(&entry, &discovery, &suffixed, engine) {
                    self.base.insert(entry.name.clone(), Arc::new(part));
                }
            }
            CatalogUpdate::Own { entry, discovery } => {
                if let Some(part) = self.admit(&entry, &discovery, &[], engine) {
                    self.base.insert(entry.name.clone(), Arc::new(part));
                }
            }
            CatalogUpdate::Discovered { server, discovery, era } => {
                let entry = match engine.servers().get(&server) {
                    Some(ManagedServer::Running { server, .. }) => server.entry.clone(),
                    _ => return, // It was removed while it was listing.
                };
                // A list that means the same changes nothing: clients keep the text they have, also after a restart.
                if let Some(part) = self.admit(&entry, &discovery, &[], engine) {
                    let record = record_of(engine, &part, era, &discovery);
                    self.take_listing(part, record, engine);
                }
            }
            CatalogUpdate::Batch(updates) => {
                updates.into_iter().for_each(|update| self.apply(update, engine, waiting));
            }
            CatalogUpdate::WithReply(update, done) => {
                self.apply(*update, engine, waiting);
                waiting.push(done);
            }
        }
    }

    /// Takes a server's list: at once if clients do not know the server yet, else when the list is stable.
    fn take_listing(&mut self, part: ServerCatalog, record: Option<DiscoveryRecord>, engine: &Engine) {
        let known = self.base.get(&part.entry.name).filter(|known| known.entry == part.entry);
        match known {
            // A call must be judged by the server's current definition, not by an earlier one.
            Some(known) if is_urgent(known, &part, engine) => self.cause = SurfaceCause::Changed,
            Some(_) => return self.pending.add(part, record),
            None => self.cause = SurfaceCause::Discovered,
        }
        self.unsaved.extend(record);
        self.base.insert(part.entry.name.clone(), Arc::new(part));
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
        engine: &Engine,
    ) -> Option<ServerCatalog> {
        let taken = |name: &str| self.owners.get(name).is_some_and(|owner| *owner != entry.name);
        // Models know the gateway's own tools by their bare names.
        let own = Naming { style: NamingStyle::Bare, ..engine.options().naming };
        let naming = if entry.is_own() { &own } else { &engine.options().naming };
        let released = |tool: &Tool| engine.decisions().is_released(tool);
        let now = self.base.get(&entry.name);
        let known = |own: &str| match now {
            Some(now) => {
                let at = now.tools.binary_search_by(|tool| (*tool.name).cmp(own)).ok()?; // Sorted by name.
                Some(now.tools[at].exposed.to_string())
            }
            None => suffixed.iter().any(|name| name == own).then(|| {
                let server = entry.name.as_str();
                naming.suffixed(&naming.expose(server, own), server, own)
            }),
        };
        // The limit applies to servers, not to the gateway's own tools and those of manifests.
        let max_tools = match entry.is_own() || entry.is_virtual() {
            true => MAX_TOOLS,
            false => engine.options().tools_per_server,
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
        // The list changed back or became something else: the pending change is obsolete.
        self.pending.forget(&entry.name);
        (!self.base.get(&entry.name).is_some_and(same)).then_some(part)
    }

    /// Publishes a snapshot if anything changed, and announces the changed lists.
    fn publish(&mut self, engine: &Engine) {
        let before = std::mem::take(&mut self.parts);
        let servers = engine.servers();
        let configured = |name: &ServerName| match servers.get(name) {
            Some(ManagedServer::Running { server, .. }) => Some(server.entry.clone()),
            _ => None,
        };
        let Assembly { parts, entries } = assemble(AssemblyInput {
            base: &self.base,
            manifests: &self.manifests,
            naming: &engine.options().naming,
            gate: &engine.terms().gate,
            configured: &configured,
            earlier: &before,
        });
        engine.set_manifest_entries(entries);
        let changed = changed_lists(&before, &parts);
        if changed.is_empty() && is_same(&before, &parts) {
            // The bytes are the same: keep those already shared with clients.
            self.parts = before;
            return;
        }
        self.parts = parts;
        self.revision += 1;
        engine.set_catalog(Catalog::new(self.revision, self.parts.clone()));
        engine.emit_catalog(&before, &self.parts);
        if changed.contains(&ListKind::Tools) {
            engine.surface_tally().count(self.cause);
        }
        for kind in changed {
            engine.announce(ChangeNotice::List(kind));
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

/// Whether the definition of a used tool changed, or a known tool went into quarantine.
fn is_urgent(known: &ServerCatalog, part: &ServerCatalog, engine: &Engine) -> bool {
    let before = |tool: &Tool| {
        let index = known.tools.binary_search_by(|known| known.name.cmp(&tool.name)).ok()?;
        known.tools.get(index)
    };
    let is_redefined = |tool: &&Arc<Tool>| {
        before(tool).is_some_and(|before| {
            before.definition != tool.definition
                && engine.decisions().is_used(tool)
                && before.digest() != tool.digest()
        })
    };
    part.tools.iter().any(|tool| is_redefined(&tool))
        || part.quarantined.iter().any(|quarantined| before(&quarantined.tool).is_some())
}

/// Whether two sets of parts are the same, also in what lists do not show.
fn is_same(before: &CatalogParts, after: &CatalogParts) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|((a, x), (b, y))| {
            let same = || x.entry == y.entry && x.quarantined == y.quarantined;
            a == b && (Arc::ptr_eq(x, y) || (same() && same_hidden(x, y) && same_terms(x, y)))
        })
}

/// Whether the tools of two parts have the same terms and the same callers may use them.
fn same_terms(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    before.tools.len() == after.tools.len()
        && before.tools.iter().zip(&after.tools).all(|(a, b)| {
            (Arc::ptr_eq(&a.terms, &b.terms) || a.terms == b.terms)
                && a.bounds == b.bounds
                && a.needs_approval == b.needs_approval
        })
}

fn changed_lists(before: &CatalogParts, after: &CatalogParts) -> Vec<ListKind> {
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];
    kinds.into_iter().filter(|kind| !same_list(*kind, before, after)).collect()
}

fn same_list(kind: ListKind, before: &CatalogParts, after: &CatalogParts) -> bool {
    let has_any = |part: &&Arc<ServerCatalog>| match kind {
        ListKind::Tools => !part.tools.is_empty(),
        _ => !offers(kind, part).is_empty(),
    };
    let same = |a: &ServerCatalog, b: &ServerCatalog| match kind {
        // Permissions may have changed as well; each stream compares its own list.
        ListKind::Tools => a.tools_text == b.tools_text && same_bounds(a, b),
        _ => {
            let (a, b) = (offers(kind, a), offers(kind, b));
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.definition == b.definition)
        }
    };
    let (before, after): (Vec<_>, Vec<_>) =
        (before.values().filter(has_any).collect(), after.values().filter(has_any).collect());
    before.len() == after.len()
        && before.iter().zip(&after).all(|(a, b)| a.entry.name == b.entry.name && same(a, b))
}

/// Longer texts are compared only byte by byte, because parsing them would take too much memory.
const MAX_PARSED_BYTES: usize = 1 << 20;

/// Whether two parts differ only in the order of keys.
fn same_meaning(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let same_text = |a: &[u8], b: &[u8]| {
        a == b
            || (a.len() == b.len() && a.len() <= MAX_PARSED_BYTES && {
                let value = |text: &[u8]| {
                    serde_json::from_slice::<serde_json::Value>(&[b"[", text, b"]"].concat()).ok()
                };
                value(a).is_some_and(|a| Some(a) == value(b))
            })
    };
    let same_offers = |kind: ListKind| {
        let (a, b) = (offers(kind, before), offers(kind, after));
        let same = |(a, b): (&CatalogItem, &CatalogItem)| {
            same_text(a.definition.as_bytes(), b.definition.as_bytes())
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    same_text(&before.tools_text, &after.tools_text)
        && same_hidden(before, after)
        && [ListKind::Prompts, ListKind::Resources, ListKind::Templates].into_iter().all(same_offers)
        && before.capabilities == after.capabilities
        && before.instructions == after.instructions
        && before.set_aside == after.set_aside
        && before.quarantined == after.quarantined
}

fn same_bounds(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    (before.tool_access == ToolAccess::Uniform && after.tool_access == ToolAccess::Uniform)
        || before.tools.iter().map(|tool| &tool.bounds).eq(after.tools.iter().map(|tool| &tool.bounds))
}

/// Whether the tools of two parts declare the same hidden arguments.
fn same_hidden(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let injected = |part: &ServerCatalog| -> Vec<_> {
        let declaring = part.tools.iter().filter(|tool| tool.injected.is_some());
        declaring.map(|tool| (tool.name.clone(), tool.injected.clone())).collect()
    };
    injected(before) == injected(after)
}

fn offers(kind: ListKind, part: &ServerCatalog) -> &[CatalogItem] {
    match kind {
        ListKind::Tools => &[],
        ListKind::Prompts => &part.prompts,
        ListKind::Resources => &part.resources,
        ListKind::Templates => &part.templates,
    }
}

/// The record of a discovery for the store.
fn record_of(
    engine: &Engine,
    part: &ServerCatalog,
    era: Era,
    discovery: &Discovery,
) -> Option<DiscoveryRecord> {
    let server = part.entry.name.clone();
    let entry_hash = discovery_cache::source_of(&part.entry);
    let naming = &engine.options().naming;
    let is_suffixed = |tool: &&Arc<Tool>| *tool.exposed != *naming.expose(server.as_str(), &tool.name);
    let suffixed = part.tools.iter().filter(is_suffixed).map(|tool| &*tool.name);
    let payload = discovery_cache::write(discovery, suffixed).bytes().clone();
    Some(DiscoveryRecord { server, entry_hash, era: era.as_str().to_owned(), saved_at_ms: now_ms(), payload })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::server::Transport;

    // Audit: a panic during admission ended the only writer of the catalog.
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
