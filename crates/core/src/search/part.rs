//! What search knows of one server's tools: their words, their meanings and the spellings of their names.
//!
//! It is made once for each part of a catalog. Parts that a new snapshot shares with the last are not read again.

use super::fields::{Field, each_text};
use super::gathering::Gathering;
use super::lexicon::{Known, Lexicon};
use super::meaning::{Pieces, Vector};
use super::names::Spellings;
use super::recurring::{Lists, Runs, each_run};
use super::texts::Texts;
use super::weights::WEIGHTS;
use super::words::{compact, each_word, spelled_out};
use crate::catalog::{ServerCatalog, Tool};

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
    /// Of a tool of a part: its place, the fields as bits and how much the word counts.
    pub(super) fn of(tool: u32, fields: u32, worth: f32) -> Self {
        Self { place: tool << 8 | fields, worth }
    }

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

/// What search knows of one server's tools.
#[derive(Debug, Default)]
pub struct Part {
    /// Stems.
    pub(super) words: Texts,
    /// For each stem the shortest word that has it: a stem itself may be no word.
    pub(super) written: Texts,
    /// Where the postings of each stem begin, and where the last end.
    pub(super) starts: Vec<u32>,
    pub(super) postings: Vec<Posting>,
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
    runs: Runs,
    /// The words of runs of text.
    words: Lists<Known>,
    gathering: Gathering,
    pieces: Pieces,
}

impl Analyst {
    /// Reads the tools of one server.
    pub(super) fn read(&mut self, server: &ServerCatalog) -> Part {
        let mut part = Part { vectors: Vec::with_capacity(server.tools.len()), ..Part::default() };
        let name = (!server.entry.is_virtual()).then_some(server.entry.name.as_str());
        self.gathering.begin();
        if let Some(name) = name {
            self.words(Field::Server, name);
        }
        self.words(Field::About, &about(server));
        self.gathering.share();
        let spelled = name.map(spelled_out).unwrap_or_default();
        for (place, tool) in (0_u32..).zip(&server.tools) {
            self.gathering.begin_tool();
            let vector = self.tool(&spelled, tool);
            part.vectors.push(vector);
            part.names.push(&compact(&tool.name));
            self.gathering.end_tool(place);
        }
        part.spellings = Spellings::of(server);
        self.gathering.end(&self.lexicon, &mut part);
        part
    }

    /// Reads one tool's words, and what they mean together.
    fn tool(&mut self, server: &str, tool: &Tool) -> Option<Vector> {
        self.words(Field::Name, &tool.name);
        self.pieces.begin();
        self.pieces.read(&mut self.runs, server, WEIGHTS.server_meaning);
        self.pieces.read(&mut self.runs, &spelled_out(&tool.name), WEIGHTS.name_meaning);
        self.pieces.read(&mut self.runs, ":", 1.0);
        each_text(tool, &mut |field, text| match field {
            Field::Description => self.description(text),
            _ => {
                self.words(field, text);
                if field == Field::Parameters {
                    self.pieces.read_name(text, WEIGHTS.parameter_meaning);
                }
            }
        });
        self.pieces.vector()
    }

    /// Reads words.
    fn words(&mut self, field: Field, text: &str) {
        let Self { runs, lexicon, words, gathering, .. } = self;
        each_run(text, &mut |_, run| {
            let words = words.of(runs.get(run), |words| {
                each_word(run, &mut |word| words.extend(lexicon.word(word)));
            });
            gathering.put(words, field, lexicon);
        });
    }

    /// Reads words and what they mean.
    fn description(&mut self, text: &str) {
        let Self { runs, lexicon, words, gathering, pieces, .. } = self;
        let meant = head(text, MAX_MEANT).len();
        let opening = opening_end(&text[..meant]);
        pieces.begin_text();
        each_run(text, &mut |start, run| {
            let known = runs.get(run);
            let words = words.of(known, |words| each_word(run, &mut |word| words.extend(lexicon.word(word))));
            gathering.put(words, Field::Description, lexicon);
            let end = start + run.len();
            if end <= opening {
                pieces.add(known, run, 1.0 + WEIGHTS.opening_meaning);
            } else if start < opening {
                // The mark that ends the first sentence is none of its words.
                let (first, rest) = run.split_at(opening - start);
                let rest = head(rest, meant - opening);
                pieces.add(runs.get(first), first, 1.0 + WEIGHTS.opening_meaning);
                pieces.add(runs.get(rest), rest, 1.0);
            } else if end <= meant {
                pieces.add(known, run, 1.0);
            } else if start < meant {
                pieces.add(None, &run[..meant - start], 1.0);
            }
        });
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

/// Where the first sentence ends: what a tool does stands there, how it is used comes later.
fn opening_end(text: &str) -> usize {
    let start = text.len() - text.trim_start().len();
    let line = text[start..].split('\n').next().unwrap_or_default();
    start + line.split(". ").next().unwrap_or_default().len()
}

/// The beginning of a text.
fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a description means when it is read as a whole, and its first sentence once more.
    fn plainly(text: &str) -> Option<Vector> {
        let (mut pieces, mut runs) = (Pieces::default(), Runs::default());
        let meant = head(text, MAX_MEANT);
        pieces.begin();
        pieces.read(&mut runs, meant, 1.0);
        pieces.read(&mut runs, &meant[..opening_end(meant)], WEIGHTS.opening_meaning);
        pieces.vector()
    }

    #[test]
    fn the_first_sentence_of_a_description_counts_more() {
        let long = "reading ".repeat(249) + "unreadable words. Unread.";
        let endless = format!("{} after", "x".repeat(MAX_MEANT));
        let accents = "é".repeat(MAX_MEANT);
        let texts = [
            "Reads a file. It must be there.",
            "Reads a file",
            "Reads a file.",
            "  Reads a file.txt\nof the U.S. army. Or another.",
            "\n\nReads.\n",
            "file. . . and more",
            "",
            &long,
            &endless,
            &accents,
        ];
        let mut analyst = Analyst::default();
        for text in texts.into_iter().chain(texts) {
            analyst.gathering.begin();
            analyst.pieces.begin();
            analyst.description(text);
            let (read, expected) = (analyst.pieces.vector(), plainly(text));
            let bytes = |vector: &Option<Vector>| vector.as_ref().map(|vector| vector.bytes.clone());
            let (read, expected) = (bytes(&read).unwrap_or_default(), bytes(&expected).unwrap_or_default());
            // They are added up in another order.
            let is_near = |(a, b): (&i8, &i8)| a.abs_diff(*b) <= 1;
            assert!(read.len() == expected.len() && read.iter().zip(&expected).all(is_near), "{text:?}");
        }
        assert_eq!(opening_end(" Reads. Writes."), 6);
    }
}
