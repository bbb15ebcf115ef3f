//! Pages of lists, limited in number and size.

use serde::Serialize;
use std::sync::Arc;
use toolbooth_core::caller::Caller;

/// The maximum size of the definitions or runs in one page.
const MAX_LIST_BYTES: usize = 4 << 20;

/// The maximum number of records that are read for one page.
const MAX_READ: usize = 1_000;

/// A page of a list.
#[derive(Debug, Clone)]
pub struct WorkList<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// The value of `after` for the next page, if there may be one.
    pub next: Option<String>,
    limit: usize,
    bytes: usize,
    read: usize,
}

impl<T> WorkList<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), next: None, limit, bytes: 0, read: 0 }
    }

    /// Whether no further record is read for the page: it has enough entries, few large ones, or few of many records fit.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.bytes >= MAX_LIST_BYTES || self.read >= MAX_READ
    }

    /// Notes that a record is read, and that the next page begins after its place.
    pub(super) fn pass(&mut self, place: String) {
        self.read += 1;
        self.next = Some(place);
    }

    pub(super) fn add(&mut self, bytes: usize, entry: T) {
        self.bytes += bytes;
        self.entries.push(entry);
    }
}

/// The size of a definition as JSON.
pub(super) fn size_of_json<D: Serialize>(definition: &D) -> usize {
    serde_json::to_string(definition).map_or(0, |text| text.len())
}

/// Whether any of these callers has no persona, or one with a fitting name.
pub(super) fn has_persona(callers: &[Arc<Caller>], fits: impl Fn(&str) -> bool) -> bool {
    callers.iter().any(|caller| caller.persona_name().is_none_or(&fits))
}
