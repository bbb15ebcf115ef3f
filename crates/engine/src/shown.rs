//! What clients were shown of the catalog: the last list of each, and what was loaded beside it.
//!
//! It is kept for statistics and decides nothing. A list is remembered by a weak pointer, so that no old snapshot
//! outlives its use, and weighed when somebody asks. A client that asks for the same list again pays for one hash
//! and one atomic load.

use crate::clock::now_ms;
use crate::engine::Engine;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use toolbooth_core::caller::{Caller, ClientFacts};
use toolbooth_core::catalog::ListBytes;

/// The most clients that are remembered; the longest silent goes first.
const MAX_CLIENTS: usize = 256;
/// The most tools of one client that are counted by name.
const MAX_LOADED: usize = 512;
/// How many pairs of client and list are recognised at once.
const KNOWN: usize = 64;

/// What clients were shown.
#[derive(Debug)]
pub struct Shown {
    clients: Mutex<HashMap<Key, Record>>,
    known: [AtomicU64; KNOWN],
    hashing: RandomState,
}

/// A user, and the name of a client of theirs.
type Key = (Arc<str>, String);

#[derive(Debug, Default)]
struct Record {
    list: Weak<ListBytes>,
    /// What stands for client and list in `known`.
    mark: u64,
    listed_at_ms: Option<i64>,
    heard_at_ms: i64,
    loaded: LoadedCount,
}

/// What was loaded on demand: by searching for tools or asking about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedCount {
    /// How many answers there were.
    pub answers: u64,
    /// The tokens of all answers together.
    pub tokens: u64,
    /// How often each tool was in one, by exposed name.
    pub tools: HashMap<Box<str>, u32>,
}

/// What one client was shown.
#[derive(Debug, Clone)]
pub struct ShownTo {
    /// The client's name.
    pub client: String,
    /// When it was last sent a list of tools.
    pub listed_at_ms: Option<i64>,
    /// That list, unless the catalog has changed since.
    pub list: Option<Arc<ListBytes>>,
    /// What was loaded beside it.
    pub loaded: LoadedCount,
}

impl Default for Shown {
    fn default() -> Self {
        let known = std::array::from_fn(|_| AtomicU64::new(0));
        Self { clients: Mutex::default(), known, hashing: RandomState::new() }
    }
}

impl Shown {
    fn clients(&self) -> MutexGuard<'_, HashMap<Key, Record>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, mark: u64) -> &AtomicU64 {
        let at = usize::try_from(mark % (KNOWN as u64)).unwrap_or(0);
        &self.known[at]
    }

    fn mark(&self, caller: &Caller, client: &ClientFacts, list: &Arc<ListBytes>) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        caller.user.hash(&mut hasher);
        client.info.as_ref().map(|info| info.as_bytes()).hash(&mut hasher);
        // A remembered list keeps its address for itself, so that no other can have the same.
        Arc::as_ptr(list).hash(&mut hasher);
        hasher.finish() | 1
    }

    /// Notes that a client was sent this list of tools.
    pub fn listed(&self, caller: &Caller, client: &ClientFacts, list: &Arc<ListBytes>) {
        let mark = self.mark(caller, client, list);
        if self.place(mark).load(Ordering::Relaxed) == mark {
            return;
        }
        self.note(caller, client, |record| {
            self.place(record.mark)
                .compare_exchange(record.mark, 0, Ordering::Relaxed, Ordering::Relaxed)
                .ok();
            record.list = Arc::downgrade(list);
            record.mark = mark;
            record.listed_at_ms = Some(record.heard_at_ms);
            self.place(mark).store(mark, Ordering::Relaxed);
        });
    }

    /// Notes that a client was told of these tools, by exposed name, in an answer of so many tokens.
    pub fn loaded(&self, caller: &Caller, client: &ClientFacts, tools: &[&str], tokens: u32) {
        self.note(caller, client, |record| {
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

    fn note(&self, caller: &Caller, client: &ClientFacts, change: impl FnOnce(&mut Record)) {
        let key = (caller.user.clone(), client.name());
        let mut clients = self.clients();
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(&key) {
            let silent = clients.iter().min_by_key(|(_, record)| record.heard_at_ms);
            if let Some(key) = silent.map(|(key, _)| key.clone())
                && let Some(gone) = clients.remove(&key)
            {
                self.place(gone.mark).store(0, Ordering::Relaxed);
            }
        }
        let record = clients.entry(key).or_default();
        record.heard_at_ms = now_ms();
        change(record);
    }

    /// The clients of a user that were shown anything, the last one first.
    pub fn clients_of(&self, user: &str) -> Vec<String> {
        let clients = self.clients();
        let own = clients.iter().filter(|((owner, _), _)| **owner == *user);
        let mut own: Vec<_> = own.map(|((_, client), record)| (record.heard_at_ms, client.clone())).collect();
        own.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        own.into_iter().map(|(_, client)| client).collect()
    }

    /// What a client of a user was shown.
    pub fn to(&self, user: &str, client: &str) -> Option<ShownTo> {
        let clients = self.clients();
        let mut own = clients.iter().filter(|((owner, name), _)| **owner == *user && name == client);
        own.next().map(|((_, client), record)| ShownTo {
            client: client.clone(),
            listed_at_ms: record.listed_at_ms,
            list: record.list.upgrade(),
            loaded: record.loaded.clone(),
        })
    }
}

impl Engine {
    /// Notes that a client was told of tools on demand: in the answer to a search or a question about one.
    pub fn note_loaded(&self, caller: &Caller, client: &ClientFacts, tools: &[&str], tokens: u32) {
        self.shown().loaded(caller, client, tools, tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn the_last_list_of_each_client_is_known_while_it_is_in_use() {
        let (shown, ann) = (Shown::default(), Caller::owner("ann"));
        let (first, second) = (list(), list());
        shown.listed(&ann, &client("a"), &first);
        shown.listed(&ann, &client("b"), &first);
        shown.listed(&ann, &client("a"), &second);
        shown.listed(&Caller::owner("bob"), &client("c"), &second);
        let of = |client: &str| shown.to("ann", client).and_then(|shown| shown.list);
        assert!(of("a").is_some_and(|list| Arc::ptr_eq(&list, &second)));
        assert!(of("b").is_some_and(|list| Arc::ptr_eq(&list, &first)));
        assert!(shown.to("ann", "c").is_none(), "another's client");
        // Back to the first one: what was recognised before must not hide it.
        shown.listed(&ann, &client("a"), &first);
        assert!(of("a").is_some_and(|list| Arc::ptr_eq(&list, &first)));
        drop(first);
        assert!(of("b").is_none());
        let mut names = shown.clients_of("ann");
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_is_loaded_adds_up_and_stays_bounded() {
        let (shown, ann) = (Shown::default(), Caller::owner("ann"));
        shown.loaded(&ann, &client("a"), &["x", "y"], 100);
        shown.loaded(&ann, &client("a"), &["x"], 50);
        let loaded = shown.to("ann", "a").expect("it was noted").loaded;
        assert_eq!((loaded.answers, loaded.tokens, loaded.tools["x"]), (2, 150, 2));
        let names: Vec<String> = (0..MAX_LOADED * 2).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        shown.loaded(&ann, &client("a"), &names, 1);
        assert_eq!(shown.to("ann", "a").expect("still there").loaded.tools.len(), MAX_LOADED);
        for number in 0..MAX_CLIENTS + 5 {
            shown.listed(&ann, &client(&number.to_string()), &list());
        }
        assert_eq!(shown.clients_of("ann").len(), MAX_CLIENTS);
    }
}
