//! The search index of one snapshot: the indexes of all servers and a combined word list.

use crate::comparison::Vectors;
use crate::fields::MatchedFields;
use crate::meaning::WIDTH;
use crate::names;
use crate::near_words::{NearWordCache, Neighbours, WordEntry};
use crate::server_index::{Posting, ServerIndex};
use crate::server_indexer::ServerIndexer;
use crate::texts::TextList;
use crate::words::hash;
use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use toolbooth_core::catalog::{ServerCatalog, Tool};

/// Maximum number of cached views; the cache is cleared when it is full.
const MAX_VIEWS: usize = 64;

/// A tool that fits a query.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The tool.
    pub tool: Arc<Tool>,
    /// How well it fits, from 0 to 1; 1 for a tool that was named exactly.
    pub score: f32,
    /// The fields in which words of the query were found.
    pub matched: MatchedFields,
}

/// The tools of an index that a caller may see.
#[derive(Debug)]
pub(crate) struct VisibleTools {
    /// One flag per tool; `None` if all tools are visible.
    seen: Option<Box<[bool]>>,
    /// Number of visible tools.
    pub(crate) count: usize,
    /// Number of servers with a visible tool.
    pub(crate) servers: usize,
    /// Cache of near words.
    pub(crate) near_words: NearWordCache,
}

impl VisibleTools {
    /// Whether a tool is visible.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen.get(place) == Some(&true))
    }

    /// Whether all tools are visible.
    pub(crate) fn is_whole(&self) -> bool {
        self.seen.is_none()
    }
}

/// The search index of one snapshot.
#[derive(Debug, Default)]
pub struct Index {
    pub(crate) servers: Vec<Arc<ServerCatalog>>,
    pub(crate) parts: Vec<Arc<ServerIndex>>,
    /// The position of each part's first tool, and finally the number of all tools.
    pub(crate) bases: Vec<usize>,
    /// The words of all parts, sorted by hash.
    pub(crate) words: Vec<WordEntry>,
    /// The start of each bucket of `words`; a bucket holds the words whose hashes begin with the same bits.
    buckets: Vec<u32>,
    /// The distinct words, sorted.
    pub(crate) vocabulary: TextList,
    /// The postings of all parts in the order of `words`: those of one word are adjacent.
    postings: Vec<Posting>,
    /// The vectors of all parts in one list: a search compares with every one of them.
    pub(crate) vectors: Vectors,
    pub(crate) neighbours: Neighbours,
    /// Finds exact names of servers and tools.
    pub(crate) named: names::NameFilter,
    views: Mutex<HashMap<String, Arc<VisibleTools>>>,
}

impl Index {
    /// Indexes these servers. Servers that an earlier snapshot has indexed are not read again.
    pub fn of<'a>(servers: impl Iterator<Item = &'a Arc<ServerCatalog>>) -> Self {
        let servers: Vec<_> = servers.filter(|server| !server.entry.is_own()).cloned().collect();
        let parts = read(&servers);
        let mut bases = vec![0];
        for server in &servers {
            bases.push(bases.last().copied().unwrap_or_default() + server.tools.len());
        }
        let mut words = collect_words(&parts);
        let postings = merge_postings(&mut words, &parts, &bases);
        let (vocabulary, unique) = unique(&words, &parts);
        let buckets = buckets(&words);
        let mut vectors = Vectors::with_room(WIDTH, bases.last().copied().unwrap_or_default());
        parts.iter().flat_map(|part| &part.vectors).for_each(|vector| vectors.push(vector.as_ref()));
        let names = servers.iter().map(|server| server.entry.name.as_str());
        let named = names::NameFilter::of(names.zip(parts.iter().map(|part| &part.spellings)));
        let mut index = Self {
            servers,
            parts,
            bases,
            words,
            buckets,
            vocabulary,
            postings,
            vectors,
            named,
            ..Self::default()
        };
        index.neighbours = Neighbours::of(
            unique,
            |entry| index.entries(index.word(*entry)).len(),
            |entry| index.shortest_written(entry),
        );
        index
    }

    /// The shortest word in any server's texts that has the stem of an entry.
    fn shortest_written(&self, entry: &WordEntry) -> Option<&str> {
        let written = self.entries(self.word(*entry)).iter().map(|entry| self.written(entry));
        written.min_by_key(|word| (word.len(), *word))
    }

    /// The range of words in the bucket of a hash.
    pub(crate) fn bucket(&self, hash: u64) -> Range<usize> {
        let bucket = bucket_of(hash);
        let at = |bucket: usize| self.buckets.get(bucket).map_or(0, |from| *from as usize);
        at(bucket)..at(bucket + 1)
    }

    /// The tools of one server that have a word.
    pub(crate) fn postings(&self, entry: &WordEntry) -> &[Posting] {
        self.postings.get(entry.from as usize..entry.to as usize).unwrap_or_default()
    }

    /// The number of tools.
    pub fn len(&self) -> usize {
        self.bases.last().copied().unwrap_or_default()
    }

    /// Whether the index has no tools.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tool at a position.
    pub(crate) fn tool(&self, place: usize) -> Option<&Arc<Tool>> {
        let part = self.bases.partition_point(|base| *base <= place).checked_sub(1)?;
        self.servers.get(part)?.tools.get(place - self.bases[part])
    }

    /// All tools in the order of their positions, regardless of permissions.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.servers.iter().flat_map(|server| &server.tools)
    }

    /// The word of an entry.
    pub(crate) fn word(&self, entry: WordEntry) -> &str {
        self.parts.get(entry.part as usize).map_or("", |part| part.words.get(entry.word as usize))
    }

    /// The shortest written form of an entry's stem at its server.
    pub(crate) fn written(&self, entry: &WordEntry) -> &str {
        self.parts.get(entry.part as usize).map_or("", |part| part.written.get(entry.word as usize))
    }

    /// The view with this key; computed once per snapshot while it is cached.
    pub(crate) fn view(&self, key: String, sees: impl Fn(&Tool) -> bool) -> Arc<VisibleTools> {
        let views = || self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = views().get(&key) {
            return known.clone();
        }
        let seen: Box<[bool]> = self.tools().map(|tool| sees(tool)).collect(); // Computed without holding the lock.
        let count = seen.iter().filter(|seen| **seen).count();
        let of_server = |bounds: &&[usize]| seen[bounds[0]..bounds[1]].contains(&true);
        let servers = self.bases.windows(2).filter(of_server).count();
        let seen = (count < seen.len()).then_some(seen);
        let view = Arc::new(VisibleTools { seen, count, servers, near_words: NearWordCache::default() });
        let mut views = views();
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.insert(key, view.clone());
        view
    }
}

/// Number of tools that justify another thread.
const TOOLS_PER_THREAD: usize = 500;
/// Maximum number of threads; more would find little work left.
const MAX_THREADS: usize = 4;

/// Indexes all servers; large catalogs use several threads.
fn read(servers: &[Arc<ServerCatalog>]) -> Vec<Arc<ServerIndex>> {
    let mut unread: Vec<_> = servers.iter().filter(|server| !server.derived.is_computed()).collect();
    // Largest first: a thread that took it last would delay the others.
    unread.sort_by_key(|server| std::cmp::Reverse(server.tools.len()));
    let tools: usize = unread.iter().map(|server| server.tools.len()).sum();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(tools / TOOLS_PER_THREAD);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut indexer = ServerIndexer::default();
        while let Some(server) = unread.get(next.fetch_add(1, Ordering::Relaxed)) {
            server.derived.get_or_compute(|| indexer.read(server));
        }
    };
    std::thread::scope(|scope| {
        // If a thread cannot be started, the others do its work.
        for _ in 1..threads {
            let _ = std::thread::Builder::new().name("search-index".into()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut indexer = ServerIndexer::default();
    servers.iter().map(|server| server.derived.get_or_compute(|| indexer.read(server))).collect()
}

/// The words of all parts, sorted by hash.
fn collect_words(parts: &[Arc<ServerIndex>]) -> Vec<WordEntry> {
    let mut words = Vec::with_capacity(parts.iter().map(|part| part.words.len()).sum());
    for (part, index) in parts.iter().zip(0_u32..) {
        let entries = (0..part.words.len()).zip(0_u32..);
        let entry =
            |(at, word)| WordEntry { hash: hash(part.words.get(at)), part: index, word, from: 0, to: 0 };
        words.extend(entries.map(entry));
    }
    words.sort_unstable_by_key(|entry| (entry.hash, entry.part));
    words
}

/// Number of buckets of the word list: a large catalog has a few dozen words in each.
const BUCKETS: usize = 1 << 12;

fn bucket_of(hash: u64) -> usize {
    usize::try_from(hash >> (64 - BUCKETS.ilog2())).unwrap_or_default()
}

/// The start of each bucket, and the end of the last.
fn buckets(words: &[WordEntry]) -> Vec<u32> {
    let mut buckets = vec![0_u32; BUCKETS + 1];
    words.iter().for_each(|entry| buckets[bucket_of(entry.hash) + 1] += 1);
    for at in 1..buckets.len() {
        buckets[at] += buckets[at - 1];
    }
    buckets
}

/// Copies the postings of all parts into one list, so that a search need not look into each part.
fn merge_postings(words: &mut [WordEntry], parts: &[Arc<ServerIndex>], bases: &[usize]) -> Vec<Posting> {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let mut all = Vec::with_capacity(parts.iter().map(|part| part.count_postings()).sum());
    for entry in words {
        let (part, base) = (&parts[entry.part as usize], place(bases[entry.part as usize]));
        entry.from = place(all.len());
        all.extend(part.postings(entry.word as usize).iter().map(|posting| posting.based(base)));
        entry.to = place(all.len());
    }
    all
}

/// The distinct words, sorted, and an entry for each.
fn unique(words: &[WordEntry], parts: &[Arc<ServerIndex>]) -> (TextList, Vec<WordEntry>) {
    let text = |entry: &WordEntry| parts[entry.part as usize].words.get(entry.word as usize);
    let different = words.chunk_by(|a, b| a.hash == b.hash).map(|same| same[0]);
    // Most words differ in their first letters, which are compared as one number.
    let mut sorted: Vec<(u64, WordEntry)> =
        different.map(|entry| (first_bytes(text(&entry)), entry)).collect();
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| text(&a.1).cmp(text(&b.1))));
    let mut texts = TextList::default();
    sorted.iter().for_each(|(_, entry)| texts.push(text(entry)));
    (texts, sorted.into_iter().map(|(_, entry)| entry).collect())
}

/// The first eight bytes as a number that sorts like the text.
fn first_bytes(text: &str) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    u64::from_be_bytes(first)
}
