//! The search index of one server's tools: their words, their meanings and the spellings of their names.
//!
//! It is built once for each server part of a catalog. A new snapshot reuses the parts that did not change.

use crate::meaning::Vector;
use crate::names::Spellings;
use crate::texts::TextList;

/// A posting: a tool that has a word, the fields that have it, and the word's weight there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posting {
    place: u32,
    /// From 0 to 1: repetitions of a word saturate.
    pub(crate) worth: f32,
}

impl Posting {
    /// Packs a tool's position, the fields as bits and the word's weight.
    pub(crate) fn of(tool: u32, fields: u32, worth: f32) -> Self {
        Self { place: tool << 8 | fields, worth }
    }

    /// The posting with the tool's position in the whole index; the first tool of the server is at `base`.
    pub(crate) fn based(self, base: u32) -> Self {
        Self { place: self.place + (base << 8), worth: self.worth }
    }

    /// The tool's position in the server's part or in the index.
    pub(crate) fn tool(self) -> usize {
        (self.place >> 8) as usize
    }

    /// The fields that have the word.
    pub(crate) fn fields(self) -> u8 {
        (self.place & 0xff) as u8
    }
}

/// The search index of one server's tools.
#[derive(Debug, Default)]
pub struct ServerIndex {
    /// Stems.
    pub(crate) words: TextList,
    /// For each stem the shortest word that has it: a stem may not be a word.
    pub(crate) written: TextList,
    /// The position of each stem's first posting, and the end of the last.
    pub(crate) starts: Vec<u32>,
    pub(crate) postings: Vec<Posting>,
    /// The meaning of each tool.
    pub(crate) vectors: Vec<Option<Vector>>,
    /// The tools' names, reduced to letters and digits.
    pub(crate) names: TextList,
    pub(crate) spellings: Spellings,
}

impl ServerIndex {
    /// The postings of a stem.
    pub(crate) fn postings(&self, word: usize) -> &[Posting] {
        let at = |index: usize| self.starts.get(index).map_or(0, |start| *start as usize);
        self.postings.get(at(word)..at(word + 1)).unwrap_or_default()
    }

    /// The number of postings of all stems.
    pub(crate) fn count_postings(&self) -> usize {
        self.postings.len()
    }
}
