//! The one writer of the catalog: gathers what servers offer and publishes whole snapshots.

use crate::cached;
use crate::changes::Change;
use crate::clock::now_ms;
use crate::engine::{Engine, Managed};
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
    Admitting, Assembly, Catalog, Discovery, Evenness, Ground, ListKind, MAX_TOOLS, Naming, NamingStyle,
    Offer, Parts, ServerCatalog, SetAside, Tool, admit_by, assemble,
};
use toolbooth_core::manifest::Manifest;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_store::DiscoveryRecord;
use toolbooth_wire::Era;

/// News for the catalog.
pub(crate) enum Part {
    /// A server listed what it offers.
    Discovered { server: ServerName, discovery: Box<Discovery>, era: Era },
    /// What a server offered last time, until it is up.
    Cached { entry: Arc<ServerEntry>, kept: cached::Kept },
    /// What the gateway itself offers.
    Own { entry: Arc<ServerEntry>, discovery: Discovery },
    /// A server is no longer configured, or not to run.
    Gone(ServerName),
    /// A tool of a server was let out of quarantine.
    Released(ServerName),
    /// What the operator's manifests say now.
    Manifests(Arc<[Manifest]>),
    /// What is held back is to be published now: somebody asked for it.
    Now,
    /// Several at once, published together.
    Many(Vec<Part>),
    /// Tells when the news is in.
    Then(Box<Part>, oneshot::Sender<()>),
}

/// News of more tools than this is taken in beside the calls, not between them.
const LARGE: usize = 200;

impl Part {
    /// How many tools it is about.
    fn size(&self) -> usize {
        match self {
            Self::Discovered { discovery, .. } => discovery.tools.len(),
            Self::Cached { kept, .. } => kept.discovery.tools.len(),
            Self::Own { discovery, .. } => discovery.tools.len(),
            Self::Gone(_) | Self::Released(_) | Self::Now => 0,
            Self::Manifests(entries) => entries.len(),
            Self::Many(parts) => parts.iter().map(Self::size).sum(),
            Self::Then(part, _) => part.size(),
        }
    }
}

/// How long a server that clients know must have listed the same before they are told of a change: a server that
/// changes its mind twice has changed nothing. Clients that asked to be told wait for a second and a half: the official
/// conformance suite does.
const QUIET: Duration = Duration::from_millis(750);
/// How long a change is held back at most, by a server that never comes to rest.
const HELD_LIMIT: Duration = Duration::from_secs(10);

/// How long a server waits for its list to be on disk before it counts as connected.
const SAVING_LIMIT: Duration = Duration::from_secs(2);

/// Changes that are held back until their servers have come to rest.
#[derive(Default)]
struct HeldBack {
    parts: Parts,
    /// What is kept of them for the next start, once they are published.
    records: BTreeMap<ServerName, DiscoveryRecord>,
    /// When they are published, and when at the latest.
    due: Option<(Instant, Instant)>,
}

impl HeldBack {
    fn hold(&mut self, part: ServerCatalog, record: Option<DiscoveryRecord>) {
        self.records.extend(record.map(|record| (part.entry.name.clone(), record)));
        self.parts.insert(part.entry.name.clone(), Arc::new(part));
        let now = Instant::now();
        let latest = self.due.map_or(now + HELD_LIMIT, |(_, latest)| latest);
        self.due = Some(((now + QUIET).min(latest), latest));
    }

    fn forget(&mut self, server: &ServerName) {
        self.parts.remove(server);
        self.records.remove(server);
        if self.parts.is_empty() {
            self.due = None;
        }
    }

    fn release(&mut self) -> (Parts, BTreeMap<ServerName, DiscoveryRecord>) {
        self.due = None;
        (std::mem::take(&mut self.parts), std::mem::take(&mut self.records))
    }
}

/// Keeps the catalog.
pub(crate) struct CatalogKeeper {
    engine: Weak<Engine>,
    /// What servers offer, as it was admitted.
    base: Parts,
    /// Who goes by which name: nobody else gets it for as long as they are there.
    owners: HashMap<Box<str>, ServerName>,
    /// What they offer by now and clients are not told yet.
    held_back: HeldBack,
    /// Why the catalog is another than before, as far as that is known.
    cause: SurfaceCause,
    /// What the operator says of it.
    manifests: Arc<[Manifest]>,
    /// Both, put together: what is published.
    parts: Parts,
    /// What servers said of which a tool is in quarantine, to be admitted anew when one is let out.
    apart: BTreeMap<ServerName, (Arc<ServerEntry>, Discovery)>,
    revision: u64,
    /// What is to be kept for the next start, once it is published.
    unsaved: Vec<DiscoveryRecord>,
    /// The write that is under way: a later one must not be overtaken by it.
    saving: Option<JoinHandle<()>>,
}

impl CatalogKeeper {
    pub(crate) fn new(engine: Weak<Engine>) -> Self {
        Self {
            engine,
            base: Parts::new(),
            owners: HashMap::new(),
            held_back: HeldBack::default(),
            cause: SurfaceCause::Configured,
            manifests: Arc::default(),
            parts: Parts::new(),
            apart: BTreeMap::new(),
            revision: 0,
            unsaved: Vec::new(),
            saving: None,
        }
    }

    /// Takes news until the engine is gone. News that waits is published together.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Part>) {
        loop {
            // No news is what changes that are held back wait for.
            let news = match self.held_back.due {
                Some((due, _)) => tokio::time::timeout_at(due, inbox.recv()).await,
                None => Ok(inbox.recv().await),
            };
            let mut parts = match news {
                Ok(Some(part)) => vec![part],
                Ok(None) => return,
                Err(_) => vec![Part::Now],
            };
            let Some(engine) = self.engine.upgrade() else { return };
            while let Ok(more) = inbox.try_recv() {
                parts.push(more);
            }
            // Thousands of tools take a while to admit; calls must not wait for it.
            let large = parts.iter().map(Part::size).sum::<usize>() > LARGE;
            let work = move || {
                let mut keeper = self;
                let mut waiting = Vec::new();
                keeper.cause = SurfaceCause::Configured;
                for part in parts {
                    // There is no other writer: whatever goes wrong with one part, the others go on.
                    unharmed(|| keeper.take(part, &engine, &mut waiting));
                }
                unharmed(|| keeper.publish(&engine));
                keeper.save(&engine, waiting);
                keeper
            };
            let done = if large { tokio::task::spawn_blocking(work).await } else { Ok(work()) };
            let Ok(keeper) = done else { return };
            self = keeper;
        }
    }

    /// Keeps what was published for the next start, and then tells those who wait that their news is in: a server that
    /// is said to be connected is known after a kill, too.
    fn save(&mut self, engine: &Engine, waiting: Vec<oneshot::Sender<()>>) {
        let tell = |waiting: Vec<oneshot::Sender<()>>| {
            for done in waiting {
                let _ = done.send(());
            }
        };
        if self.unsaved.is_empty() {
            return tell(waiting);
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
                    tracing::warn!("what a server offers could not be kept for the next start: {error}");
                }
            }
            let _ = saved.send(());
        }));
        tokio::spawn(async move {
            // A store that hangs costs the next start its head start, and nobody their server.
            let _ = tokio::time::timeout(SAVING_LIMIT, on_disk).await;
            tell(waiting);
        });
    }

    fn take(&mut self, part: Part, engine: &Arc<Engine>, waiting: &mut Vec<oneshot::Sender<()>>) {
        match part {
            Part::Gone(name) => {
                self.held_back.forget(&name);
                self.base.remove(&name);
                self.owners.retain(|_, owner| *owner != name);
                self.apart.remove(&name);
            }
            Part::Released(name) => {
                let apart = self.apart.remove(&name);
                let part = apart.and_then(|(entry, discovery)| self.admit(&entry, &discovery, &[], engine));
                if let Some(part) = part {
                    self.base.insert(name, Arc::new(part));
                }
            }
            Part::Now => self.release(),
            Part::Manifests(entries) => self.manifests = entries,
            Part::Cached { entry, kept: cached::Kept { discovery, suffixed } } => {
                if let Some(part) = self.admit(&entry, &discovery, &suffixed, engine) {
                    self.base.insert(entry.name.clone(), Arc::new(part));
                }
            }
            Part::Own { entry, discovery } => {
                if let Some(part) = self.admit(&entry, &discovery, &[], engine) {
                    self.base.insert(entry.name.clone(), Arc::new(part));
                }
            }
            Part::Discovered { server, discovery, era } => {
                let entry = match engine.servers().get(&server) {
                    Some(Managed::Running { server, .. }) => server.entry.clone(),
                    _ => return, // It left while it was listing.
                };
                // What means the same leaves no trace: clients keep the text they have, also after a restart.
                if let Some(part) = self.admit(&entry, &discovery, &[], engine) {
                    let record = record_of(engine, &part, era, &discovery);
                    self.heard(part, record, engine);
                }
            }
            Part::Many(parts) => parts.into_iter().for_each(|part| self.take(part, engine, waiting)),
            Part::Then(part, done) => {
                self.take(*part, engine, waiting);
                waiting.push(done);
            }
        }
    }

    /// Takes what a server lists: at once if clients know nothing of it yet, else when it has come to rest.
    fn heard(&mut self, part: ServerCatalog, record: Option<DiscoveryRecord>, engine: &Engine) {
        let known = self.base.get(&part.entry.name).filter(|known| known.entry == part.entry);
        match known {
            // Calls must be judged by what the server says now, not by what it said before.
            Some(known) if is_urgent(known, &part, engine) => self.cause = SurfaceCause::Changed,
            Some(_) => return self.held_back.hold(part, record),
            None => self.cause = SurfaceCause::Discovered,
        }
        self.unsaved.extend(record);
        self.base.insert(part.entry.name.clone(), Arc::new(part));
    }

    fn release(&mut self) {
        let (parts, records) = self.held_back.release();
        if !parts.is_empty() {
            self.cause = SurfaceCause::Changed;
            self.base.extend(parts);
            self.unsaved.extend(records.into_values());
        }
    }

    /// What a server brings in, if that is anything else than what is known of it. Its tools keep the names they have,
    /// and those that are `suffixed` the names they had at the last run.
    fn admit(
        &mut self,
        entry: &Arc<ServerEntry>,
        discovery: &Discovery,
        suffixed: &[String],
        engine: &Engine,
    ) -> Option<ServerCatalog> {
        let taken = |name: &str| self.owners.get(name).is_some_and(|owner| *owner != entry.name);
        // Models know the gateway's own tools by their plain names.
        let own = Naming { style: NamingStyle::Bare, ..engine.options().naming };
        let naming = if entry.is_own() { &own } else { &engine.options().naming };
        let released = |tool: &Tool| engine.memory().is_released(tool);
        let now = self.base.get(&entry.name);
        let known = |own: &str| match now {
            Some(now) => {
                let at = now.tools.binary_search_by(|tool| (*tool.name).cmp(own)).ok()?; // They stand by name.
                Some(now.tools[at].exposed.to_string())
            }
            None => suffixed.iter().any(|name| name == own).then(|| {
                let server = entry.name.as_str();
                naming.suffixed(&naming.expose(server, own), server, own)
            }),
        };
        // Its own tools and those of manifests are the operator's doing, not a server's.
        let most_tools = match entry.is_own() || entry.is_virtual() {
            true => MAX_TOOLS,
            false => engine.options().tools_per_server,
        };
        let by = Admitting { naming, taken: &taken, known: &known, released: &released, most_tools };
        let part = admit_or_set_aside(entry, by, |by| admit_by(entry, discovery, by));
        for tool in &part.tools {
            self.owners.entry(tool.exposed.clone()).or_insert_with(|| entry.name.clone());
        }
        match part.quarantined.is_empty() {
            true => drop(self.apart.remove(&entry.name)),
            false => drop(self.apart.insert(entry.name.clone(), (entry.clone(), discovery.clone()))),
        }
        for aside in part.set_aside.iter().take(20) {
            if aside.kind == "schema" {
                tracing::info!(server.name = %entry.name, "tool `{}` of `{}` is {}", aside.name, entry.name, aside.reason);
                continue;
            }
            tracing::warn!(server.name = %entry.name, "{} `{}` of `{}`: {}", aside.kind, aside.name, entry.name, aside.reason);
        }
        // Another order of keys means nothing: the text that clients have stays.
        let same = |known: &Arc<ServerCatalog>| known.entry == *entry && same_meaning(known, &part);
        if self.held_back.parts.get(&entry.name).is_some_and(same) {
            return None; // It is on its way already, and its server at rest.
        }
        // Whatever it was about to become, it did not.
        self.held_back.forget(&entry.name);
        (!self.base.get(&entry.name).is_some_and(same)).then_some(part)
    }

    /// Publishes a snapshot if anything means something else now, and says what.
    fn publish(&mut self, engine: &Engine) {
        let before = std::mem::take(&mut self.parts);
        let servers = engine.servers();
        let configured = |name: &ServerName| match servers.get(name) {
            Some(Managed::Running { server, .. }) => Some(server.entry.clone()),
            _ => None,
        };
        let Assembly { parts, entries } = assemble(Ground {
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
            engine.announce(Change::List(kind));
        }
    }
}

/// Runs a piece of the keeper's work; a panic ends that piece alone, and is in the log.
fn unharmed<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    if done.is_err() {
        tracing::error!("the catalog could not take a change: this is a bug of the gateway");
    }
    done.ok()
}

/// Admits a server. One whose lists bring admission down is set aside whole, with that as its reason.
fn admit_or_set_aside<'a>(
    entry: &Arc<ServerEntry>,
    by: Admitting<'a>,
    admit: impl FnOnce(Admitting<'a>) -> ServerCatalog,
) -> ServerCatalog {
    unharmed(|| admit(by)).unwrap_or_else(|| {
        let mut part = admit_by(entry, &Discovery::default(), by);
        let reason = "what the server lists could not be admitted: this is a bug of the gateway".to_owned();
        part.set_aside.push(SetAside { kind: "list", name: "tools/list".to_owned(), reason });
        part
    })
}

/// Whether somebody relies on a tool that is another now, or that hides something.
fn is_urgent(known: &ServerCatalog, part: &ServerCatalog, engine: &Engine) -> bool {
    let before = |tool: &Tool| {
        let index = known.tools.binary_search_by(|known| known.name.cmp(&tool.name)).ok()?;
        known.tools.get(index)
    };
    let is_another = |tool: &&Arc<Tool>| {
        before(tool).is_some_and(|before| {
            before.definition != tool.definition
                && engine.memory().is_used(tool)
                && before.digest() != tool.digest()
        })
    };
    part.tools.iter().any(|tool| is_another(&tool))
        || part.quarantined.iter().any(|apart| before(&apart.tool).is_some())
}

/// Whether two sets of parts mean the same, beyond what lists show.
fn is_same(before: &Parts, after: &Parts) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).all(|((a, x), (b, y))| {
            let same = || x.entry == y.entry && x.quarantined == y.quarantined;
            a == b && (Arc::ptr_eq(x, y) || (same() && same_hidden(x, y) && same_terms(x, y)))
        })
}

/// Whether the same terms hold for the tools of two parts, and for the same callers.
fn same_terms(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    before.tools.len() == after.tools.len()
        && before.tools.iter().zip(&after.tools).all(|(a, b)| {
            (Arc::ptr_eq(&a.terms, &b.terms) || a.terms == b.terms)
                && a.bounds == b.bounds
                && a.needs_approval == b.needs_approval
        })
}

fn changed_lists(before: &Parts, after: &Parts) -> Vec<ListKind> {
    let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Templates];
    kinds.into_iter().filter(|kind| !same_list(*kind, before, after)).collect()
}

fn same_list(kind: ListKind, before: &Parts, after: &Parts) -> bool {
    let has_any = |part: &&Arc<ServerCatalog>| match kind {
        ListKind::Tools => !part.tools.is_empty(),
        _ => !offers(kind, part).is_empty(),
    };
    let same = |a: &ServerCatalog, b: &ServerCatalog| match kind {
        // Who sees which of them may have changed as well; streams look at their own lists.
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

/// Texts over this size are compared as text alone: trees of them would cost too much memory.
const MAX_COMPARED: usize = 1 << 20;

/// Whether two parts differ in the order of keys at most.
fn same_meaning(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let same_text = |a: &[u8], b: &[u8]| {
        a == b
            || (a.len() == b.len() && a.len() <= MAX_COMPARED && {
                let value = |text: &[u8]| {
                    serde_json::from_slice::<serde_json::Value>(&[b"[", text, b"]"].concat()).ok()
                };
                value(a).is_some_and(|a| Some(a) == value(b))
            })
    };
    let same_offers = |kind: ListKind| {
        let (a, b) = (offers(kind, before), offers(kind, after));
        let same = |(a, b): (&Offer, &Offer)| same_text(a.definition.as_bytes(), b.definition.as_bytes());
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
    (before.evenness == Evenness::Even && after.evenness == Evenness::Even)
        || before.tools.iter().map(|tool| &tool.bounds).eq(after.tools.iter().map(|tool| &tool.bounds))
}

/// Whether the tools of two parts declare the same arguments that clients do not see.
fn same_hidden(before: &ServerCatalog, after: &ServerCatalog) -> bool {
    let injected = |part: &ServerCatalog| -> Vec<_> {
        let declaring = part.tools.iter().filter(|tool| tool.injected.is_some());
        declaring.map(|tool| (tool.name.clone(), tool.injected.clone())).collect()
    };
    injected(before) == injected(after)
}

fn offers(kind: ListKind, part: &ServerCatalog) -> &[Offer] {
    match kind {
        ListKind::Tools => &[],
        ListKind::Prompts => &part.prompts,
        ListKind::Resources => &part.resources,
        ListKind::Templates => &part.templates,
    }
}

/// What is kept of a discovery.
fn record_of(
    engine: &Engine,
    part: &ServerCatalog,
    era: Era,
    discovery: &Discovery,
) -> Option<DiscoveryRecord> {
    let server = part.entry.name.clone();
    let entry_hash = cached::source_of(&part.entry);
    let naming = &engine.options().naming;
    let is_suffixed = |tool: &&Arc<Tool>| *tool.exposed != *naming.expose(server.as_str(), &tool.name);
    let suffixed = part.tools.iter().filter(is_suffixed).map(|tool| &*tool.name);
    let payload = cached::write(discovery, suffixed).bytes().clone();
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
        let by = Admitting {
            naming: &Naming::default(),
            taken: &|_| false,
            known: &|_| None,
            released: &|_| false,
            most_tools: 1,
        };
        let part = admit_or_set_aside(&entry, by, |_| panic!("as if a tool had brought it down"));
        assert!(part.tools.is_empty());
        assert!(part.set_aside[0].reason.contains("a bug of the gateway"), "{:?}", part.set_aside);
        assert_eq!(unharmed(|| 7), Some(7));
    }
}
