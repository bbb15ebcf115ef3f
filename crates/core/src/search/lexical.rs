//! Words against words: how much of a request a tool's texts have, rare words counting most.

use super::fields::Field;
use super::guesses::guesses;
use super::index::{Entry, Index, View};
use super::neighbours::NEAR;
use super::synonyms;
use super::weights::WEIGHTS;
use super::words::{Stems, each_word, is_stop};
use crate::name_map::NameMap;
use std::collections::HashMap;

/// More different words than this are not looked for.
const MAX_TERMS: usize = 96;
/// So many unknown words are thought about.
const MAX_GUESSED: usize = 4;
/// A word is rare that no more tools have.
const RARE: usize = 2;
/// So many words, those that come first, stand for near ones, too: what a request is about is said early.
const MAX_WIDENED: usize = 12;

/// A word that is looked for.
#[derive(Debug, Default, Clone)]
struct Term {
    weight: f32,
    /// The texts that have it, as bits.
    texts: u32,
}

impl Term {
    /// Whether it is a word of the request itself, and not one that may have been meant.
    fn is_said(&self) -> bool {
        self.weight >= 1.0
    }
}

/// The scores of all tools for several texts.
pub(super) struct Scores {
    /// One list for each text.
    pub(super) texts: Vec<Vec<f32>>,
    /// How well each server fits the first text, from 0 to 1.
    pub(super) servers: Vec<f32>,
    /// Tools whose names have a rare word of the first text, once for each such word: it says what no other tool does.
    pub(super) rarely_named: Vec<usize>,
}

/// Scores all tools in view. The first text is the whole request, those that follow are parts of it.
pub(super) fn score(index: &Index, view: &View, texts: &[&str], fields: &mut [u8]) -> Scores {
    let (terms, groups) = terms(index, view, texts);
    let mut scores = Scores {
        texts: vec![vec![0_f32; index.len()]; texts.len()],
        servers: vec![0_f32; index.parts.len()],
        rarely_named: Vec::new(),
    };
    for (word, term) in &terms {
        scores.add(index, view, word, term, fields);
    }
    let mut best = vec![0_f32; if groups.is_empty() { 0 } else { index.len() }];
    for group in &groups {
        group.add(index, view, &mut best, &mut scores.texts, &mut scores.servers);
    }
    let best = scores.servers.iter().copied().fold(0_f32, f32::max);
    if best > 0.0 {
        scores.servers.iter_mut().for_each(|score| *score /= best);
    }
    scores
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

/// What was found out of words: those of the whole come again in its clauses.
struct SeenWords<'a> {
    index: &'a Index,
    view: &'a View,
    stems: Stems,
    words: NameMap<Box<str>, Seen>,
}

struct Seen {
    stem: String,
    /// Whether any tool in view has it.
    is_known: bool,
}

impl SeenWords<'_> {
    fn of(&mut self, word: &str) -> &Seen {
        if !self.words.contains_key(word) {
            let stem = self.stems.of(word).into_owned();
            let is_known = self.index.has(self.view, &stem);
            self.words.insert(word.into(), Seen { stem, is_known });
        }
        &self.words[word]
    }
}

/// The words of all texts, with what they stand for.
fn terms(index: &Index, view: &View, texts: &[&str]) -> (Vec<(String, Term)>, Vec<Group>) {
    let mut known = SeenWords { index, view, stems: Stems::default(), words: NameMap::default() };
    let mut terms = Terms::default();
    let mut asked: Vec<Asked> = Vec::new(); // Each once: a word of a clause is one of the whole, too.
    let mut joined = String::new();
    for (text, bit) in texts.iter().zip((0..32).map(|at| 1_u32 << at)) {
        let mut before = String::new();
        each_word(text, &mut |word: &str| {
            if is_stop(word) {
                return before.clear();
            }
            let Seen { stem, is_known } = known.of(word);
            match asked.iter().position(|known| known.stem == *stem) {
                Some(place) => asked[place].texts |= bit,
                None if asked.len() >= MAX_TERMS => {}
                None => asked.push(Asked { word: word.to_owned(), stem: stem.clone(), texts: bit }),
            }
            if *is_known {
                terms.put(stem, 1.0, bit);
            }
            // What one writes as two words another writes as one.
            if !before.is_empty() {
                joined.clear();
                joined.extend([&*before, word]);
                let whole = known.of(&joined);
                if whole.is_known {
                    terms.put(&whole.stem, WEIGHTS.guess, bit);
                }
            }
            word.clone_into(&mut before);
        });
    }
    let stems = known.stems;
    let is_unknown = |asked: &&Asked| !index.has(view, &asked.stem);
    let mut literal: Vec<(String, u32)> =
        terms.found.iter().map(|(stem, term)| (stem.clone(), term.texts)).collect();
    literal.extend(asked.iter().filter(is_unknown).map(|asked| (asked.stem.clone(), asked.texts)));
    for asked in asked.iter().filter(is_unknown).take(MAX_GUESSED) {
        let meant = guesses(index, view, &asked.word, &stems);
        meant.iter().for_each(|guess| terms.put(guess, WEIGHTS.guess, asked.texts));
    }
    for (stem, bits) in literal {
        for other in synonyms::of(&stem).iter().filter(|other| !index.entries(other).is_empty()) {
            terms.put(other, WEIGHTS.synonym, bits);
        }
    }
    let groups = near(index, view, &asked);
    (terms.found, groups)
}

/// A word of the request and the words of the catalog that are nearest to it. A tool is as good as the best of them.
struct Group {
    stem: String,
    near: Vec<(String, f32)>,
    texts: u32,
}

/// The words of the catalog that are nearest to those of the request.
fn near(index: &Index, view: &View, asked: &[Asked]) -> Vec<Group> {
    // Where the catalog has another word of the same sense, one that is merely like it adds noise.
    let is_alone = |asked: &&Asked| synonyms::of(&asked.stem).iter().all(|other| !index.has(view, other));
    let widened: Vec<&Asked> = asked.iter().take(MAX_WIDENED).filter(is_alone).collect();
    let words: Vec<&str> = widened.iter().map(|asked| asked.word.as_str()).collect();
    let mut groups = Vec::with_capacity(words.len());
    for (asked_for, near) in widened.into_iter().zip(index.near(view, &words)) {
        let others = near.iter().map(|near| (index.word(near.entry), near.likeness));
        // A word that stands in the request itself counts as such, and not once more for another.
        let others = others.filter(|(other, _)| *other != asked_for.stem).take(NEAR);
        let near: Vec<(String, f32)> = others
            .filter(|(other, _)| asked.iter().all(|asked| asked.stem != *other))
            .map(|(other, likeness)| (other.to_owned(), WEIGHTS.near * likeness))
            .collect();
        if !near.is_empty() {
            groups.push(Group { stem: asked_for.stem.clone(), near, texts: asked_for.texts });
        }
    }
    groups
}

impl Group {
    /// Adds what near words are worth beyond the word itself. `best` is all zeros, before and after. Which fields have
    /// a near word is not told: the meaning is alike, and the words of the request are not found there.
    fn add(
        &self,
        index: &Index,
        view: &View,
        best: &mut [f32],
        scores: &mut [Vec<f32>],
        servers: &mut [f32],
    ) {
        let near = self.near.iter().map(|(word, weight)| (word.as_str(), *weight));
        let words: Vec<(&str, f32)> = std::iter::once((self.stem.as_str(), 1.0)).chain(near).collect();
        let known: Vec<Known> = words.iter().map(|(word, _)| Known::of(index, view, word)).collect();
        // A near word that few tools have is no rarer than what it stands for.
        let commonest = known.iter().map(|known| known.tools).max().unwrap_or_default();
        for (at, ((word, weight), known)) in words.iter().zip(&known).enumerate() {
            let is_near = at > 0;
            let having = if is_near { commonest } else { known.tools };
            let rarity = rarity(view.count, having) * weight;
            let among = rarity_of_servers(view.servers, known.servers) * weight;
            for entry in index.entries(word) {
                let mut named = 0;
                for posting in index.postings(entry).iter().filter(|posting| view.has(posting.tool())) {
                    named += u32::from(posting.fields() & 0b11 != 0);
                    let worth = rarity * posting.worth;
                    let before = std::mem::replace(&mut best[posting.tool()], worth);
                    if worth <= before {
                        best[posting.tool()] = before;
                    } else if is_near {
                        each_bit(self.texts, |text| scores[text][posting.tool()] += worth - before);
                    }
                }
                if is_near && self.texts & 1 != 0 {
                    servers[entry.part as usize] += among * (named as f32 / (named as f32 + 1.0));
                }
            }
        }
        for entry in words.iter().flat_map(|(word, _)| index.entries(word)) {
            index.postings(entry).iter().for_each(|posting| best[posting.tool()] = 0.0);
        }
    }
}

/// How many tools and servers in view have a word.
struct Known {
    tools: usize,
    servers: usize,
}

impl Known {
    // What is hidden makes no word more common, neither among tools nor among servers.
    fn of(index: &Index, view: &View, word: &str) -> Self {
        let mut known = Self { tools: 0, servers: 0 };
        for entry in index.entries(word) {
            let postings = index.postings(entry);
            let seen = match view.is_whole() {
                true => postings.len(),
                false => postings.iter().filter(|posting| view.has(posting.tool())).count(),
            };
            known.tools += seen;
            known.servers += usize::from(seen > 0);
        }
        known
    }
}

fn each_bit(mut bits: u32, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl Scores {
    /// Adds what one word is worth.
    fn add(&mut self, index: &Index, view: &View, word: &str, term: &Term, fields: &mut [u8]) {
        let known = Known::of(index, view, word);
        let rarity = rarity(view.count, known.tools) * term.weight;
        let among = rarity_of_servers(view.servers, known.servers) * term.weight;
        let Some((whole, clauses)) = self.texts.split_first_mut() else { return };
        // A word of the request is one of the whole and seldom of a clause, too.
        let (in_whole, in_clauses) = (term.texts & 1 != 0, term.texts >> 1);
        let is_rare = in_whole && term.is_said() && known.tools <= RARE && !has_digit(word);
        for entry in index.entries(word) {
            let mut named = 0;
            for posting in index.postings(entry) {
                let place = posting.tool();
                if !view.has(place) {
                    continue;
                }
                named += u32::from(posting.fields() & 0b11 != 0);
                fields[place] |= posting.fields();
                let worth = rarity * posting.worth;
                if in_whole {
                    whole[place] += worth;
                }
                each_bit(in_clauses, |clause| clauses[clause][place] += worth);
                if is_rare && posting.fields() & 1 << Field::Name.index() != 0 {
                    self.rarely_named.push(place);
                }
            }
            if in_whole {
                self.servers[entry.part as usize] += among * (named as f32 / (named as f32 + 1.0));
            }
        }
    }
}

/// Numbers and identifiers are values more often than names.
fn has_digit(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
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
        let words = &self.words[self.shelf(wanted)];
        let from = words.partition_point(|entry| entry.hash < wanted);
        let length = words[from..].iter().take_while(|entry| entry.hash == wanted).count();
        &words[from..from + length]
    }

    /// Whether any tool in view has a stem.
    pub(super) fn has(&self, view: &View, stem: &str) -> bool {
        let is_seen = |entry| self.postings(entry).iter().any(|posting| view.has(posting.tool()));
        let mut entries = self.entries(stem).iter();
        if view.is_whole() { entries.next().is_some() } else { entries.any(is_seen) }
    }
}

/// A hash of a word, the same in every process.
pub(super) fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Discovery, Naming, admit};
    use crate::json::RawJson;
    use crate::secret::SecretText;
    use crate::server::{ServerEntry, Transport};
    use std::sync::Arc;

    fn index(names: &[&str]) -> Index {
        let command = SecretText::plain("true");
        let transport = Transport::Stdio { command, args: Vec::new(), cwd: None, env: Default::default() };
        let entry = Arc::new(ServerEntry::with_defaults("srv".parse().expect("a name"), transport));
        let tool = |name: &&str| {
            let text = format!(
                r#"{{"name":"{name}","description":"Draws lines.","inputSchema":{{"type":"object"}}}}"#
            );
            RawJson::parse(text).expect("JSON")
        };
        let discovery = Discovery { tools: names.iter().map(tool).collect(), ..Discovery::default() };
        Index::of([&Arc::new(admit(&entry, &discovery, &Naming::default(), &|_| false))].into_iter())
    }

    /// The tools that have a rare word of a request in their names, once for each word.
    fn rarely_named(index: &Index, hidden: &str, texts: &[&str]) -> Vec<String> {
        let view = index.view(hidden.to_owned(), |tool| &*tool.name != hidden);
        let scores = score(index, &view, texts, &mut vec![0; index.len()]);
        let name = |place: usize| index.tool(place).map(|tool| tool.name.to_string());
        scores.rarely_named.into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_rare_word_of_the_request_in_a_name_is_noted() {
        let index =
            index(&["draw_mermaid", "draw_tree", "prune_tree", "fell_tree", "fix_x4711", "mermaid_song"]);
        let cases: [(&str, &[&str], &[&str]); 7] = [
            ("", &["draw a mermaid"], &["draw_mermaid", "mermaid_song"]),
            ("", &["mermaids: a Mermaid song"], &["draw_mermaid", "mermaid_song", "mermaid_song"]),
            ("", &["a tree"], &[]),                                    // Three have it.
            ("fell_tree", &["a tree"], &["draw_tree", "prune_tree"]), // Whoever sees two only does not know of the third.
            ("", &["lines of x4711"], &[]),                           // A description, and a value.
            ("", &["draw something, then another", "a mermaid"], &[]), // Of a part alone.
            ("", &["merrmaid"], &[]), // What may have been meant was not said.
        ];
        for (hidden, texts, expected) in cases {
            let mut noted = rarely_named(&index, hidden, texts);
            noted.sort();
            assert_eq!(noted, expected, "{texts:?} without {hidden:?}");
        }
    }
}
