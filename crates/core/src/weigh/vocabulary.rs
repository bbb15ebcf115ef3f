//! The vocabulary: the byte sequences that are tokens, and the order in which they are merged.
//!
//! It is one read-only table in the binary, used in place:
//!
//! | part | size |
//! |---|---|
//! | the number of tokens, the number of their bytes | 4 + 4 bytes |
//! | the start of each token, by rank, and the end of the last | 3 bytes each |
//! | the tokens, by rank | |
//! | slots of a hash table: 14 bits of the hash, 18 bits of rank + 1; 0 = empty | 4 bytes each |
//!
//! Numbers are little-endian. A lookup probes slots from the hashed one until it finds the token or an empty slot. The
//! hash bits in a slot nearly always decide without a comparison of the token itself.

static O200K: &[u8] = include_bytes!("o200k_base.bin");

/// The length of the longest token in bytes.
pub(super) const LONGEST: usize = 128;

const HEADER: usize = 8;
const OFFSET: usize = 3;
const SLOT: usize = 4;
const SLOT_BITS: u32 = 18;
const SLOTS: usize = 1 << SLOT_BITS;
const RANK_MASK: u32 = (1 << SLOT_BITS) - 1;

/// The position of a token in the merge order: lower ranks merge first.
pub(super) type Rank = u32;

/// A packed vocabulary.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenVocabulary<'a> {
    offsets: &'a [u8],
    tokens: &'a [u8],
    slots: &'a [u8],
}

impl TokenVocabulary<'static> {
    /// The vocabulary of o200k_base.
    pub(super) fn o200k() -> Self {
        Self::open(O200K).expect("the vocabulary in the binary is whole")
    }
}

impl<'a> TokenVocabulary<'a> {
    fn open(packed: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(packed.get(at..at + 4)?.try_into().ok()?));
        let count = usize::try_from(number(0)?).ok()?;
        let size = usize::try_from(number(4)?).ok()?;
        let (offsets, rest) = packed.get(HEADER..)?.split_at_checked((count + 1) * OFFSET)?;
        let (tokens, slots) = rest.split_at_checked(size)?;
        (slots.len() == SLOTS * SLOT).then_some(Self { offsets, tokens, slots })
    }

    /// The rank of a token, if these bytes are one.
    #[inline]
    pub(super) fn rank(&self, bytes: &[u8]) -> Option<Rank> {
        if bytes.len() > LONGEST {
            return None;
        }
        let (mut place, mark) = place_of(bytes);
        loop {
            let slot = &self.slots[place * SLOT..][..SLOT];
            let slot = u32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]]);
            if slot == 0 {
                return None;
            }
            if slot >> SLOT_BITS == mark {
                let rank = (slot & RANK_MASK) - 1;
                if self.token(rank) == Some(bytes) {
                    return Some(rank);
                }
            }
            place = (place + 1) % SLOTS;
        }
    }

    /// The bytes of a token.
    fn token(&self, rank: Rank) -> Option<&'a [u8]> {
        let at = usize::try_from(rank).ok()? * OFFSET;
        let &[a, b, c, d, e, f] = self.offsets.get(at..at + 2 * OFFSET)? else { return None };
        let start = usize::try_from(u32::from_le_bytes([a, b, c, 0])).ok()?;
        let end = usize::try_from(u32::from_le_bytes([d, e, f, 0])).ok()?;
        self.tokens.get(start..end)
    }
}

/// The slot where the lookup of these bytes begins, and the hash bits that are stored in slots.
#[inline]
fn place_of(bytes: &[u8]) -> (usize, u32) {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(ODD);
        hash ^= hash >> 32;
    };
    for chunk in chunks.by_ref() {
        mix(u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes")));
    }
    mix(chunks.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    hash = hash.wrapping_mul(ODD);
    #[allow(clippy::cast_possible_truncation, reason = "both are shifted down to the needed bits")]
    ((hash >> (64 - SLOT_BITS)) as usize, (hash >> 14) as u32 >> SLOT_BITS)
}

/// Errors of packing a vocabulary.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PackError {
    /// There are too many tokens for the slots, or none.
    #[error("{0} tokens do not fit into the table")]
    Count(usize),
    /// A token is empty or too long.
    #[error("the token of rank {0} has a length that the table cannot hold")]
    Length(usize),
    /// A byte is not a token, so text with it could not be counted.
    #[error("the byte {0} is not a token")]
    Byte(u8),
    /// The tokens together are too large for the table's offsets.
    #[error("the tokens have {0} bytes together, more than the table can hold")]
    Size(usize),
}

/// Packs tokens, in the order of their ranks, into the table that is part of the binary.
pub fn pack(tokens: &[Vec<u8>]) -> Result<Vec<u8>, PackError> {
    let size: usize = tokens.iter().map(Vec::len).sum();
    let count = u32::try_from(tokens.len()).map_err(|_| PackError::Count(tokens.len()))?;
    // Some slots must stay empty, or the lookup of an unknown token would not end.
    if tokens.is_empty() || tokens.len() > SLOTS / 10 * 9 {
        return Err(PackError::Count(tokens.len()));
    }
    if let Some(rank) = tokens.iter().position(|token| token.is_empty() || token.len() > LONGEST) {
        return Err(PackError::Length(rank));
    }
    if let Some(byte) = (0..=u8::MAX).find(|byte| !tokens.iter().any(|token| token == &[*byte])) {
        return Err(PackError::Byte(byte));
    }
    let address = |at: usize| u32::try_from(at).ok().filter(|at| at >> (8 * OFFSET) == 0);
    let total = address(size).ok_or(PackError::Size(size))?;

    let mut packed = Vec::with_capacity(HEADER + (tokens.len() + 1) * OFFSET + size + SLOTS * SLOT);
    packed.extend(count.to_le_bytes());
    packed.extend(total.to_le_bytes());
    let mut start = 0_u32;
    for token in tokens {
        packed.extend(&start.to_le_bytes()[..OFFSET]);
        start += u32::try_from(token.len()).map_err(|_| PackError::Size(size))?;
    }
    packed.extend(&start.to_le_bytes()[..OFFSET]);
    tokens.iter().for_each(|token| packed.extend(token));
    let mut slots = vec![0_u32; SLOTS];
    for (rank, token) in (1..).zip(tokens) {
        let (mut place, mark) = place_of(token);
        while slots[place] != 0 {
            place = (place + 1) % SLOTS;
        }
        slots[place] = mark << SLOT_BITS | rank;
    }
    slots.iter().for_each(|slot| packed.extend(slot.to_le_bytes()));
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_the_tokens_gives_the_table_in_the_binary() {
        let vocabulary = TokenVocabulary::o200k();
        let tokens: Vec<Vec<u8>> = (0..).map_while(|rank| Some(vocabulary.token(rank)?.to_vec())).collect();
        assert_eq!(tokens.len(), 199_998);
        assert_eq!(tokens.iter().map(Vec::len).max(), Some(LONGEST));
        for (rank, token) in (0..).zip(&tokens) {
            assert_eq!(vocabulary.rank(token), Some(rank));
        }
        assert!(pack(&tokens).as_deref() == Ok(O200K), "the layout has changed: pack the vocabulary again");
    }

    #[test]
    fn invalid_vocabularies_are_refused() {
        let bytes = || (0..=u8::MAX).map(|byte| vec![byte]);
        let cases = [
            (vec![], PackError::Count(0)),
            (bytes().skip(1).collect(), PackError::Byte(0)),
            (bytes().chain([vec![]]).collect(), PackError::Length(256)),
            (bytes().chain([vec![b'a'; LONGEST + 1]]).collect(), PackError::Length(256)),
        ];
        for (tokens, expected) in cases {
            assert_eq!(pack(&tokens), Err(expected));
        }
    }
}
