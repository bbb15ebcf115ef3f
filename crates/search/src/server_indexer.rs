//! Builds the search index of one server's tools.

use crate::fields::{ToolField, each_text};
use crate::lexicon::{Lexicon, LexiconWord};
use crate::meaning::{PieceSum, Vector};
use crate::names::Spellings;
use crate::posting_builder::PostingBuilder;
use crate::run_table::{RunLists, RunTable, each_run};
use crate::server_index::ServerIndex;
use crate::weights::WEIGHTS;
use crate::words::{compact, each_word, spelled_out};
use toolbooth_core::catalog::{ServerCatalog, Tool};

/// Maximum number of bytes read of a server's descriptions and instructions.
const MAX_ABOUT: usize = 600;
/// Maximum number of bytes of a description that count towards a tool's meaning.
const MAX_MEANING: usize = 2_000;

/// Builds server indexes. Its caches of words and runs serve all servers of one snapshot.
#[derive(Default)]
pub(crate) struct ServerIndexer {
    lexicon: Lexicon,
    runs: RunTable,
    /// The words of each run of text.
    words: RunLists<LexiconWord>,
    builder: PostingBuilder,
    pieces: PieceSum,
}

impl ServerIndexer {
    /// Builds the index of one server's tools.
    pub(crate) fn read(&mut self, server: &ServerCatalog) -> ServerIndex {
        let mut part =
            ServerIndex { vectors: Vec::with_capacity(server.tools.len()), ..ServerIndex::default() };
        let name = (!server.entry.is_virtual()).then_some(server.entry.name.as_str());
        self.builder.begin();
        if let Some(name) = name {
            self.words(ToolField::Server, name);
        }
        self.words(ToolField::About, &about(server));
        self.builder.share();
        let spelled = name.map(spelled_out).unwrap_or_default();
        for (place, tool) in (0_u32..).zip(&server.tools) {
            self.builder.begin_tool();
            let vector = self.tool(&spelled, tool);
            part.vectors.push(vector);
            part.names.push(&compact(&tool.name));
            self.builder.end_tool(place);
        }
        part.spellings = Spellings::of(server);
        self.builder.end(&self.lexicon, &mut part);
        part
    }

    /// Reads the words of one tool and returns its meaning.
    fn tool(&mut self, server: &str, tool: &Tool) -> Option<Vector> {
        self.words(ToolField::Name, &tool.name);
        self.pieces.begin();
        self.pieces.read(&mut self.runs, server, WEIGHTS.server_meaning);
        self.pieces.read(&mut self.runs, &spelled_out(&tool.name), WEIGHTS.name_meaning);
        self.pieces.read(&mut self.runs, ":", 1.0);
        each_text(tool, &mut |field, text| match field {
            ToolField::Description => self.description(text),
            _ => {
                self.words(field, text);
                if field == ToolField::Parameters {
                    self.pieces.read_name(text, WEIGHTS.parameter_meaning);
                }
            }
        });
        self.pieces.vector()
    }

    /// Reads the words of a text.
    fn words(&mut self, field: ToolField, text: &str) {
        let Self { runs, lexicon, words, builder, .. } = self;
        each_run(text, &mut |_, run| {
            let words = words.of(runs.get(run), |words| {
                each_word(run, &mut |word| words.extend(lexicon.word(word)));
            });
            builder.put(words, field, lexicon);
        });
    }

    /// Reads the words and the meaning of a description.
    fn description(&mut self, text: &str) {
        let Self { runs, lexicon, words, builder, pieces, .. } = self;
        let meant = head(text, MAX_MEANING).len();
        let opening = opening_end(&text[..meant]);
        pieces.begin_text();
        each_run(text, &mut |start, run| {
            let known = runs.get(run);
            let words = words.of(known, |words| each_word(run, &mut |word| words.extend(lexicon.word(word))));
            builder.put(words, ToolField::Description, lexicon);
            let end = start + run.len();
            if end <= opening {
                pieces.add(known, run, 1.0 + WEIGHTS.opening_meaning);
            } else if start < opening {
                // The punctuation after the first sentence is not part of it.
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

/// The descriptions of a server in its entry, and the instructions that it sends.
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

/// The end of the first sentence, which says what a tool does; how to use it comes later.
fn opening_end(text: &str) -> usize {
    let start = text.len() - text.trim_start().len();
    let line = text[start..].split('\n').next().unwrap_or_default();
    start + line.split(". ").next().unwrap_or_default().len()
}

/// The first `most` bytes of a text, cut at a character boundary.
fn head(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meaning of a description read as a whole, plus that of its first sentence.
    fn plainly(text: &str) -> Option<Vector> {
        let (mut pieces, mut runs) = (PieceSum::default(), RunTable::default());
        let meant = head(text, MAX_MEANING);
        pieces.begin();
        pieces.read(&mut runs, meant, 1.0);
        pieces.read(&mut runs, &meant[..opening_end(meant)], WEIGHTS.opening_meaning);
        pieces.vector()
    }

    #[test]
    fn the_first_sentence_of_a_description_counts_more() {
        let long = "reading ".repeat(249) + "unreadable words. Unread.";
        let endless = format!("{} after", "x".repeat(MAX_MEANING));
        let accents = "é".repeat(MAX_MEANING);
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
        let mut indexer = ServerIndexer::default();
        for text in texts.into_iter().chain(texts) {
            indexer.builder.begin();
            indexer.pieces.begin();
            indexer.description(text);
            let (read, expected) = (indexer.pieces.vector(), plainly(text));
            let bytes = |vector: &Option<Vector>| vector.as_ref().map(|vector| vector.bytes.clone());
            let (read, expected) = (bytes(&read).unwrap_or_default(), bytes(&expected).unwrap_or_default());
            // The terms are added in another order.
            let is_near = |(a, b): (&i8, &i8)| a.abs_diff(*b) <= 1;
            assert!(read.len() == expected.len() && read.iter().zip(&expected).all(is_near), "{text:?}");
        }
        assert_eq!(opening_end(" Reads. Writes."), 6);
    }
}
