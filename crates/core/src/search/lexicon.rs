//! The words that were met while tools were read, each with its stem.

use super::words::{Stems, is_stop};
use crate::name_map::NameMap;

/// A word that was read before: its stem and itself, as places in the lexicon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) stem: u32,
    pub(super) form: u32,
}

/// Words as they are written, and their stems.
#[derive(Default)]
pub(super) struct Lexicon {
    stemmer: Stems,
    /// By word; stop words have nothing.
    known: NameMap<Box<str>, Option<Known>>,
    ids: NameMap<Box<str>, u32>,
    stems: Vec<Box<str>>,
    forms: Vec<Box<str>>,
}

impl Lexicon {
    /// A word, lower case; a stop word is none.
    pub(super) fn word(&mut self, word: &str) -> Option<Known> {
        match self.known.get(word) {
            Some(known) => *known,
            None => self.learn(word),
        }
    }

    fn learn(&mut self, word: &str) -> Option<Known> {
        let Self { stemmer, ids, stems, forms, .. } = self;
        let count = |list: &[Box<str>]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let known = (!is_stop(word)).then(|| {
            let (stem, form) = (stemmer.of(word), count(forms));
            forms.push(word.into());
            let stem = *ids.entry(Box::from(&*stem)).or_insert_with(|| {
                stems.push(Box::from(&*stem));
                count(stems) - 1
            });
            Known { stem, form }
        });
        self.known.insert(word.into(), known);
        known
    }

    /// A stem.
    pub(super) fn stem(&self, place: u32) -> &str {
        self.stems.get(place as usize).map_or("", |stem| stem)
    }

    /// A word as it is written.
    pub(super) fn form(&self, place: u32) -> &str {
        self.forms.get(place as usize).map_or("", |form| form)
    }

    /// The shorter of two words, or the first in order.
    pub(super) fn shorter(&self, a: u32, b: u32) -> u32 {
        let order = |form: u32| (self.form(form).len(), self.form(form));
        if a == b || order(a) <= order(b) { a } else { b }
    }
}
