//! Collects the words of one server's tools and counts them per tool.

use crate::fields::ToolField;
use crate::lexicon::{Lexicon, LexiconWord};
use crate::server_index::{Posting, ServerIndex};
use crate::weights::{FIELDS, WEIGHTS};

/// Maximum number of words read of one tool.
const MAX_WORDS: usize = 4_000;

/// Collects words and the tools that have them.
#[derive(Default)]
pub(crate) struct PostingBuilder {
    /// The number of the server being read: entries of `places` with another number are stale.
    server: u32,
    /// By stem: the last server that has it, and the position among that server's words.
    places: Vec<(u32, u32)>,
    words: Vec<ServerWord>,
    /// All postings so far, each with the position of its word.
    postings: Vec<(u32, Posting)>,
    /// The words of the current tool so far; the first `shared` of them belong to all tools of the server.
    found: Vec<WordOccurrence>,
    shared: usize,
    lengths: [u32; FIELDS],
    shared_lengths: [u32; FIELDS],
    /// The distinct words of the current tool.
    distinct: Vec<u32>,
}

/// A word of the server.
struct ServerWord {
    stem: u32,
    /// The shortest word that has this stem.
    shortest: u32,
    /// Number of tools that have it.
    tools: u32,
    /// Weight and fields of the word in the current tool.
    worth: f32,
    fields: u32,
}

/// An occurrence of a word in a field of a tool.
#[derive(Clone, Copy)]
struct WordOccurrence {
    word: u32,
    field: ToolField,
}

impl PostingBuilder {
    /// Starts a new server.
    pub(crate) fn begin(&mut self) {
        self.server += 1;
        self.words.clear();
        self.postings.clear();
        self.shared = 0;
        self.shared_lengths = [0; FIELDS];
        self.begin_tool();
    }

    /// Marks the words read so far as shared by all tools of the server.
    pub(crate) fn share(&mut self) {
        self.shared = self.found.len();
        self.shared_lengths = self.lengths;
    }

    /// Starts a new tool.
    pub(crate) fn begin_tool(&mut self) {
        self.found.truncate(self.shared);
        self.lengths = self.shared_lengths;
    }

    /// Adds words of a field, in reading order.
    pub(crate) fn put(&mut self, words: &[LexiconWord], field: ToolField, lexicon: &Lexicon) {
        for LexiconWord { stem, form } in words.iter().take(MAX_WORDS.saturating_sub(self.found.len())) {
            self.lengths[field.index()] += 1;
            let word = self.word(*stem, *form, lexicon);
            self.found.push(WordOccurrence { word, field });
        }
    }

    /// The position of a word; adds it if it is new.
    fn word(&mut self, stem: u32, form: u32, lexicon: &Lexicon) -> u32 {
        let at = stem as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, (0, 0));
        }
        let (server, place) = self.places[at];
        if server == self.server {
            let word = &mut self.words[place as usize];
            word.shortest = lexicon.shorter(word.shortest, form);
            return place;
        }
        let place = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        self.places[at] = (self.server, place);
        self.words.push(ServerWord { stem, shortest: form, tools: 0, worth: 0.0, fields: 0 });
        place
    }

    /// Turns the words of the current tool into postings.
    pub(crate) fn end_tool(&mut self, place: u32) {
        let mut worth = [0_f32; FIELDS];
        for (field, worth) in worth.iter_mut().enumerate() {
            let b = WEIGHTS.length[field];
            let relative = self.lengths[field] as f32 / WEIGHTS.usual[field];
            *worth = WEIGHTS.fields[field] / (1.0 - b + b * relative);
        }
        self.distinct.clear();
        for WordOccurrence { word: at, field } in &self.found {
            let word = &mut self.words[*at as usize];
            if word.fields == 0 {
                self.distinct.push(*at);
            }
            word.worth += worth[field.index()];
            word.fields |= 1 << field.index();
        }
        for at in &self.distinct {
            let word = &mut self.words[*at as usize];
            let worth = word.worth / (word.worth + WEIGHTS.k1);
            self.postings.push((*at, Posting::of(place, word.fields, worth)));
            word.tools += 1;
            (word.worth, word.fields) = (0.0, 0);
        }
    }

    /// Writes the words and their postings into `part`, tools in order.
    pub(crate) fn end(&mut self, lexicon: &Lexicon, part: &mut ServerIndex) {
        let mut next = 0_u32;
        part.starts.reserve_exact(self.words.len() + 1);
        for word in &mut self.words {
            part.words.push(lexicon.stem(word.stem));
            part.written.push(lexicon.form(word.shortest));
            part.starts.push(next);
            // From here on `tools` is the position of the word's next posting.
            next += std::mem::replace(&mut word.tools, next);
        }
        part.starts.push(next);
        part.postings = vec![Posting::of(0, 0, 0.0); self.postings.len()];
        for (word, posting) in &self.postings {
            let to = &mut self.words[*word as usize].tools;
            part.postings[*to as usize] = *posting;
            *to += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(lexicon: &mut Lexicon, words: &str) -> Vec<LexiconWord> {
        words.split(' ').filter_map(|word| lexicon.word(word)).collect()
    }

    /// The words of a part in order: stem, shortest written form, and tools with their fields.
    fn summary(part: &ServerIndex) -> Vec<String> {
        let word = |at: usize| {
            let tools = part.postings(at).iter().map(|posting| (posting.tool(), posting.fields()));
            format!("{} {} {:?}", part.words.get(at), part.written.get(at), tools.collect::<Vec<_>>())
        };
        let mut all: Vec<_> = (0..part.words.len()).map(word).collect();
        all.sort();
        all
    }

    #[test]
    fn each_word_has_its_tools_and_fields() {
        let (mut lexicon, mut builder) = (Lexicon::default(), PostingBuilder::default());
        for _ in 0..2 {
            builder.begin();
            builder.put(&known(&mut lexicon, "mail"), ToolField::Server, &lexicon);
            builder.share();
            let tools = [("sending mails", "send"), ("delete", ""), ("", "")];
            for (place, (name, description)) in (0..).zip(tools) {
                builder.begin_tool();
                builder.put(&known(&mut lexicon, name), ToolField::Name, &lexicon);
                builder.put(&known(&mut lexicon, description), ToolField::Description, &lexicon);
                builder.end_tool(place);
            }
            let mut part = ServerIndex::default();
            builder.end(&lexicon, &mut part);
            let expected =
                ["delet delete [(1, 1)]", "mail mail [(0, 3), (1, 2), (2, 2)]", "send send [(0, 5)]"];
            assert_eq!(summary(&part), expected);
            let mail = (0..3).find(|at| part.words.get(*at) == "mail").expect("a word");
            let [twice, once, again] = part.postings(mail) else { panic!("three tools") };
            assert!(twice.worth > once.worth && once.worth == again.worth);
        }
    }

    #[test]
    fn the_words_of_a_tool_are_limited() {
        let (mut lexicon, mut builder) = (Lexicon::default(), PostingBuilder::default());
        let words = known(&mut lexicon, &"word ".repeat(MAX_WORDS + 10));
        builder.begin();
        builder.put(&words, ToolField::Description, &lexicon);
        builder.put(&words, ToolField::Values, &lexicon);
        assert_eq!(builder.found.len(), MAX_WORDS);
        builder.begin_tool();
        assert_eq!((builder.found.len(), builder.lengths), (0, [0; FIELDS]));
    }
}
