//! Byte pair encoding: merges the bytes of a piece into tokens. Of all neighbours that form a token together, the pair
//! with the lowest rank is merged first (the leftmost of equals), until no pair forms a token.

use super::vocabulary::{Rank, TokenVocabulary};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Up to this many bytes a linear search for the lowest rank is faster than a heap.
const SHORT: usize = 100;
/// The rank of neighbours that do not form a token.
const NONE: Rank = Rank::MAX;

/// Counts the tokens of pieces; reuses its buffer.
#[derive(Debug, Default)]
pub(super) struct BytePairMerger {
    parts: Vec<TokenPart>,
}

/// A part of a piece that is a token: its start, and the rank of the token that it forms with the next part.
#[derive(Debug, Clone, Copy)]
struct TokenPart {
    start: usize,
    joined: Rank,
}

impl BytePairMerger {
    /// The number of tokens of a piece.
    pub(super) fn count(&mut self, vocabulary: &TokenVocabulary<'_>, piece: &[u8]) -> u32 {
        if piece.len() < 2 || vocabulary.rank(piece).is_some() {
            return u32::from(!piece.is_empty());
        }
        if piece.len() > SHORT {
            return merge_long(vocabulary, piece);
        }
        self.merge_short(vocabulary, piece)
    }

    fn merge_short(&mut self, vocabulary: &TokenVocabulary<'_>, piece: &[u8]) -> u32 {
        let parts = &mut self.parts;
        parts.clear();
        parts.extend((0..piece.len()).map(|start| {
            let pair = piece.get(start..start + 2);
            TokenPart { start, joined: pair.and_then(|pair| vocabulary.rank(pair)).unwrap_or(NONE) }
        }));
        loop {
            let lowest = parts.iter().enumerate().min_by_key(|(_, part)| part.joined);
            let Some((at, _)) = lowest.filter(|(_, part)| part.joined != NONE) else { break };
            parts.remove(at + 1);
            let rank_at = |at: usize| {
                let end = parts.get(at + 2).map_or(piece.len(), |part| part.start);
                let whole = parts.get(at + 1).and_then(|_| piece.get(parts[at].start..end));
                whole.and_then(|bytes| vocabulary.rank(bytes)).unwrap_or(NONE)
            };
            let joined = rank_at(at);
            let before = at.checked_sub(1).map(|before| (before, rank_at(before)));
            parts[at].joined = joined;
            if let Some((before, joined)) = before {
                parts[before].joined = joined;
            }
        }
        u32::try_from(parts.len()).unwrap_or(u32::MAX)
    }
}

/// A part of a long piece, stored at the index of its first byte; other indices are unused.
#[derive(Debug, Clone, Copy)]
struct MergeLink {
    before: u32,
    end: u32,
    joined: Rank,
}

/// Merges a long piece with a heap of pairs, because a linear search would take quadratic time. A pair that a merge has
/// invalidated is recognised by its rank when it is popped.
fn merge_long(vocabulary: &TokenVocabulary<'_>, piece: &[u8]) -> u32 {
    let Ok(length) = u32::try_from(piece.len()) else { return u32::MAX };
    let index = |at: u32| usize::try_from(at).expect("an index fits");
    let rank = |start: u32, end: u32| vocabulary.rank(&piece[index(start)..index(end)]).unwrap_or(NONE);
    let mut links: Vec<MergeLink> = (0..length)
        .map(|at| {
            let joined = if at + 1 < length { rank(at, at + 2) } else { NONE };
            MergeLink { before: at.wrapping_sub(1), end: at + 1, joined }
        })
        .collect();
    let pair = |at: u32, link: &MergeLink| (link.joined != NONE).then_some(Reverse((link.joined, at)));
    let mut pairs: BinaryHeap<_> = (0..).zip(&links).filter_map(|(at, link)| pair(at, link)).collect();
    let mut count = length;
    while let Some(Reverse((joined, at))) = pairs.pop() {
        if links[index(at)].joined != joined {
            continue;
        }
        let merged = links[index(at)].end;
        let end = links[index(merged)].end;
        links[index(merged)].joined = NONE;
        count -= 1;
        links[index(at)].end = end;
        if end < length {
            links[index(end)].before = at;
        }
        let before = links[index(at)].before;
        for start in [at, before] {
            let Some(link) = links.get(index(start)).copied() else { continue };
            let joined = if link.end < length { rank(start, links[index(link.end)].end) } else { NONE };
            links[index(start)].joined = joined;
            pairs.extend(pair(start, &links[index(start)]));
        }
    }
    count
}
