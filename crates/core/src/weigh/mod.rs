//! What text costs a model: its tokens in o200k_base, counted exactly.
//!
//! The text is cut into pieces (`pieces`), and the bytes of a piece are merged into tokens (`merge`) by the
//! ranks of the vocabulary (`vocabulary`), which is read where it lies in the binary: counting puts nothing on
//! the heap that lasts. Text is only text: what looks like a control token is counted as it is written.

mod cost;
mod merge;
mod pieces;
mod vocabulary;

pub use cost::{definition, shown};
pub use vocabulary::{PackError, pack};

use merge::Merger;
use pieces::Pieces;
use vocabulary::Vocabulary;

/// How many tokens a text is. More than a `u32` can say are as many as it can say.
pub fn tokens(text: &str) -> u32 {
    tokens_within(text, u32::MAX).unwrap_or(u32::MAX)
}

/// How many tokens a text is, or nothing if they are more than `most`; it stops looking as soon as it knows.
pub fn tokens_within(text: &str, most: u32) -> Option<u32> {
    let vocabulary = Vocabulary::o200k();
    // No token is longer, so that a long text needs no look at all.
    if text.len().div_ceil(vocabulary::LONGEST) > usize::try_from(most).unwrap_or(usize::MAX) {
        return None;
    }
    let mut merger = Merger::default();
    let mut count = 0_u32;
    for piece in Pieces::of(text) {
        count = count.checked_add(merger.count(&vocabulary, piece.as_bytes()))?;
        if count > most {
            return None;
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests;
