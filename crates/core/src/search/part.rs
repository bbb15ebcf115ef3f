//! What search knows of one server's tools: their words, their meanings and the spellings of their names.
//!
//! It is made once for each part of a catalog. Parts that a new snapshot shares with the last are not read again.

use super::fields::{Field, each_text};
use super::lexicon::{Known, Lexicon};
use super::meaning::{Reader, Vector, WIDTH};
use super::names::Spellings;
use super::recurring::{Recurring, each_run};
use super::weights::{FIELDS, WEIGHTS};
use super::words::{compact, each_word, spelled_out};
use crate::catalog::{ServerCatalog, Tool};

/// No tool is read further than this many words.
const MAX_WORDS: usize = 4_000;
/// No more of what a server says of itself is read than this.
const MAX_ABOUT: usize = 600;
/// No more of a description goes into a tool's meaning than this.
const MAX_MEANT: usize = 2_000;

/// A word in one tool: the tool's place and the fields that have it, and how much it counts there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    place: u32,
    /// From 0 to 1: a word that is said again and again counts no more than so much.
    pub(super) worth: f32,
}

impl Posting {
    /// The same tool among all of an index, of which its part's first is at `base`.
    pub(super) fn based(self, base: u32) -> Self {
        Self { place: self.place + (base << 8), worth: self.worth }
    }

    /// The tool, as a place in its part or in the index.
    pub(super) fn tool(self) -> usize {
        (self.place >> 8) as usize
    }

    /// The fields that have the word.
    pub(super) fn fields(self) -> u8 {
        (self.place & 0xff) as u8
    }
}

/// Many short texts in one.
#[derive(Debug, Default)]
pub(super) struct Texts {
    text: String,
    ends: Vec<u32>,
}

impl Texts {
    /// Adds a text.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// The text at a place.
    pub(super) fn get(&self, place: usize) -> &str {
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(place).map_or(start, |end| *end as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Of texts in order those that begin with one.
    pub(super) fn beginning<'a>(&'a self, start: &'a str) -> impl Iterator<Item = &'a str> {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.get(middle) < start {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        (from..self.len()).map(|place| self.get(place)).take_while(move |text| text.starts_with(start))
    }

    /// Calls `visit` with the places of those that begin with a text, and whether that is all of them.
    pub(super) fn each_beginning_with(&self, beginning: &str, visit: &mut impl FnMut(usize, bool)) {
        let (bytes, wanted) = (self.text.as_bytes(), beginning.as_bytes());
        let mut start = 0;
        for (place, end) in self.ends.iter().enumerate() {
            let end = *end as usize;
            let is_long_enough = end - start >= wanted.len();
            if is_long_enough && bytes.get(start..).is_some_and(|rest| rest.starts_with(wanted)) {
                visit(place, end - start == wanted.len());
            }
            start = end;
        }
    }
}

/// What search knows of one server's tools.
#[derive(Debug, Default)]
pub struct Part {
    /// Stems, in order.
    pub(super) words: Texts,
    /// For each stem the shortest word that has it: a stem itself may be no word.
    pub(super) written: Texts,
    /// Where the postings of each stem begin, and where the last end.
    starts: Vec<u32>,
    postings: Vec<Posting>,
    /// What each tool means.
    pub(super) vectors: Vec<Option<Vector>>,
    /// The tools' names, letters and digits alone.
    pub(super) names: Texts,
    pub(super) spellings: Spellings,
}

impl Part {
    /// The tools that have a stem.
    pub(super) fn postings(&self, word: usize) -> &[Posting] {
        let at = |index: usize| self.starts.get(index).map_or(0, |start| *start as usize);
        self.postings.get(at(word)..at(word + 1)).unwrap_or_default()
    }

    /// How many there are of all stems.
    pub(super) fn count_postings(&self) -> usize {
        self.postings.len()
    }
}

/// Reads tools. What it has learned of words serves all parts of one snapshot.
#[derive(Default)]
pub(super) struct Analyst {
    lexicon: Lexicon,
    /// The words of runs of text.
    runs: Recurring<Known>,
    /// By stem, the shortest word of the part that is being read.
    shortest: Vec<Option<u32>>,
    reader: Reader,
    found: Vec<Found>,
}

/// A stem in a field of a tool, as one number: they are put in order by stem and field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found(u64);

impl Found {
    fn of(stem: u32, field: Field) -> Self {
        Self(u64::from(stem) << 8 | field as u64)
    }

    fn stem(self) -> u32 {
        (self.0 >> 8) as u32
    }

    fn field(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

/// The words of one tool so far, by field.
#[derive(Clone, Copy, Default)]
struct Lengths([u32; FIELDS]);

impl Analyst {
    /// Reads the tools of one server.
    pub(super) fn read(&mut self, server: &ServerCatalog) -> Part {
        let mut part = Part { vectors: Vec::with_capacity(server.tools.len()), ..Part::default() };
        let about = about(server);
        let name = server.entry.name.as_str();
        let mut shared = Lengths::default();
        self.found.clear();
        self.shortest.clear();
        if !server.entry.is_virtual() {
            self.words(Field::Server, name, &mut shared);
        }
        self.words(Field::About, &about, &mut shared);
        let shared_words = std::mem::take(&mut self.found);
        let mut all: Vec<(u32, Posting)> = Vec::new();
        for (place, tool) in (0_u32..).zip(&server.tools) {
            self.found.clear();
            self.found.extend_from_slice(&shared_words);
            let mut lengths = shared;
            let vector = self.tool(server, tool, &mut lengths);
            part.vectors.push(vector);
            part.names.push(&compact(&tool.name));
            self.count(place, &lengths, &mut all);
        }
        part.spellings = Spellings::of(server);
        self.arrange(all, &mut part);
        part
    }

    /// Reads one tool's words, and what they mean together.
    fn tool(&mut self, server: &ServerCatalog, tool: &Tool, lengths: &mut Lengths) -> Option<Vector> {
        let mut sum = [0_f32; WIDTH];
        self.words(Field::Name, &tool.name, lengths);
        if !server.entry.is_virtual() {
            self.reader.add(&mut sum, &spelled_out(server.entry.name.as_str()), WEIGHTS.server_meaning);
        }
        self.reader.add(&mut sum, &spelled_out(&tool.name), WEIGHTS.name_meaning);
        self.reader.add(&mut sum, ":", 1.0);
        each_text(tool, &mut |field, text| {
            self.words(field, text, lengths);
            match field {
                Field::Description => {
                    self.reader.add(&mut sum, head(text, MAX_MEANT), 1.0);
                    self.reader.add(&mut sum, opening(text), WEIGHTS.opening_meaning);
                }
                Field::Parameters => self.reader.add(&mut sum, &spelled_out(text), WEIGHTS.parameter_meaning),
                _ => {}
            }
        });
        Vector::of(&sum)
    }

    fn words(&mut self, field: Field, text: &str, lengths: &mut Lengths) {
        let Self { runs, lexicon, shortest, found, .. } = self;
        let length = &mut lengths.0[field.index()];
        each_run(text, &mut |run| {
            let words = runs.of(run, |words| each_word(run, &mut |word| words.extend(lexicon.word(word))));
            for Known { stem, form } in words.iter().take(MAX_WORDS.saturating_sub(found.len())) {
                *length += 1;
                found.push(Found::of(*stem, field));
                let place = *stem as usize;
                if shortest.len() <= place {
                    shortest.resize(place + 1, None);
                }
                let kept = shortest[place].map_or(*form, |kept| lexicon.shorter(kept, *form));
                shortest[place] = Some(kept);
            }
        });
    }

    /// Turns the words of one tool into postings.
    fn count(&mut self, place: u32, lengths: &Lengths, all: &mut Vec<(u32, Posting)>) {
        let mut worth = [0_f32; FIELDS];
        for (field, worth) in worth.iter_mut().enumerate() {
            let b = WEIGHTS.length[field];
            let relative = lengths.0[field] as f32 / WEIGHTS.usual[field];
            *worth = WEIGHTS.fields[field] / (1.0 - b + b * relative);
        }
        self.found.sort_unstable();
        for same in self.found.chunk_by(|a, b| a.stem() == b.stem()) {
            let count: f32 = same.iter().map(|found| worth[found.field()]).sum();
            let worth = count / (count + WEIGHTS.k1);
            let fields = same.iter().fold(0, |fields, found| fields | 1_u32 << found.field());
            all.push((same[0].stem(), Posting { place: place << 8 | fields, worth }));
        }
    }

    /// Puts postings in the order of their words.
    fn arrange(&self, mut all: Vec<(u32, Posting)>, part: &mut Part) {
        all.sort_unstable_by_key(|(word, posting)| u64::from(*word) << 32 | u64::from(posting.place));
        let mut groups: Vec<&[(u32, Posting)]> = all.chunk_by(|a, b| a.0 == b.0).collect();
        let text = |group: &[(u32, Posting)]| self.lexicon.stem(group[0].0);
        groups.sort_unstable_by(|a, b| text(a).cmp(text(b)));
        part.postings.reserve_exact(all.len());
        part.starts.reserve_exact(groups.len() + 1);
        for group in groups {
            part.words.push(text(group));
            let shortest = self.shortest.get(group[0].0 as usize).copied().flatten();
            part.written.push(shortest.map_or(text(group), |form| self.lexicon.form(form)));
            part.starts.push(u32::try_from(part.postings.len()).unwrap_or(u32::MAX));
            part.postings.extend(group.iter().map(|(_, posting)| *posting));
        }
        part.starts.push(u32::try_from(part.postings.len()).unwrap_or(u32::MAX));
    }
}

/// What a server says of itself, or its operator of it.
fn about(server: &ServerCatalog) -> String {
    let about = &server.entry.about;
    let texts = [&about.short_description, &about.description, &server.instructions];
    let mut text = String::new();
    for more in texts.into_iter().flatten() {
        text.push_str(head(more, MAX_ABOUT.saturating_sub(text.len())));
        text.push(' ');
    }
    text
}

/// The first sentence: what a tool does stands there, how it is used comes later.
fn opening(text: &str) -> &str {
    let line = text.trim_start().split('\n').next().unwrap_or_default();
    head(line.split(". ").next().unwrap_or_default(), MAX_MEANT)
}

/// The beginning of a text.
fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
