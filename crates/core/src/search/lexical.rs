//! Words against words: how much of a request a tool's texts have, rare words counting most.

use super::guesses::guesses;
use super::index::{Entry, Index, View};
use super::neighbours::NEAR;
use super::synonyms;
use super::weights::WEIGHTS;
use super::words::{Stems, each_word, is_stop};
use std::collections::HashMap;

/// More different words than this are not looked for.
const MAX_TERMS: usize = 96;
/// So many unknown words are thought about.
const MAX_GUESSED: usize = 4;
/// So many words, those that come first, stand for near ones, too: what a request is about is said early.
const MAX_WIDENED: usize = 12;

/// A word that is looked for.
#[derive(Debug, Default, Clone)]
struct Term {
    weight: f32,
    /// The texts that have it, as bits.
    texts: u32,
    /// The fields that are told of a tool that has it, as bits.
    told: u8,
}

/// The scores of all tools for several texts.
pub(super) struct Scores {
    /// One list for each text.
    pub(super) texts: Vec<Vec<f32>>,
    /// How well each server fits the first text, from 0 to 1.
    pub(super) servers: Vec<f32>,
}

/// Scores all tools in view. The first text is the whole request, those that follow are parts of it.
pub(super) fn score(index: &Index, view: &View, texts: &[&str], fields: &mut [u8]) -> Scores {
    let terms = terms(index, view, texts);
    let mut scores = vec![vec![0_f32; index.len()]; texts.len()];
    let mut servers = vec![0_f32; index.parts.len()];
    for (word, term) in &terms {
        add(index, view, word, term, &mut scores, &mut servers, fields);
    }
    let best = servers.iter().copied().fold(0_f32, f32::max);
    if best > 0.0 {
        servers.iter_mut().for_each(|score| *score /= best);
    }
    Scores { texts: scores, servers }
}

/// The words that are looked for, in a fixed order.
#[derive(Default)]
struct Terms {
    found: Vec<(String, Term)>,
    places: HashMap<String, usize>,
}

impl Terms {
    fn put(&mut self, stem: &str, weight: f32, texts: u32) {
        let place = match self.places.get(stem) {
            Some(place) => *place,
            None if self.found.len() >= MAX_TERMS => return,
            None => {
                self.places.insert(stem.to_owned(), self.found.len());
                self.found.push((stem.to_owned(), Term::default()));
                self.found.len() - 1
            }
        };
        let term = &mut self.found[place].1;
        term.weight = term.weight.max(weight);
        term.texts |= texts;
    }
}

/// A word of the request as it is written, and the texts that have it, as bits.
struct Asked {
    word: String,
    stem: String,
    texts: u32,
}

/// The words of all texts, with what they stand for.
fn terms(index: &Index, view: &View, texts: &[&str]) -> Vec<(String, Term)> {
    let stems = Stems::default();
    let mut terms = Terms::default();
    let mut asked: Vec<Asked> = Vec::new(); // Each once: a word of a clause is one of the whole, too.
    for (text, bit) in texts.iter().zip((0..32).map(|at| 1_u32 << at)) {
        let mut before = String::new();
        each_word(text, &mut |word: &str| {
            if is_stop(word) {
                return before.clear();
            }
            let stem = stems.of(word);
            match asked.iter().position(|known| known.stem == stem) {
                Some(place) => asked[place].texts |= bit,
                None if asked.len() >= MAX_TERMS => {}
                None => {
                    asked.push(Asked { word: word.to_owned(), stem: stem.clone().into_owned(), texts: bit })
                }
            }
            if index.has(view, &stem) {
                terms.put(&stem, 1.0, bit);
            }
            // What one writes as two words another writes as one.
            let joined = format!("{before}{word}");
            let whole = stems.of(&joined);
            if !before.is_empty() && !index.entries(&whole).is_empty() {
                terms.put(&whole, WEIGHTS.guess, bit);
            }
            word.clone_into(&mut before);
        });
    }
    let is_unknown = |asked: &&Asked| !index.has(view, &asked.stem);
    let mut literal: Vec<(String, u32)> =
        terms.found.iter().map(|(stem, term)| (stem.clone(), term.texts)).collect();
    literal.extend(asked.iter().filter(is_unknown).map(|asked| (asked.stem.clone(), asked.texts)));
    for asked in asked.iter().filter(is_unknown).take(MAX_GUESSED) {
        let meant = guesses(index, &asked.word, &stems);
        meant.iter().for_each(|guess| terms.put(guess, WEIGHTS.guess, asked.texts));
    }
    for (stem, bits) in literal {
        for other in synonyms::of(&stem).iter().filter(|other| !index.entries(other).is_empty()) {
            terms.put(other, WEIGHTS.synonym, bits);
        }
    }
    // Of a tool that has a near word alone, the meaning is alike: the words of the request are not found in it.
    terms.found.iter_mut().for_each(|(_, term)| term.told = u8::MAX);
    put_near(index, view, &asked, &mut terms);
    terms.found
}

/// Puts the words of the catalog that are nearest to those of the request.
fn put_near(index: &Index, view: &View, asked: &[Asked], terms: &mut Terms) {
    let words: Vec<&str> = asked.iter().take(MAX_WIDENED).map(|asked| asked.word.as_str()).collect();
    for (asked_for, near) in asked.iter().zip(index.near(view, &words)) {
        let others = near.iter().map(|near| (index.word(near.entry), near.likeness));
        for (other, likeness) in others.filter(|(other, _)| *other != asked_for.stem).take(NEAR) {
            // A word that stands in the request itself counts as such, and not once more for another.
            if asked.iter().all(|asked| asked.stem != other) {
                terms.put(other, WEIGHTS.near * likeness, asked_for.texts);
            }
        }
    }
}

/// Adds what one word is worth.
fn add(
    index: &Index,
    view: &View,
    word: &str,
    term: &Term,
    scores: &mut [Vec<f32>],
    servers: &mut [f32],
    fields: &mut [u8],
) {
    let entries = index.entries(word);
    let count = |entry: &Entry| match (index.postings(entry), view.is_whole()) {
        (postings, true) => postings.len(),
        (postings, false) => postings.iter().filter(|posting| view.has(posting.tool())).count(),
    };
    // What is hidden makes no word more common, neither among tools nor among servers.
    let (having, servers_having) = entries
        .iter()
        .map(count)
        .fold((0, 0), |(all, some), seen| (all + seen, some + usize::from(seen > 0)));
    let rarity = rarity(view.count, having) * term.weight;
    let among = rarity_of_servers(view.servers, servers_having) * term.weight;
    for entry in entries {
        let mut named = 0;
        for posting in index.postings(entry) {
            let place = posting.tool();
            if !view.has(place) {
                continue;
            }
            named += u32::from(posting.fields() & 0b11 != 0);
            fields[place] |= posting.fields() & term.told;
            let worth = rarity * posting.count / (posting.count + WEIGHTS.k1);
            let mut texts = term.texts;
            while texts != 0 {
                scores[texts.trailing_zeros() as usize][place] += worth;
                texts &= texts - 1;
            }
        }
        if term.texts & 1 != 0 {
            servers[entry.part as usize] += among * (named as f32 / (named as f32 + 1.0));
        }
    }
}

fn rarity(all: usize, having: usize) -> f32 {
    let (all, having) = (all as f32, having as f32);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

fn rarity_of_servers(all: usize, having: usize) -> f32 {
    if all < 2 { 0.0 } else { rarity(all, having) }
}

impl Index {
    /// Where a stem is.
    pub(super) fn entries(&self, stem: &str) -> &[Entry] {
        let wanted = hash(stem);
        let from = self.words.partition_point(|entry| entry.hash < wanted);
        let length = self.words[from..].iter().take_while(|entry| entry.hash == wanted).count();
        &self.words[from..from + length]
    }

    /// Whether any tool in view has a stem.
    pub(super) fn has(&self, view: &View, stem: &str) -> bool {
        let is_seen = |entry| self.postings(entry).iter().any(|posting| view.has(posting.tool()));
        let mut entries = self.entries(stem).iter();
        if view.is_whole() { entries.next().is_some() } else { entries.any(is_seen) }
    }

    /// Known words that begin with a text.
    pub(super) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.unique.partition_point(|entry| self.word(*entry) < start);
        self.unique[from..]
            .iter()
            .map(|entry| self.word(*entry))
            .take_while(move |word| word.starts_with(start))
    }
}

/// A hash of a word, the same in every process.
pub(super) fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
