//! Token counts: the number of o200k_base tokens of a text, counted exactly.
//!
//! The text is cut into pieces (`pieces`), and the bytes of a piece are merged into tokens (`merge`) by the ranks of
//! the vocabulary (`vocabulary`). The vocabulary is used in place in the binary, so counting allocates nothing that
//! lasts. Special tokens are not recognised: a text that looks like one is counted as written.

mod cost;
mod merge;
mod pieces;
mod vocabulary;

pub use cost::{definition_tokens, model_view};
pub use vocabulary::{PackError, pack};

use merge::BytePairMerger;
use pieces::TextPieces;
use vocabulary::TokenVocabulary;

/// The number of tokens of a text, at most `u32::MAX`.
pub fn tokens(text: &str) -> u32 {
    tokens_within(text, u32::MAX).unwrap_or(u32::MAX)
}

/// The number of tokens of a text, or `None` if it has more than `most`; stops counting as soon as that is certain.
pub fn tokens_within(text: &str, most: u32) -> Option<u32> {
    let vocabulary = TokenVocabulary::o200k();
    // No token is longer than `LONGEST`, so a long text need not be read at all.
    if text.len().div_ceil(vocabulary::LONGEST) > usize::try_from(most).unwrap_or(usize::MAX) {
        return None;
    }
    let mut merger = BytePairMerger::default();
    let mut count = 0_u32;
    for piece in TextPieces::of(text) {
        count = count.checked_add(merger.count(&vocabulary, piece.as_bytes()))?;
        if count > most {
            return None;
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests;
