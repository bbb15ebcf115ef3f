//! Waiting for servers that are starting: a request about a server that was never connected waits for it briefly.
//!
//! Most clients list tools once, when they start. A list that is answered before a server was ever connected does not
//! contain its tools, and such a client never lists again. From the second start on the catalog is cached and lists
//! do not wait. A call waits briefly even then, because the server may list a changed definition, and a call is
//! judged by the current one.

use super::LiveCatalog;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use toolbooth_core::caller::Caller;
use toolbooth_core::catalog::Lookup;
use toolbooth_core::fault::Problem;
use toolbooth_core::names::ServerName;
use toolbooth_core::permission::{Permission, on_server};
use toolbooth_core::server::ServerEntry;
use toolbooth_upstream::Supervised;

/// How long after its start a server is waited for. A process that ignores the modern handshake gets the legacy one
/// after 1.5 seconds; this leaves it as much time again. Not longer, because clients wait for their list: a slower
/// server, such as one that downloads a package first, is announced by `list_changed`. Counted from the start, so
/// that a slow server delays only the first requests.
pub(crate) const START_WAIT: Duration = Duration::from_secs(3);

/// The servers whose first connection attempt has not ended.
#[derive(Debug, Default)]
pub(super) struct StartingServers {
    /// Their number: the only value that is read once all servers are known.
    count: AtomicUsize,
    starting: watch::Sender<BTreeMap<ServerName, StartingServer>>,
}

#[derive(Debug)]
struct StartingServer {
    entry: Arc<ServerEntry>,
    /// The time until which requests wait for it.
    until: Instant,
    knowledge: Knowledge,
}

/// The knowledge about a server that is starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Nothing: it was never connected.
    Nothing,
    /// The cached discovery of an earlier run.
    Cached,
    /// It did not connect in the last run either, so lists do not wait for it again.
    NoConnection,
}

impl StartingServers {
    /// Adds a server until its first connection attempt has succeeded, failed or been cancelled.
    fn add(self: &Arc<Self>, server: &Supervised, knowledge: Knowledge) {
        let (entry, starting_servers) = (server.entry.clone(), self.clone());
        let added = StartingServer { entry: entry.clone(), until: Instant::now() + START_WAIT, knowledge };
        self.change(|starting| drop(starting.insert(entry.name.clone(), added)));
        let tried = server.tried();
        tokio::spawn(async move {
            tried.await;
            starting_servers.change(|starting| {
                // The entry may have been replaced by a changed one meanwhile.
                if starting.get(&entry.name).is_some_and(|server| Arc::ptr_eq(&server.entry, &entry)) {
                    starting.remove(&entry.name);
                }
            });
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<ServerName, StartingServer>)) {
        self.starting.send_modify(|starting| {
            change(starting);
            self.count.store(starting.len(), Ordering::Relaxed);
        });
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Waits for the servers that this caller may use. Other servers do not exist for the caller.
    async fn wait_for_new(&self, caller: &Caller, known: impl Fn() -> bool) -> CatalogReadiness {
        let mut starting = self.starting.subscribe();
        loop {
            let last = {
                let starting = starting.borrow_and_update();
                starting.values().filter(|server| server.is_new_to(caller)).map(|n| n.until).max()
            };
            let Some(until) = last.filter(|_| !known()) else { return CatalogReadiness::Ready };
            if tokio::time::timeout_at(until, starting.changed()).await.is_err() {
                return CatalogReadiness::Partial;
            }
        }
    }

    /// Waits for a server with a cached discovery, if it is starting.
    async fn wait_for_one(&self, server: &ServerName) {
        let mut starting = self.starting.subscribe();
        loop {
            let until = starting.borrow_and_update().get(server).map(|server| server.until);
            let Some(until) = until else { return };
            if tokio::time::timeout_at(until, starting.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl StartingServer {
    fn is_new_to(&self, caller: &Caller) -> bool {
        self.knowledge == Knowledge::Nothing && on_server(caller, &self.entry) == Permission::Granted
    }
}

/// Whether the catalog contains every server that a caller may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogReadiness {
    /// It does, or it already contains what was requested.
    Ready,
    /// Some servers are still starting.
    Partial,
}

impl CatalogReadiness {
    /// Adds to an error about something unknown that servers are still starting. The words are the same for something
    /// that the caller may not use.
    pub fn mention_starting_servers(self, problem: Problem) -> Problem {
        match (self, problem.code) {
            (Self::Partial, "call.unknown-tool" | "tool.unknown" | "prompt.unknown" | "resource.unknown") => {
                Problem {
                    message: format!("{} (servers are still connecting)", problem.message),
                    hint: Some(
                        "try again in a moment; `toolbooth servers` shows which servers are still connecting"
                            .into(),
                    ),
                    ..problem
                }
            }
            _ => problem,
        }
    }
}

impl LiveCatalog {
    /// Has requests wait for a server until its first connection attempt has ended.
    pub(crate) fn add_starting(&self, server: &Supervised, knowledge: Knowledge) {
        self.starting.add(server, knowledge);
    }

    /// Waits briefly until the catalog contains every server that this caller may use. Costs one atomic read if all
    /// servers are known.
    pub async fn wait_for_servers(&self, caller: &Caller) -> CatalogReadiness {
        self.wait_unless(caller, || false).await
    }

    /// Waits for a tool of this name. If the tool is cached, waits until its server has listed it again. Costs one
    /// atomic read if all servers are known.
    pub async fn wait_for_tool(&self, name: &str, caller: &Caller) -> CatalogReadiness {
        if self.starting.is_empty() {
            return CatalogReadiness::Ready;
        }
        let server = match self.load().tool(name, caller) {
            Lookup::Found(tool) => Some(tool.server.name.clone()),
            _ => None,
        };
        if let Some(server) = server {
            Box::pin(self.starting.wait_for_one(&server)).await;
        }
        let known = || !matches!(self.load().tool(name, caller), Lookup::Unknown);
        self.wait_unless(caller, known).await
    }

    /// Waits for a prompt of this name.
    pub(crate) async fn wait_for_prompt(&self, name: &str, caller: &Caller) -> CatalogReadiness {
        self.wait_unless(caller, || self.load().prompt(name, caller).is_some()).await
    }

    /// Waits for a resource with this URI.
    pub(crate) async fn wait_for_resource(
        &self,
        uri: &str,
        only: Option<&ServerName>,
        caller: &Caller,
    ) -> CatalogReadiness {
        let known = || match only {
            Some(server) => self.load().may_have_resource(server, uri, caller),
            None => self.load().lists_resource(uri, caller),
        };
        self.wait_unless(caller, known).await
    }

    async fn wait_unless(&self, caller: &Caller, known: impl Fn() -> bool) -> CatalogReadiness {
        if self.starting.is_empty() || known() {
            return CatalogReadiness::Ready;
        }
        // Boxed, so that the futures of requests that do not wait stay small.
        Box::pin(self.starting.wait_for_new(caller, known)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::caller::{CallerKind, Groups};
    use toolbooth_core::fault::Blame;
    use toolbooth_core::server::Transport;

    fn starting_servers(groups: &[&str]) -> StartingServers {
        starting_with(groups, Knowledge::Nothing)
    }

    fn starting_with(groups: &[&str], knowledge: Knowledge) -> StartingServers {
        let starting_servers = StartingServers::default();
        let name: ServerName = "slow".parse().expect("a name");
        let mut entry = ServerEntry::with_defaults(name.clone(), Transport::Bundled("slow".into()));
        entry.groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let server = StartingServer { entry: Arc::new(entry), until: Instant::now() + START_WAIT, knowledge };
        starting_servers.change(|starting| drop(starting.insert(name, server)));
        starting_servers
    }

    fn guest() -> Caller {
        Caller { groups: Groups::Named(Arc::default()), kind: CallerKind::Guest, ..Caller::owner("ann") }
    }

    #[tokio::test(start_paused = true)]
    async fn only_servers_that_a_caller_may_use_are_waited_for() {
        let cases = [
            (&["users"][..], CatalogReadiness::Partial, START_WAIT),
            (&["staff"][..], CatalogReadiness::Ready, Duration::ZERO), // for this caller it does not exist
        ];
        for (groups, expected, waits) in cases {
            let starting_servers = starting_servers(groups);
            let start = Instant::now();
            assert_eq!(starting_servers.wait_for_new(&guest(), || false).await, expected, "{groups:?}");
            assert!(start.elapsed() - waits < Duration::from_millis(10), "{groups:?}: {:?}", start.elapsed());
        }
    }

    // Otherwise a server that never connects would delay the lists of every start.
    #[tokio::test(start_paused = true)]
    async fn lists_wait_only_once_for_a_server_that_does_not_connect() {
        let start = Instant::now();
        let starting_servers = starting_with(&["users"], Knowledge::NoConnection);
        assert_eq!(starting_servers.wait_for_new(&guest(), || false).await, CatalogReadiness::Ready);
        assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_continues_when_the_last_server_is_there() {
        let starting_servers = starting_servers(&["users"]);
        let start = Instant::now();
        let arriving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            starting_servers.change(BTreeMap::clear);
        };
        let ann = guest();
        let (readiness, ()) = tokio::join!(starting_servers.wait_for_new(&ann, || false), arriving);
        assert_eq!(readiness, CatalogReadiness::Ready);
        assert_eq!(start.elapsed().as_secs(), 1);
        assert!(starting_servers.is_empty());
    }

    #[test]
    fn only_errors_about_unknown_names_are_explained() {
        let problem = |code| Problem { code, blame: Blame::Caller, message: "No".into(), hint: None };
        let cases = [
            (CatalogReadiness::Partial, "call.unknown-tool", "No (servers are still connecting)"),
            (CatalogReadiness::Partial, "call.ambiguous-name", "No"),
            (CatalogReadiness::Ready, "call.unknown-tool", "No"),
        ];
        for (readiness, code, expected) in cases {
            assert_eq!(
                readiness.mention_starting_servers(problem(code)).message,
                expected,
                "{readiness:?} {code}"
            );
        }
    }
}
