//! Reload: starts, restarts and stops servers as the configuration asks for.

use super::desired::wanted_headers;
use super::slow_start;
use super::user_keys::load_keys;
use super::{DesiredServer, DesiredState, Servers};
use crate::catalog::{CachedDiscovery, CatalogUpdate, Knowledge, read_discovery, source_of};
use crate::server_table::{ManagedServer, ServersByName};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::MutexGuard;
use toolbooth_core::json::RawJson;
use toolbooth_core::names::ServerName;
use toolbooth_core::server::ServerEntry;
use toolbooth_store::StoreError;
use toolbooth_upstream::http::ServerCredential;
use toolbooth_upstream::{ServerState, Start, Supervised};
use toolbooth_wire::Era;

/// How long the cached discovery of a server is kept after it has left the configuration.
const DISCOVERY_RETENTION_MS: i64 = 30 * 24 * 3600 * 1000;

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

/// The cached records of the servers that are about to start.
#[derive(Default)]
struct KnownDiscoveries {
    /// Their cached discoveries.
    cached: HashMap<ServerName, (Option<Era>, CachedDiscovery)>,
    /// Servers that did not connect in the last run.
    without_connection: HashSet<ServerName>,
}

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

impl Servers {
    /// Reads what the servers need from the store. Everything in a reload that can fail happens here, so that a
    /// failed reload changes nothing. Other reloads wait until the result is applied or dropped.
    pub async fn prepare(&self, mut servers: Vec<DesiredServer>) -> Result<PreparedServers<'_>, StoreError> {
        let one_at_a_time = self.applying.lock().await;
        load_keys(&mut servers, &self.table.all()).await;
        let known = self.known_discoveries(&servers, &self.table.all()).await?;
        Ok(PreparedServers { servers, known, _one_at_a_time: one_at_a_time })
    }

    /// Starts, restarts and stops servers as configured. Servers whose entry did not change are not touched.
    pub async fn apply(&self, prepared: PreparedServers<'_>) -> ReloadReport {
        let PreparedServers { servers, known, _one_at_a_time } = prepared;
        let before = self.table.all();
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
                    server.look_for_command().await;
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
                    updates.push(match known.cached.get(&name) {
                        Some((_, cached)) => {
                            CatalogUpdate::Cached { entry: entry.clone(), cached: cached.clone() }
                        }
                        // Another server may have been cached under this name: its tools must not be shown.
                        None => CatalogUpdate::Removed(name.clone()),
                    });
                    let list = if was_known { &mut report.restarted } else { &mut report.added };
                    list.push(name.clone());
                    let server = self.start_server(&name, entry, credential, &known);
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
        self.table.replace(after);
        self.catalog.update(CatalogUpdate::Batch(updates)).await;
        futures_util::future::join_all(leaving.iter().map(|server| server.stop())).await;
        report
    }

    /// Starts a server, or waits for the first call if that is enough.
    fn start_server(
        &self,
        name: &ServerName,
        entry: Arc<ServerEntry>,
        credential: ServerCredential,
        known: &KnownDiscoveries,
    ) -> Arc<Supervised> {
        let cached = known.cached.get(name);
        let hint = cached.and_then(|(era, _)| *era);
        let is_new = cached.is_none() && !self.catalog.load().servers().contains_key(name);
        // A lazy server whose tools are unknown could not be called: it is started once to list them.
        let start = match entry.auto_connect && (is_new || !entry.lazy) {
            true => Start::AtOnce,
            false => Start::OnDemand,
        };
        if start == Start::AtOnce {
            self.emit_state(name, &ServerState::Connecting);
        }
        let server = Supervised::start(entry, hint, credential, start, &self.supervision);
        if start == Start::AtOnce && !server.entry.lazy {
            let knowledge = match is_new {
                true if known.without_connection.contains(name) => Knowledge::NoConnection,
                true => Knowledge::Nothing,
                false => Knowledge::Cached,
            };
            self.catalog.add_starting(&server, knowledge);
            if knowledge == Knowledge::Nothing {
                slow_start::observe(&server, self.store.clone(), self.clock.clone());
            }
        }
        server
    }

    /// The cached discoveries of servers that are about to start.
    async fn known_discoveries(
        &self,
        desired: &[DesiredServer],
        before: &ServersByName,
    ) -> Result<KnownDiscoveries, StoreError> {
        let starts = |server: &DesiredServer| {
            matches!(server.state, DesiredState::Run(..))
                && !matches!(before.get(&server.name), Some(ManagedServer::Running { hash, .. }) if *hash == server.hash)
        };
        let starting: Vec<&ServerName> =
            desired.iter().filter(|server| starts(server)).map(|server| &server.name).collect();
        if starting.is_empty() {
            return Ok(KnownDiscoveries::default());
        }
        let mut known = KnownDiscoveries::default();
        let mut stale = Vec::new();
        let expired_before = self.clock.now_ms() - DISCOVERY_RETENTION_MS;
        for record in self.store.discoveries().await? {
            match desired.iter().find(|server| server.name == record.server).map(|server| &server.state) {
                // The name now belongs to another server.
                Some(DesiredState::Run(entry, _)) if source_of(entry) != record.entry_hash => {
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
            if !starting.contains(&&record.server) {
                continue;
            }
            if slow_start::is_without_connection(&record) {
                known.without_connection.insert(record.server);
            } else if let Ok(text) = RawJson::parse(record.payload)
                && let Some(cached) = read_discovery(&text)
            {
                known.cached.insert(record.server, (Era::from_word(&record.era), cached));
            }
        }
        for server in stale {
            self.store.forget_discovery(&server).await?;
        }
        Ok(known)
    }
}
