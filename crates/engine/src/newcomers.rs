//! Servers on their way: nothing is known of them yet, so a first look waits for them.
//!
//! Most clients list once, when they start. A list that is answered before a server has ever been heard
//! shows nothing of it, and such a client never looks again. From the second start on the catalog is cached
//! and no list waits. A call waits a moment even then: the server may say something else of its tools than it did
//! before, and a call is judged by what its server says now.

use crate::engine::Engine;
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

/// How long after its start a server is waited for. Twice the 1.5 seconds after which a process that ignores
/// the modern greeting is asked the old way, so that such a server has as long again to come up; no more, as a
/// client that lists is kept waiting. What takes longer, such as a first download, is told of by
/// `list_changed`. Counted from the start, so that one slow server delays a moment and not every request.
const PATIENCE: Duration = Duration::from_secs(3);

/// Those who have not arrived.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    /// How many: all that is looked at once everybody is known.
    count: AtomicUsize,
    coming: watch::Sender<BTreeMap<ServerName, Newcomer>>,
}

#[derive(Debug)]
struct Newcomer {
    entry: Arc<ServerEntry>,
    /// Until when it is waited for.
    until: Instant,
    knowledge: Knowledge,
}

/// What is known of a server that is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Nothing: it was never heard.
    Nothing,
    /// What it said before the gateway was started.
    Earlier,
}

impl Newcomers {
    /// Counts a server in until its first try has ended, well or badly, or it was called off.
    pub(crate) fn expect(self: &Arc<Self>, server: &Supervised, knowledge: Knowledge) {
        let (entry, newcomers) = (server.entry.clone(), self.clone());
        let newcomer = Newcomer { entry: entry.clone(), until: Instant::now() + PATIENCE, knowledge };
        self.change(|coming| drop(coming.insert(entry.name.clone(), newcomer)));
        let tried = server.tried();
        tokio::spawn(async move {
            tried.await;
            newcomers.change(|coming| {
                // A changed entry may have taken its place meanwhile.
                if coming.get(&entry.name).is_some_and(|newcomer| Arc::ptr_eq(&newcomer.entry, &entry)) {
                    coming.remove(&entry.name);
                }
            });
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<ServerName, Newcomer>)) {
        self.coming.send_modify(|coming| {
            change(coming);
            self.count.store(coming.len(), Ordering::Relaxed);
        });
    }

    fn are_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Waits for those that this caller may use; others do not exist for the caller.
    async fn arrived(&self, caller: &Caller, known: impl Fn() -> bool) -> Gathered {
        let mut coming = self.coming.subscribe();
        loop {
            let last = {
                let coming = coming.borrow_and_update();
                coming.values().filter(|newcomer| newcomer.is_new_to(caller)).map(|n| n.until).max()
            };
            let Some(until) = last.filter(|_| !known()) else { return Gathered::Enough };
            if tokio::time::timeout_at(until, coming.changed()).await.is_err() {
                return Gathered::NotAll;
            }
        }
    }

    /// Waits for one that was heard before, if it is on its way.
    async fn returned(&self, server: &ServerName) {
        let mut coming = self.coming.subscribe();
        loop {
            let until = coming.borrow_and_update().get(server).map(|newcomer| newcomer.until);
            let Some(until) = until else { return };
            if tokio::time::timeout_at(until, coming.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Newcomer {
    fn is_new_to(&self, caller: &Caller) -> bool {
        self.knowledge == Knowledge::Nothing && on_server(caller, &self.entry) == Permission::Granted
    }
}

/// Whether the catalog shows every server that a caller may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathered {
    /// It does, or what was asked for is known anyway.
    Enough,
    /// Some are still on their way.
    NotAll,
}

impl Gathered {
    /// Says of something unknown that it may yet come. What a caller may not use is unknown in the same
    /// words.
    pub fn explain(self, problem: Problem) -> Problem {
        match (self, problem.code) {
            (Self::NotAll, "call.unknown-tool" | "tool.unknown" | "prompt.unknown" | "resource.unknown") => {
                Problem {
                    message: format!("{} (servers are still connecting)", problem.message),
                    hint: Some("try again in a moment; `toolbooth servers` shows who is on the way".into()),
                    ..problem
                }
            }
            _ => problem,
        }
    }
}

impl Engine {
    /// Waits until no server is on its way, and no longer than any is waited for.
    pub async fn settled(&self) {
        let mut coming = self.newcomers().coming.subscribe();
        loop {
            let last = coming.borrow_and_update().values().map(|newcomer| newcomer.until).max();
            let Some(until) = last else { return };
            if tokio::time::timeout_at(until, coming.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Waits, for a moment at most, until the catalog shows every server that this caller may use. Costs a
    /// look at one number where all of them are known.
    pub async fn gathered(&self, caller: &Caller) -> Gathered {
        self.gathered_unless(caller, || false).await
    }

    /// Waits likewise for a tool of this name. If it is known from before, its server is waited for to say it again.
    pub async fn gathered_for_tool(&self, name: &str, caller: &Caller) -> Gathered {
        if self.newcomers().are_none() {
            return Gathered::Enough;
        }
        let server = match self.catalog().tool(name, caller) {
            Lookup::Found(tool) => Some(tool.server.name.clone()),
            _ => None,
        };
        if let Some(server) = server {
            Box::pin(self.newcomers().returned(&server)).await;
        }
        let known = || !matches!(self.catalog().tool(name, caller), Lookup::Unknown);
        self.gathered_unless(caller, known).await
    }

    /// Waits likewise for a prompt.
    pub(crate) async fn gathered_for_prompt(&self, name: &str, caller: &Caller) -> Gathered {
        self.gathered_unless(caller, || self.catalog().prompt(name, caller).is_some()).await
    }

    /// Waits likewise for a resource.
    pub(crate) async fn gathered_for_resource(&self, uri: &str, caller: &Caller) -> Gathered {
        self.gathered_unless(caller, || self.catalog().lists_resource(uri, caller)).await
    }

    async fn gathered_unless(&self, caller: &Caller, known: impl Fn() -> bool) -> Gathered {
        if self.newcomers().are_none() || known() {
            return Gathered::Enough;
        }
        // Apart, so that requests that do not wait are no larger for it.
        Box::pin(self.newcomers().arrived(caller, known)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::caller::{Groups, Standing};
    use toolbooth_core::fault::Blame;
    use toolbooth_core::server::Transport;

    fn newcomers(groups: &[&str]) -> Newcomers {
        let newcomers = Newcomers::default();
        let name: ServerName = "slow".parse().expect("a name");
        let mut entry = ServerEntry::with_defaults(name.clone(), Transport::Bundled("slow".into()));
        entry.groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let knowledge = Knowledge::Nothing;
        let newcomer = Newcomer { entry: Arc::new(entry), until: Instant::now() + PATIENCE, knowledge };
        newcomers.change(|coming| drop(coming.insert(name, newcomer)));
        newcomers
    }

    fn guest() -> Caller {
        Caller { groups: Groups::Named(Arc::default()), standing: Standing::Guest, ..Caller::owner("ann") }
    }

    #[tokio::test(start_paused = true)]
    async fn only_servers_that_a_caller_may_use_are_waited_for() {
        let cases = [
            (&["users"][..], Gathered::NotAll, PATIENCE),
            (&["staff"][..], Gathered::Enough, Duration::ZERO), // for this caller it does not exist
        ];
        for (groups, expected, waits) in cases {
            let newcomers = newcomers(groups);
            let start = Instant::now();
            assert_eq!(newcomers.arrived(&guest(), || false).await, expected, "{groups:?}");
            assert!(start.elapsed() - waits < Duration::from_millis(10), "{groups:?}: {:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_goes_on_when_the_last_one_is_there() {
        let newcomers = newcomers(&["users"]);
        let start = Instant::now();
        let arriving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            newcomers.change(BTreeMap::clear);
        };
        let ann = guest();
        let (gathered, ()) = tokio::join!(newcomers.arrived(&ann, || false), arriving);
        assert_eq!(gathered, Gathered::Enough);
        assert_eq!(start.elapsed().as_secs(), 1);
        assert!(newcomers.are_none());
    }

    #[test]
    fn only_what_is_unknown_may_yet_come() {
        let problem = |code| Problem { code, blame: Blame::Caller, message: "No".into(), hint: None };
        let cases = [
            (Gathered::NotAll, "call.unknown-tool", "No (servers are still connecting)"),
            (Gathered::NotAll, "call.ambiguous-name", "No"),
            (Gathered::Enough, "call.unknown-tool", "No"),
        ];
        for (gathered, code, expected) in cases {
            assert_eq!(gathered.explain(problem(code)).message, expected, "{gathered:?} {code}");
        }
    }
}
