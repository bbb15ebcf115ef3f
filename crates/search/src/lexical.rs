//! Word scores: how many words of a request a tool's texts have. Rare words count most.

use crate::fields::ToolField;
use crate::guesses::guesses;
use crate::index::{Index, VisibleTools};
use crate::near_words::{NEAR, WordEntry};
use crate::synonyms;
use crate::weights::WEIGHTS;
use crate::words::{Stems, each_word, hash, is_stop};
use std::collections::HashMap;
use toolbooth_core::name_map::NameMap;

/// Maximum number of distinct words that are searched for.
const MAX_TERMS: usize = 96;
/// Maximum number of unknown words that are guessed.
const MAX_GUESSED: usize = 4;
/// A word is rare if at most this many tools have it.
const RARE: usize = 2;
/// Number of leading words of a request that also match near words: the subject of a request comes early.
const MAX_WIDENED: usize = 12;

/// A word that is searched for.
#[derive(Debug, Default, Clone)]
struct Term {
    weight: f32,
    /// The texts that have the word, as bits.
    texts: u32,
}

impl Term {
    /// Whether the word is in the request itself, and is not a synonym or guess.
    fn is_literal(&self) -> bool {
        self.weight >= 1.0
    }
}

/// The scores of all tools for several texts.
pub(crate) struct Scores {
    /// One list of scores for each text.
    pub(crate) texts: Vec<Vec<f32>>,
    /// How well each server fits the first text, from 0 to 1.
    pub(crate) servers: Vec<f32>,
    /// Tools with a rare word of the first text in their names, once for each such word.
    pub(crate) rare_name_matches: Vec<usize>,
}

/// Scores all visible tools. The first text is the whole request, the others are its clauses.
pub(crate) fn score(index: &Index, view: &VisibleTools, texts: &[&str], fields: &mut [u8]) -> Scores {
    let (terms, groups) = terms(index, view, texts);
    let mut scores = Scores {
        texts: vec![vec![0_f32; index.len()]; texts.len()],
        servers: vec![0_f32; index.parts.len()],
        rare_name_matches: Vec::new(),
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

/// The words that are searched for, in a fixed order.
#[derive(Default)]
struct TermSet {
    found: Vec<(String, Term)>,
    places: HashMap<String, usize>,
}

impl TermSet {
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

/// A word of the request as it is written, its stem, and the texts that have it, as bits.
struct RequestWord {
    word: String,
    stem: String,
    texts: u32,
}

/// Cache of stems: the words of the whole request occur again in its clauses.
struct StemCache<'a> {
    index: &'a Index,
    view: &'a VisibleTools,
    stems: Stems,
    words: NameMap<Box<str>, StemmedWord>,
}

/// The stem of a word.
struct StemmedWord {
    stem: String,
    /// Whether any visible tool has it.
    is_known: bool,
}

impl StemCache<'_> {
    fn of(&mut self, word: &str) -> &StemmedWord {
        if !self.words.contains_key(word) {
            let stem = self.stems.of(word).into_owned();
            let is_known = self.index.has(self.view, &stem);
            self.words.insert(word.into(), StemmedWord { stem, is_known });
        }
        &self.words[word]
    }
}

/// The words of all texts with their synonyms and guesses, and the groups of near words.
fn terms(index: &Index, view: &VisibleTools, texts: &[&str]) -> (Vec<(String, Term)>, Vec<NearWordGroup>) {
    let mut cache = StemCache { index, view, stems: Stems::default(), words: NameMap::default() };
    let mut terms = TermSet::default();
    let mut request_words: Vec<RequestWord> = Vec::new(); // Each once: a clause repeats words of the whole.
    let mut joined = String::new();
    for (text, bit) in texts.iter().zip((0..32).map(|at| 1_u32 << at)) {
        let mut before = String::new();
        each_word(text, &mut |word: &str| {
            if is_stop(word) {
                return before.clear();
            }
            let StemmedWord { stem, is_known } = cache.of(word);
            match request_words.iter().position(|word| word.stem == *stem) {
                Some(place) => request_words[place].texts |= bit,
                None if request_words.len() >= MAX_TERMS => {}
                None => {
                    request_words.push(RequestWord { word: word.to_owned(), stem: stem.clone(), texts: bit })
                }
            }
            if *is_known {
                terms.put(stem, 1.0, bit);
            }
            // Some write as two words what others write as one.
            if !before.is_empty() {
                joined.clear();
                joined.extend([&*before, word]);
                let whole = cache.of(&joined);
                if whole.is_known {
                    terms.put(&whole.stem, WEIGHTS.guess, bit);
                }
            }
            word.clone_into(&mut before);
        });
    }
    let stems = cache.stems;
    let is_unknown = |word: &&RequestWord| !index.has(view, &word.stem);
    let mut literal: Vec<(String, u32)> =
        terms.found.iter().map(|(stem, term)| (stem.clone(), term.texts)).collect();
    literal.extend(request_words.iter().filter(is_unknown).map(|word| (word.stem.clone(), word.texts)));
    for unknown in request_words.iter().filter(is_unknown).take(MAX_GUESSED) {
        let meant = guesses(index, view, &unknown.word, &stems);
        meant.iter().for_each(|guess| terms.put(guess, WEIGHTS.guess, unknown.texts));
    }
    for (stem, bits) in literal {
        for other in synonyms::of(&stem).iter().filter(|other| !index.entries(other).is_empty()) {
            terms.put(other, WEIGHTS.synonym, bits);
        }
    }
    let groups = near(index, view, &request_words);
    (terms.found, groups)
}

/// A word of the request and the words of the catalog nearest to it. A tool scores by the best of them.
struct NearWordGroup {
    stem: String,
    near: Vec<(String, f32)>,
    texts: u32,
}

/// The near words of the request's words.
fn near(index: &Index, view: &VisibleTools, request_words: &[RequestWord]) -> Vec<NearWordGroup> {
    // If the catalog has a synonym, words that are merely similar add noise.
    let is_alone = |word: &&RequestWord| synonyms::of(&word.stem).iter().all(|other| !index.has(view, other));
    let widened: Vec<&RequestWord> = request_words.iter().take(MAX_WIDENED).filter(is_alone).collect();
    let words: Vec<&str> = widened.iter().map(|word| word.word.as_str()).collect();
    let mut groups = Vec::with_capacity(words.len());
    for (request_word, near) in widened.into_iter().zip(index.near(view, &words)) {
        let others = near.iter().map(|near| (index.word(near.entry), near.similarity));
        // A word of the request already counts and is not counted again as a near word.
        let others = others.filter(|(other, _)| *other != request_word.stem).take(NEAR);
        let near: Vec<(String, f32)> = others
            .filter(|(other, _)| request_words.iter().all(|word| word.stem != *other))
            .map(|(other, similarity)| (other.to_owned(), WEIGHTS.near * similarity))
            .collect();
        if !near.is_empty() {
            groups.push(NearWordGroup { stem: request_word.stem.clone(), near, texts: request_word.texts });
        }
    }
    groups
}

impl NearWordGroup {
    /// Adds the weight of near words beyond that of the word itself. `best` is all zeros before and after. Does not
    /// mark fields as matched, because the words of the request are not in them.
    fn add(
        &self,
        index: &Index,
        view: &VisibleTools,
        best: &mut [f32],
        scores: &mut [Vec<f32>],
        servers: &mut [f32],
    ) {
        let near = self.near.iter().map(|(word, weight)| (word.as_str(), *weight));
        let words: Vec<(&str, f32)> = std::iter::once((self.stem.as_str(), 1.0)).chain(near).collect();
        let frequencies: Vec<WordFrequency> =
            words.iter().map(|(word, _)| WordFrequency::of(index, view, word)).collect();
        // A rare near word does not count more than the word that it replaces.
        let commonest = frequencies.iter().map(|frequency| frequency.tools).max().unwrap_or_default();
        for (at, ((word, weight), frequency)) in words.iter().zip(&frequencies).enumerate() {
            let is_near = at > 0;
            let having = if is_near { commonest } else { frequency.tools };
            let rarity = rarity(view.count, having) * weight;
            let among = rarity_of_servers(view.servers, frequency.servers) * weight;
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

/// The number of visible tools and servers that have a word.
struct WordFrequency {
    tools: usize,
    servers: usize,
}

impl WordFrequency {
    // Hidden tools and servers must not change the frequency of a word.
    fn of(index: &Index, view: &VisibleTools, word: &str) -> Self {
        let mut frequency = Self { tools: 0, servers: 0 };
        for entry in index.entries(word) {
            let postings = index.postings(entry);
            let seen = match view.is_whole() {
                true => postings.len(),
                false => postings.iter().filter(|posting| view.has(posting.tool())).count(),
            };
            frequency.tools += seen;
            frequency.servers += usize::from(seen > 0);
        }
        frequency
    }
}

fn each_bit(mut bits: u32, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl Scores {
    /// Adds the scores of one word.
    fn add(&mut self, index: &Index, view: &VisibleTools, word: &str, term: &Term, fields: &mut [u8]) {
        let frequency = WordFrequency::of(index, view, word);
        let rarity = rarity(view.count, frequency.tools) * term.weight;
        let among = rarity_of_servers(view.servers, frequency.servers) * term.weight;
        let Some((whole, clauses)) = self.texts.split_first_mut() else { return };
        // Every word is in the whole request, and few words are in a clause as well.
        let (in_whole, in_clauses) = (term.texts & 1 != 0, term.texts >> 1);
        let is_rare = in_whole && term.is_literal() && frequency.tools <= RARE && !has_digit(word);
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
                if is_rare && posting.fields() & 1 << ToolField::Name.index() != 0 {
                    self.rare_name_matches.push(place);
                }
            }
            if in_whole {
                self.servers[entry.part as usize] += among * (named as f32 / (named as f32 + 1.0));
            }
        }
    }
}

/// Numbers and identifiers are usually values, not names.
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
    /// The entries of a stem.
    pub(crate) fn entries(&self, stem: &str) -> &[WordEntry] {
        let wanted = hash(stem);
        let words = &self.words[self.bucket(wanted)];
        let from = words.partition_point(|entry| entry.hash < wanted);
        let length = words[from..].iter().take_while(|entry| entry.hash == wanted).count();
        &words[from..from + length]
    }

    /// Whether any visible tool has a stem.
    pub(crate) fn has(&self, view: &VisibleTools, stem: &str) -> bool {
        let is_seen = |entry| self.postings(entry).iter().any(|posting| view.has(posting.tool()));
        let mut entries = self.entries(stem).iter();
        if view.is_whole() { entries.next().is_some() } else { entries.any(is_seen) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use toolbooth_core::catalog::{Discovery, Naming, admit};
    use toolbooth_core::json::RawJson;
    use toolbooth_core::secret::SecretText;
    use toolbooth_core::server::{ServerEntry, Transport};

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

    /// The tools with a rare word of a request in their names, once for each word.
    fn rare_name_matches(index: &Index, hidden: &str, texts: &[&str]) -> Vec<String> {
        let view = index.view(hidden.to_owned(), |tool| &*tool.name != hidden);
        let scores = score(index, &view, texts, &mut vec![0; index.len()]);
        let name = |place: usize| index.tool(place).map(|tool| tool.name.to_string());
        scores.rare_name_matches.into_iter().filter_map(name).collect()
    }

    #[test]
    fn a_rare_word_of_the_request_in_a_name_is_recorded() {
        let index =
            index(&["draw_mermaid", "draw_tree", "prune_tree", "fell_tree", "fix_x4711", "mermaid_song"]);
        let cases: [(&str, &[&str], &[&str]); 7] = [
            ("", &["draw a mermaid"], &["draw_mermaid", "mermaid_song"]),
            ("", &["mermaids: a Mermaid song"], &["draw_mermaid", "mermaid_song", "mermaid_song"]),
            ("", &["a tree"], &[]), // Three tools have it.
            ("fell_tree", &["a tree"], &["draw_tree", "prune_tree"]), // Only two of the three are visible.
            ("", &["lines of x4711"], &[]), // In descriptions, and a value.
            ("", &["draw something, then another", "a mermaid"], &[]), // In a clause only.
            ("", &["merrmaid"], &[]), // A guessed word does not count.
        ];
        for (hidden, texts, expected) in cases {
            let mut found = rare_name_matches(&index, hidden, texts);
            found.sort();
            assert_eq!(found, expected, "{texts:?} without {hidden:?}");
        }
    }
}
