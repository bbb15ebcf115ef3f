//! The words seen while tools are read, each with its stem.

use crate::words::{Stems, is_stop};
use toolbooth_core::name_map::NameMap;

/// A word of the lexicon: the positions of its stem and of its written form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LexiconWord {
    pub(crate) stem: u32,
    pub(crate) form: u32,
}

/// Words as they are written, and their stems.
#[derive(Default)]
pub(crate) struct Lexicon {
    stemmer: Stems,
    /// By word; `None` for stop words.
    known: NameMap<Box<str>, Option<LexiconWord>>,
    ids: NameMap<Box<str>, u32>,
    stems: Vec<Box<str>>,
    forms: Vec<Box<str>>,
}

impl Lexicon {
    /// Looks up a lower-case word and adds it if it is new; `None` for a stop word.
    pub(crate) fn word(&mut self, word: &str) -> Option<LexiconWord> {
        match self.known.get(word) {
            Some(known) => *known,
            None => self.learn(word),
        }
    }

    fn learn(&mut self, word: &str) -> Option<LexiconWord> {
        let Self { stemmer, ids, stems, forms, .. } = self;
        let count = |list: &[Box<str>]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let known = (!is_stop(word)).then(|| {
            let (stem, form) = (stemmer.of(word), count(forms));
            forms.push(word.into());
            let stem = *ids.entry(Box::from(&*stem)).or_insert_with(|| {
                stems.push(Box::from(&*stem));
                count(stems) - 1
            });
            LexiconWord { stem, form }
        });
        self.known.insert(word.into(), known);
        known
    }

    /// The stem at a position.
    pub(crate) fn stem(&self, place: u32) -> &str {
        self.stems.get(place as usize).map_or("", |stem| stem)
    }

    /// The written form at a position.
    pub(crate) fn form(&self, place: u32) -> &str {
        self.forms.get(place as usize).map_or("", |form| form)
    }

    /// The shorter of two written forms, or the alphabetically first.
    pub(crate) fn shorter(&self, a: u32, b: u32) -> u32 {
        let order = |form: u32| (self.form(form).len(), self.form(form));
        if a == b || order(a) <= order(b) { a } else { b }
    }
}
