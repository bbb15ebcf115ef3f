//! The index of one snapshot: all servers' parts side by side, and the words of all of them.

use super::comparison::Vectors;
use super::fields::Fields;
use super::lexical::hash;
use super::meaning::WIDTH;
use super::names;
use super::neighbours::{Neighbours, Remembered};
use super::part::{Analyst, Part, Posting};
use super::texts::Texts;
use crate::catalog::{ServerCatalog, Tool};
use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How many views are kept; beyond that they are made anew.
const MAX_VIEWS: usize = 64;

/// A tool that fits.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The tool.
    pub tool: Arc<Tool>,
    /// How well it fits, from 0 to 1; 1 for a tool that was asked for by name.
    pub score: f32,
    /// Where the words of the query were found.
    pub matched: Fields,
}

/// Where a word is: its part and its place there, and the postings of the tools that have it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: u64,
    pub(super) part: u32,
    pub(super) word: u32,
    from: u32,
    to: u32,
}

/// Which tools of an index somebody may see.
#[derive(Debug)]
pub(crate) struct View {
    /// One for each tool; none where all are seen.
    seen: Option<Box<[bool]>>,
    /// How many are seen.
    pub(super) count: usize,
    /// How many servers have a tool that is seen.
    pub(super) servers: usize,
    /// Near words that were looked for before.
    pub(super) remembered: Remembered,
}

impl View {
    /// Whether a tool is seen.
    pub(super) fn has(&self, place: usize) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen.get(place) == Some(&true))
    }

    /// Whether all tools are seen.
    pub(super) fn is_whole(&self) -> bool {
        self.seen.is_none()
    }
}

/// The search index of one snapshot.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) servers: Vec<Arc<ServerCatalog>>,
    pub(super) parts: Vec<Arc<Part>>,
    /// The place of each part's first tool, and at last the number of all.
    pub(super) bases: Vec<usize>,
    /// The words of all parts, by hash.
    pub(super) words: Vec<Entry>,
    /// Where the words begin whose hashes begin with the same bits: a look-up need not go through all.
    shelves: Vec<u32>,
    /// The different words, in order.
    pub(super) vocabulary: Texts,
    /// The postings of all parts in the order of `words`: those of one word lie together.
    postings: Vec<Posting>,
    /// The vectors of all parts, laid side by side: a search goes through every one of them.
    pub(super) vectors: Vectors,
    pub(super) neighbours: Neighbours,
    /// The names of all servers and tools.
    pub(super) named: names::Known,
    views: Mutex<HashMap<String, Arc<View>>>,
}

impl Index {
    /// Indexes these servers. Those that an earlier snapshot had are not read again.
    pub fn of<'a>(servers: impl Iterator<Item = &'a Arc<ServerCatalog>>) -> Self {
        let servers: Vec<_> = servers.filter(|server| !server.entry.is_own()).cloned().collect();
        let parts = read(&servers);
        let mut bases = vec![0];
        for server in &servers {
            bases.push(bases.last().copied().unwrap_or_default() + server.tools.len());
        }
        let mut words = gather(&parts);
        let postings = lay_together(&mut words, &parts, &bases);
        let (vocabulary, unique) = unique(&words, &parts);
        let shelves = shelves(&words);
        let mut vectors = Vectors::with_room(WIDTH, bases.last().copied().unwrap_or_default());
        parts.iter().flat_map(|part| &part.vectors).for_each(|vector| vectors.push(vector.as_ref()));
        let names = servers.iter().map(|server| server.entry.name.as_str());
        let named = names::Known::of(names.zip(parts.iter().map(|part| &part.spellings)));
        let mut index = Self {
            servers,
            parts,
            bases,
            words,
            shelves,
            vocabulary,
            postings,
            vectors,
            named,
            ..Self::default()
        };
        index.neighbours = Neighbours::of(&index, unique);
        index
    }

    /// Where the words are whose hashes begin like this one.
    pub(super) fn shelf(&self, hash: u64) -> Range<usize> {
        let shelf = shelf_of(hash);
        let at = |shelf: usize| self.shelves.get(shelf).map_or(0, |from| *from as usize);
        at(shelf)..at(shelf + 1)
    }

    /// The tools that have a word, of one server.
    pub(super) fn postings(&self, entry: &Entry) -> &[Posting] {
        self.postings.get(entry.from as usize..entry.to as usize).unwrap_or_default()
    }

    /// How many tools it has.
    pub fn len(&self) -> usize {
        self.bases.last().copied().unwrap_or_default()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tool at a place.
    pub(super) fn tool(&self, place: usize) -> Option<&Arc<Tool>> {
        let part = self.bases.partition_point(|base| *base <= place).checked_sub(1)?;
        self.servers.get(part)?.tools.get(place - self.bases[part])
    }

    /// All tools, in the order of their places. Nobody's rights are applied.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.servers.iter().flat_map(|server| &server.tools)
    }

    /// The word of an entry.
    pub(super) fn word(&self, entry: Entry) -> &str {
        self.parts.get(entry.part as usize).map_or("", |part| part.words.get(entry.word as usize))
    }

    /// The shortest word that its server writes for the word of an entry.
    pub(super) fn written(&self, entry: &Entry) -> &str {
        self.parts.get(entry.part as usize).map_or("", |part| part.written.get(entry.word as usize))
    }

    /// What a view shows; made once, as long as the snapshot lasts.
    pub(crate) fn view(&self, key: String, sees: impl Fn(&Tool) -> bool) -> Arc<View> {
        let views = || self.views.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = views().get(&key) {
            return known.clone();
        }
        let seen: Box<[bool]> = self.tools().map(|tool| sees(tool)).collect(); // Without the lock.
        let count = seen.iter().filter(|seen| **seen).count();
        let of_server = |bounds: &&[usize]| seen[bounds[0]..bounds[1]].contains(&true);
        let servers = self.bases.windows(2).filter(of_server).count();
        let seen = (count < seen.len()).then_some(seen);
        let view = Arc::new(View { seen, count, servers, remembered: Remembered::default() });
        let mut views = views();
        if views.len() >= MAX_VIEWS {
            views.clear();
        }
        views.insert(key, view.clone());
        view
    }
}

/// So many tools are worth a thread of their own.
const WORTH_A_THREAD: usize = 500;
/// More threads would find little left to do.
const MAX_THREADS: usize = 4;

/// Reads all servers, large catalogs on several threads.
fn read(servers: &[Arc<ServerCatalog>]) -> Vec<Arc<Part>> {
    let mut unread: Vec<_> = servers.iter().filter(|server| !server.is_read()).collect();
    // The largest first: a thread that came to it last would be waited for.
    unread.sort_by_key(|server| std::cmp::Reverse(server.tools.len()));
    let tools: usize = unread.iter().map(|server| server.tools.len()).sum();
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(MAX_THREADS).min(tools / WORTH_A_THREAD);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut analyst = Analyst::default();
        while let Some(server) = unread.get(next.fetch_add(1, Ordering::Relaxed)) {
            server.reading(|server| analyst.read(server));
        }
    };
    std::thread::scope(|scope| {
        // A thread that cannot be had is one less: the others do its work.
        for _ in 1..threads {
            let _ = std::thread::Builder::new().name("search-index".into()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut analyst = Analyst::default();
    servers.iter().map(|server| server.reading(|server| analyst.read(server))).collect()
}

/// The words of all parts, by hash.
fn gather(parts: &[Arc<Part>]) -> Vec<Entry> {
    let mut words = Vec::with_capacity(parts.iter().map(|part| part.words.len()).sum());
    for (part, index) in parts.iter().zip(0_u32..) {
        let entries = (0..part.words.len()).zip(0_u32..);
        let entry = |(at, word)| Entry { hash: hash(part.words.get(at)), part: index, word, from: 0, to: 0 };
        words.extend(entries.map(entry));
    }
    words.sort_unstable_by_key(|entry| (entry.hash, entry.part));
    words
}

/// How many shelves the words stand on: a few dozen on each of a large catalog.
const SHELVES: usize = 1 << 12;

fn shelf_of(hash: u64) -> usize {
    usize::try_from(hash >> (64 - SHELVES.ilog2())).unwrap_or_default()
}

/// Where each shelf begins, and where the last ends.
fn shelves(words: &[Entry]) -> Vec<u32> {
    let mut shelves = vec![0_u32; SHELVES + 1];
    words.iter().for_each(|entry| shelves[shelf_of(entry.hash) + 1] += 1);
    for at in 1..shelves.len() {
        shelves[at] += shelves[at - 1];
    }
    shelves
}

/// Copies postings together, so that a search goes through them without looking into each part.
fn lay_together(words: &mut [Entry], parts: &[Arc<Part>], bases: &[usize]) -> Vec<Posting> {
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

/// The different words in order, and an entry for each.
fn unique(words: &[Entry], parts: &[Arc<Part>]) -> (Texts, Vec<Entry>) {
    let text = |entry: &Entry| parts[entry.part as usize].words.get(entry.word as usize);
    let different = words.chunk_by(|a, b| a.hash == b.hash).map(|same| same[0]);
    // Most words differ in their first letters, which are then at hand.
    let mut sorted: Vec<(u64, Entry)> = different.map(|entry| (first_letters(text(&entry)), entry)).collect();
    sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| text(&a.1).cmp(text(&b.1))));
    let mut texts = Texts::default();
    sorted.iter().for_each(|(_, entry)| texts.push(text(entry)));
    (texts, sorted.into_iter().map(|(_, entry)| entry).collect())
}

/// The first eight bytes, as a number that is in the order of the texts.
fn first_letters(text: &str) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    u64::from_be_bytes(first)
}
