//! Words against words: how much of a request a tool's texts have, rare words counting most.

use super::index::{Entry, Index, View};
use super::pieces::Vocabulary;
use super::synonyms;
use super::weights::WEIGHTS;
use super::words::{Stems, each_word, is_stop};
use std::collections::HashMap;

/// More different words than this are not looked for.
const MAX_TERMS: usize = 96;
/// So many unknown words are thought about.
const MAX_GUESSED: usize = 4;
/// So many words an unknown one may have meant.
const MAX_GUESSES: usize = 4;

/// A word that is looked for.
#[derive(Debug, Default, Clone)]
struct Term {
    weight: f32,
    /// The texts that have it, as bits.
    texts: u32,
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
    let terms = terms(index, texts);
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

/// The words of all texts, with what they stand for.
fn terms(index: &Index, texts: &[&str]) -> Vec<(String, Term)> {
    let stems = Stems::default();
    let mut terms = Terms::default();
    let mut unknown: Vec<(String, u32)> = Vec::new(); // Each once: a word of a clause is one of the whole, too.
    for (text, bit) in texts.iter().zip((0..32).map(|at| 1_u32 << at)) {
        let mut before = String::new();
        each_word(text, &mut |word: &str| {
            if is_stop(word) {
                return before.clear();
            }
            let stem = stems.of(word);
            match index.entries(&stem) {
                [] => match unknown.iter().position(|(known, _)| known == word) {
                    Some(place) => unknown[place].1 |= bit,
                    None if unknown.len() < MAX_TERMS => unknown.push((word.to_owned(), bit)),
                    None => {}
                },
                _ => terms.put(&stem, 1.0, bit),
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
    // A word that stands in the request itself counts as such, and not once more for another.
    let mut literal: Vec<(String, u32)> =
        terms.found.iter().map(|(stem, term)| (stem.clone(), term.texts)).collect();
    literal.extend(unknown.iter().map(|(word, bit)| (stems.of(word).into_owned(), *bit)));
    for (word, bit) in unknown.iter().take(MAX_GUESSED) {
        guesses(index, word, &stems).iter().for_each(|guess| terms.put(guess, WEIGHTS.guess, *bit));
    }
    for (stem, bits) in literal {
        for other in synonyms::of(&stem).iter().filter(|other| !index.entries(other).is_empty()) {
            terms.put(other, WEIGHTS.synonym, bits);
        }
    }
    terms.found
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
    let having: usize = entries.iter().map(count).sum();
    let rarity = rarity(view.count, having) * term.weight;
    let among = rarity_of_servers(index, entries.len()) * term.weight;
    for entry in entries {
        let mut named = 0;
        for posting in index.postings(entry) {
            let place = posting.tool();
            if !view.has(place) {
                continue;
            }
            named += u32::from(posting.fields() & 0b11 != 0);
            fields[place] |= posting.fields();
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

fn rarity_of_servers(index: &Index, having: usize) -> f32 {
    if index.parts.len() < 2 { 0.0 } else { rarity(index.parts.len(), having) }
}

impl Index {
    /// Where a stem is.
    pub(super) fn entries(&self, stem: &str) -> &[Entry] {
        let wanted = hash(stem);
        let from = self.words.partition_point(|entry| entry.hash < wanted);
        let length = self.words[from..].iter().take_while(|entry| entry.hash == wanted).count();
        &self.words[from..from + length]
    }

    /// Known words that begin with a text.
    fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.unique.partition_point(|entry| self.word(*entry) < start);
        self.unique[from..]
            .iter()
            .map(|entry| self.word(*entry))
            .take_while(move |word| word.starts_with(start))
    }
}

/// What somebody may have meant by a word that no tool has: a longer word, two words, or one spelled right.
fn guesses(index: &Index, word: &str, stems: &Stems) -> Vec<String> {
    if !word.is_ascii() || word.len() < 3 {
        return Vec::new();
    }
    let longer: Vec<String> = index.beginning(word).take(MAX_GUESSES).map(str::to_owned).collect();
    if !longer.is_empty() {
        return longer;
    }
    for at in 3..word.len().saturating_sub(2) {
        let parts = [stems.of(&word[..at]), stems.of(&word[at..])];
        if parts.iter().all(|part| !index.entries(part).is_empty()) {
            return parts.map(|part| part.into_owned()).to_vec();
        }
    }
    // A word of the language that no tool has is spelled right: nothing else was meant.
    if word.len() < 5 || Vocabulary::get().has(word) {
        return Vec::new();
    }
    spelled_right(index, &stems.of(word))
}

fn spelled_right(index: &Index, stem: &str) -> Vec<String> {
    let most = if stem.len() < 8 { 1 } else { 2 };
    let Some(first) = stem.get(..1) else { return Vec::new() };
    let near =
        index.beginning(first).filter(|word| word.len().abs_diff(stem.len()) <= most && word.is_ascii());
    let mut rows = Rows::default();
    let mut found: Vec<(usize, &str)> = near
        .map(|word| (rows.distance(stem.as_bytes(), word.as_bytes()), word))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort_unstable();
    let least = found.first().map_or(0, |(distance, _)| *distance);
    found
        .into_iter()
        .take_while(|(distance, _)| *distance == least)
        .take(MAX_GUESSES)
        .map(|(_, word)| word.to_owned())
        .collect()
}

/// Room for comparing words letter by letter, used again for the next pair.
#[derive(Default)]
struct Rows([Vec<usize>; 3]);

impl Rows {
    /// How many letters must be changed, left out, put in or swapped with a neighbour.
    fn distance(&mut self, a: &[u8], b: &[u8]) -> usize {
        let [two_ago, last, row] = &mut self.0;
        for kept in [&mut *two_ago, &mut *row] {
            kept.clear();
            kept.resize(b.len() + 1, 0);
        }
        last.clear();
        last.extend(0..=b.len());
        for i in 1..=a.len() {
            row[0] = i;
            for j in 1..=b.len() {
                let differs = usize::from(a[i - 1] != b[j - 1]);
                row[j] = (last[j - 1] + differs).min(last[j] + 1).min(row[j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    row[j] = row[j].min(two_ago[j - 2] + 1);
                }
            }
            std::mem::swap(two_ago, last);
            std::mem::swap(last, row);
        }
        last[b.len()]
    }
}

/// A hash of a word, the same in every process.
pub(super) fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn distances_count_swaps_as_one() {
        let cases = [
            ("issue", "issue", 0),
            ("isseu", "issue", 1),
            ("isue", "issue", 1),
            ("abc", "xyz", 3),
            ("", "ab", 2),
        ];
        for (a, b, expected) in cases {
            assert_eq!(Rows::default().distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }
}
