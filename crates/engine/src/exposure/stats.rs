//! Statistics on what clients were shown of the catalog: the last list of each client, and the tools that it loaded
//! on demand.
//!
//! Used for `GET /stats` only. A list is held by a weak pointer, so that no old snapshot stays in memory, and its
//! tokens are counted on request. A client that requests the same list again costs one hash and one atomic read.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::ListBytes;
use toolbooth_core::clock::Clock;

/// The maximum number of clients; the one that was inactive longest is dropped first.
const MAX_CLIENTS: usize = 256;
/// The maximum number of tools of one client that are counted by name.
const MAX_LOADED: usize = 512;
/// The number of slots for recently seen pairs of client and list.
const RECENT_SLOTS: usize = 64;

/// Statistics on what clients were shown.
#[derive(Debug)]
pub struct ExposureStats {
    clock: Arc<Clock>,
    clients: Mutex<HashMap<UserClient, ClientRecord>>,
    recent: [AtomicU64; RECENT_SLOTS],
    hashing: RandomState,
}

/// A user and the name of one of their clients.
type UserClient = (Arc<str>, String);

#[derive(Debug, Default)]
struct ClientRecord {
    list: Weak<ListBytes>,
    /// The hash of client and list in `recent`.
    list_hash: u64,
    listed_at_ms: Option<i64>,
    seen_at_ms: i64,
    loaded: LoadedCount,
}

/// Tools that were loaded on demand, by a search or a description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedCount {
    /// The number of answers.
    pub answers: u64,
    /// The tokens of all answers.
    pub tokens: u64,
    /// How often each tool was in an answer, by exposed name.
    pub tools: HashMap<Box<str>, u32>,
}

/// The list and the tools that one client was shown.
#[derive(Debug, Clone)]
pub struct ClientExposure {
    /// The client's name.
    pub client: String,
    /// When a list of tools was last sent to it.
    pub listed_at_ms: Option<i64>,
    /// That list, unless the catalog has changed since.
    pub list: Option<Arc<ListBytes>>,
    /// The tools that it loaded on demand.
    pub loaded: LoadedCount,
}

impl ExposureStats {
    pub(super) fn new(clock: Arc<Clock>) -> Self {
        let recent = std::array::from_fn(|_| AtomicU64::new(0));
        Self { clock, clients: Mutex::default(), recent, hashing: RandomState::new() }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<UserClient, ClientRecord>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, list_hash: u64) -> &AtomicU64 {
        let at = usize::try_from(list_hash % (RECENT_SLOTS as u64)).unwrap_or(0);
        &self.recent[at]
    }

    fn hash(&self, caller: &Caller, client: &ClientFacts, list: &Arc<ListBytes>) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        caller.user.hash(&mut hasher);
        client.info.as_ref().map(|info| info.as_bytes()).hash(&mut hasher);
        // The weak pointer of a record keeps the allocation, so no other list can have the same address.
        Arc::as_ptr(list).hash(&mut hasher);
        hasher.finish() | 1
    }

    /// Records that a list of tools was sent to a client.
    pub fn listed(&self, caller: &Caller, client: &ClientFacts, list: &Arc<ListBytes>) {
        let list_hash = self.hash(caller, client, list);
        if self.slot(list_hash).load(Ordering::Relaxed) == list_hash {
            return;
        }
        self.update(caller, client, |record| {
            self.slot(record.list_hash)
                .compare_exchange(record.list_hash, 0, Ordering::Relaxed, Ordering::Relaxed)
                .ok();
            record.list = Arc::downgrade(list);
            record.list_hash = list_hash;
            record.listed_at_ms = Some(record.seen_at_ms);
            self.slot(list_hash).store(list_hash, Ordering::Relaxed);
        });
    }

    /// Records that these tools were in an answer to a client, which had this many tokens.
    pub fn loaded(&self, caller: &Caller, client: &ClientFacts, tools: &[&str], tokens: u32) {
        self.update(caller, client, |record| {
            let LoadedCount { answers, tokens: all, tools: counts } = &mut record.loaded;
            *answers += 1;
            *all += u64::from(tokens);
            for name in tools {
                if let Some(count) = counts.get_mut(*name) {
                    *count = count.saturating_add(1);
                } else if counts.len() < MAX_LOADED {
                    counts.insert((*name).into(), 1);
                }
            }
        });
    }

    fn update(&self, caller: &Caller, client: &ClientFacts, change: impl FnOnce(&mut ClientRecord)) {
        let key = (caller.user.clone(), client.name());
        let mut clients = self.clients();
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
            let silent = clients.iter().min_by_key(|(_, record)| record.seen_at_ms);
            if let Some(key) = silent.map(|(key, _)| key.clone())
                && let Some(gone) = clients.remove(&key)
            {
                self.slot(gone.list_hash).store(0, Ordering::Relaxed);
            }
        }
        let record = clients.entry(key).or_default();
        record.seen_at_ms = self.clock.now_ms();
        change(record);
    }

    /// The clients of a user that were shown anything, most recent first.
    pub fn clients_of(&self, user: &str) -> Vec<String> {
        let clients = self.clients();
        let own = clients.iter().filter(|((owner, _), _)| **owner == *user);
        let mut own: Vec<_> = own.map(|((_, client), record)| (record.seen_at_ms, client.clone())).collect();
        own.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        own.into_iter().map(|(_, client)| client).collect()
    }

    /// The list and the tools that one client of a user was shown.
    pub fn of_client(&self, user: &str, client: &str) -> Option<ClientExposure> {
        let clients = self.clients();
        let mut own = clients.iter().filter(|((owner, name), _)| **owner == *user && name == client);
        own.next().map(|((_, client), record)| ClientExposure {
            client: client.clone(),
            listed_at_ms: record.listed_at_ms,
            list: record.list.upgrade(),
            loaded: record.loaded.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::system_clock;
    use toolbooth_core::catalog::ListKind;
    use toolbooth_core::json::RawJson;

    fn client(name: &str) -> ClientFacts {
        ClientFacts {
            info: Some(RawJson::from_value(&serde_json::json!({ "name": name }))),
            ..ClientFacts::default()
        }
    }

    fn list() -> Arc<ListBytes> {
        Arc::new(ListBytes::join(ListKind::Tools, std::iter::empty()))
    }

    #[test]
    fn the_last_list_of_each_client_is_available_while_it_is_in_use() {
        let (shown, ann) = (ExposureStats::new(system_clock()), Caller::owner("ann"));
        let (first, second) = (list(), list());
        shown.listed(&ann, &client("a"), &first);
        shown.listed(&ann, &client("b"), &first);
        shown.listed(&ann, &client("a"), &second);
        shown.listed(&Caller::owner("bob"), &client("c"), &second);
        let of = |client: &str| shown.of_client("ann", client).and_then(|shown| shown.list);
        assert!(of("a").is_some_and(|list| Arc::ptr_eq(&list, &second)));
        assert!(of("b").is_some_and(|list| Arc::ptr_eq(&list, &first)));
        assert!(shown.of_client("ann", "c").is_none(), "another's client");
        // Back to the first list: the recent slot of the second one must not hide it.
        shown.listed(&ann, &client("a"), &first);
        assert!(of("a").is_some_and(|list| Arc::ptr_eq(&list, &first)));
        drop(first);
        assert!(of("b").is_none());
        let mut names = shown.clients_of("ann");
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn loaded_tools_are_counted_up_to_a_limit() {
        let (shown, ann) = (ExposureStats::new(system_clock()), Caller::owner("ann"));
        shown.loaded(&ann, &client("a"), &["x", "y"], 100);
        shown.loaded(&ann, &client("a"), &["x"], 50);
        let loaded = shown.of_client("ann", "a").expect("it was noted").loaded;
        assert_eq!((loaded.answers, loaded.tokens, loaded.tools["x"]), (2, 150, 2));
        let names: Vec<String> = (0..MAX_LOADED * 2).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        shown.loaded(&ann, &client("a"), &names, 1);
        assert_eq!(shown.of_client("ann", "a").expect("still there").loaded.tools.len(), MAX_LOADED);
        for number in 0..MAX_CLIENTS + 5 {
            shown.listed(&ann, &client(&number.to_string()), &list());
        }
        assert_eq!(shown.clients_of("ann").len(), MAX_CLIENTS);
    }
}
