//! Guesses: words of the catalog that a word which no tool has may stand for.

use crate::index::{Index, VisibleTools};
use crate::pieces::PieceVocabulary;
use crate::words::Stems;

/// Maximum number of guesses for one word.
const MAX_GUESSES: usize = 4;

/// Words that may have been meant: longer words, two joined words, or a corrected spelling. Words that only hidden
/// tools have are not guessed, because that would reveal these tools.
pub(crate) fn guesses(index: &Index, view: &VisibleTools, word: &str, stems: &Stems) -> Vec<String> {
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
    // A known word that no tool has is not a misspelling.
    if word.len() < 5 || PieceVocabulary::get().has(word) {
        return Vec::new();
    }
    corrected(index, view, &stems.of(word))
}

fn corrected(index: &Index, view: &VisibleTools, stem: &str) -> Vec<String> {
    let most = if stem.len() < 8 { 1 } else { 2 };
    let Some(first) = stem.get(..1) else { return Vec::new() };
    let letters = letters(stem);
    let near = index.vocabulary.beginning(first).filter(|word| {
        let is_as_long = word.len().abs_diff(stem.len()) <= most && word.is_ascii();
        // Replacing a letter removes one and adds another.
        is_as_long && (letters ^ self::letters(word)).count_ones() as usize <= 2 * most
    });
    let mut edits = EditDistance::default();
    let mut found: Vec<(usize, &str)> = near
        .map(|word| (edits.distance(stem.as_bytes(), word.as_bytes()), word))
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

/// The letters of a word as bits; a few other characters share them.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |letters, byte| letters | 1 << (byte & 31))
}

/// Buffers for edit distances, reused for each pair.
#[derive(Default)]
struct EditDistance([Vec<usize>; 3]);

impl EditDistance {
    /// The number of letters to change, remove, insert or swap with a neighbour.
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
    use super::{EditDistance, letters};

    #[test]
    fn a_swap_of_neighbours_counts_as_one_edit() {
        let cases = [
            ("issue", "issue", 0),
            ("isseu", "issue", 1),
            ("isue", "issue", 1),
            ("abc", "xyz", 3),
            ("", "ab", 2),
        ];
        for (a, b, expected) in cases {
            assert_eq!(EditDistance::default().distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert!((letters(a) ^ letters(b)).count_ones() as usize <= 2 * expected, "{a} {b}");
        }
    }
}
