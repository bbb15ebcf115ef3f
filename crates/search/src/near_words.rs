//! The words of an index with their vectors, and the cache of words that are near to others.

use crate::comparison::Vectors;
use crate::meaning::{Vector, WIDTH, meaning_of_word};
use std::cmp::Reverse;
use std::sync::{Arc, Mutex, MutexGuard};
use toolbooth_core::name_map::NameMap;

/// Number of near words that count for one word.
pub(crate) const NEAR: usize = 3;
/// Maximum number of indexed words; in a larger catalog the words that fewest servers have are left out.
pub(crate) const MAX_WORDS: usize = 16_384;
/// Number of words that justify a second thread.
const WORDS_PER_THREAD: usize = 2_000;
/// Maximum number of cached words; the cache is cleared when it is full.
pub(crate) const MAX_REMEMBERED: usize = 2_000;

/// A word of one server: its position there and its postings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordEntry {
    pub(crate) hash: u64,
    pub(crate) part: u32,
    pub(crate) word: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// A word of the catalog that is near to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearWord {
    /// Its first entry.
    pub(crate) entry: WordEntry,
    /// Its similarity, from 0 to 1.
    pub(crate) similarity: f32,
}

/// Cache of near words for one view. The same words occur in many searches.
#[derive(Debug, Default)]
pub(crate) struct NearWordCache(Mutex<NameMap<Box<str>, Arc<[NearWord]>>>);

impl NearWordCache {
    pub(crate) fn lock(&self) -> MutexGuard<'_, NameMap<Box<str>, Arc<[NearWord]>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn keep(&self, word: &str, near: Arc<[NearWord]>) {
        let mut known = self.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(word.into(), near);
    }
}

/// The vectors of an index's words.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    pub(crate) words: Vec<WordEntry>,
    pub(crate) vectors: Vectors,
}

impl Neighbours {
    /// Builds the vectors of these words. `servers` counts the servers that have a word. A stem may not be a word, so
    /// `written` gives its shortest written form.
    pub(crate) fn of<'a>(
        mut words: Vec<WordEntry>,
        servers: impl Fn(&WordEntry) -> usize,
        written: impl Fn(&WordEntry) -> Option<&'a str> + Sync,
    ) -> Self {
        if words.len() > MAX_WORDS {
            words.sort_by_cached_key(|entry| Reverse(servers(entry)));
            words.truncate(MAX_WORDS);
        }
        let read = |words: &[WordEntry]| -> Vec<(WordEntry, Vector)> {
            let meaning = |entry: &WordEntry| Some((*entry, meaning_of_word(written(entry)?)?));
            words.iter().filter_map(meaning).collect()
        };
        let (first, second) =
            words.split_at(if words.len() < WORDS_PER_THREAD { words.len() } else { words.len() / 2 });
        let (first, second) = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("search-index".into());
            let other =
                (!second.is_empty()).then(|| builder.spawn_scoped(scope, || read(second)).ok()).flatten();
            let first = read(first);
            // If the thread cannot be started, this one does its work.
            (first, other.and_then(|other| other.join().ok()).unwrap_or_else(|| read(second)))
        });
        let count = first.len() + second.len();
        let mut known = Self { words: Vec::with_capacity(count), vectors: Vectors::with_room(WIDTH, count) };
        for (entry, meaning) in first.into_iter().chain(second) {
            known.words.push(entry);
            known.vectors.push(Some(&meaning));
        }
        known
    }
}
