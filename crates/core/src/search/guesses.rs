//! Guesses: what somebody may have meant by a word that no tool has.

use super::index::{Index, View};
use super::pieces::Vocabulary;
use super::words::Stems;

/// So many words an unknown one may have meant.
const MAX_GUESSES: usize = 4;

/// What somebody may have meant: a longer word, two words, or one spelled right. Words that only hidden tools have are
/// nobody's guess: they would tell that there are such tools.
pub(super) fn guesses(index: &Index, view: &View, word: &str, stems: &Stems) -> Vec<String> {
    if !word.is_ascii() || word.len() < 3 {
        return Vec::new();
    }
    let seen = index.vocabulary.beginning(word).filter(|longer| index.has(view, longer));
    let longer: Vec<String> = seen.take(MAX_GUESSES).map(str::to_owned).collect();
    if !longer.is_empty() {
        return longer;
    }
    for at in 3..word.len().saturating_sub(2) {
        let known = |part: &str| Some(stems.of(part).into_owned()).filter(|stem| index.has(view, stem));
        if let Some(first) = known(&word[..at])
            && let Some(second) = known(&word[at..])
        {
            return vec![first, second];
        }
    }
    // A word of the language that no tool has is spelled right: nothing else was meant.
    if word.len() < 5 || Vocabulary::get().has(word) {
        return Vec::new();
    }
    spelled_right(index, view, &stems.of(word))
}

fn spelled_right(index: &Index, view: &View, stem: &str) -> Vec<String> {
    let most = if stem.len() < 8 { 1 } else { 2 };
    let Some(first) = stem.get(..1) else { return Vec::new() };
    let letters = letters(stem);
    let near = index.vocabulary.beginning(first).filter(|word| {
        let is_as_long = word.len().abs_diff(stem.len()) <= most && word.is_ascii();
        // A letter that is changed for another takes one away and brings one.
        is_as_long && (letters ^ self::letters(word)).count_ones() as usize <= 2 * most
    });
    let mut rows = Rows::default();
    let mut found: Vec<(usize, &str)> = near
        .map(|word| (rows.distance(stem.as_bytes(), word.as_bytes()), word))
        .filter(|(distance, word)| *distance <= most && index.has(view, word))
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

/// Which letters a word has, as bits; a few others share them.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |letters, byte| letters | 1 << (byte & 31))
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

#[cfg(test)]
mod tests {
    use super::{Rows, letters};

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
            assert!((letters(a) ^ letters(b)).count_ones() as usize <= 2 * expected, "{a} {b}");
        }
    }
}
