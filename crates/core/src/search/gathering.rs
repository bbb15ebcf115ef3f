//! The words of one server's tools while these are read: what each tool has of them is counted, and nothing is sorted.

use super::fields::Field;
use super::lexicon::{Known, Lexicon};
use super::part::{Part, Posting};
use super::weights::{FIELDS, WEIGHTS};

/// No tool is read further than this many words.
const MAX_WORDS: usize = 4_000;

/// Words, and the tools that have them.
#[derive(Default)]
pub(super) struct Gathering {
    /// Which server is being read: that of an earlier one has nothing to do with it.
    server: u32,
    /// By stem, the last server that has it and its place among that server's words.
    places: Vec<(u32, u32)>,
    words: Vec<Word>,
    /// All postings so far, each with the place of its word.
    postings: Vec<(u32, Posting)>,
    /// What was read of the tool so far, and how much of it all tools of the server have.
    found: Vec<Found>,
    shared: usize,
    lengths: [u32; FIELDS],
    shared_lengths: [u32; FIELDS],
    /// The words of the tool, each once.
    distinct: Vec<u32>,
}

/// A word of the server.
struct Word {
    stem: u32,
    /// The shortest that is written for its stem.
    shortest: u32,
    /// How many tools have it.
    tools: u32,
    /// What the tool has of it that is being counted.
    worth: f32,
    fields: u32,
}

/// A word in a field of a tool.
#[derive(Clone, Copy)]
struct Found {
    word: u32,
    field: Field,
}

impl Gathering {
    /// Begins with a server.
    pub(super) fn begin(&mut self) {
        self.server += 1;
        self.words.clear();
        self.postings.clear();
        self.shared = 0;
        self.shared_lengths = [0; FIELDS];
        self.begin_tool();
    }

    /// What was read so far all tools have.
    pub(super) fn share(&mut self) {
        self.shared = self.found.len();
        self.shared_lengths = self.lengths;
    }

    /// Begins with a tool.
    pub(super) fn begin_tool(&mut self) {
        self.found.truncate(self.shared);
        self.lengths = self.shared_lengths;
    }

    /// Takes in words of a field, in the order in which they were read.
    pub(super) fn put(&mut self, words: &[Known], field: Field, lexicon: &Lexicon) {
        for Known { stem, form } in words.iter().take(MAX_WORDS.saturating_sub(self.found.len())) {
            self.lengths[field.index()] += 1;
            let word = self.word(*stem, *form, lexicon);
            self.found.push(Found { word, field });
        }
    }

    /// The place of a word.
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
        self.words.push(Word { stem, shortest: form, tools: 0, worth: 0.0, fields: 0 });
        place
    }

    /// Turns the words of one tool into postings.
    pub(super) fn end_tool(&mut self, place: u32) {
        let mut worth = [0_f32; FIELDS];
        for (field, worth) in worth.iter_mut().enumerate() {
            let b = WEIGHTS.length[field];
            let relative = self.lengths[field] as f32 / WEIGHTS.usual[field];
            *worth = WEIGHTS.fields[field] / (1.0 - b + b * relative);
        }
        self.distinct.clear();
        for Found { word: at, field } in &self.found {
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

    /// Hands the words over, each with its tools in their order.
    pub(super) fn end(&mut self, lexicon: &Lexicon, part: &mut Part) {
        let mut next = 0_u32;
        part.starts.reserve_exact(self.words.len() + 1);
        for word in &mut self.words {
            part.words.push(lexicon.stem(word.stem));
            part.written.push(lexicon.form(word.shortest));
            part.starts.push(next);
            // From now on where its next posting goes.
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

    fn known(lexicon: &mut Lexicon, words: &str) -> Vec<Known> {
        words.split(' ').filter_map(|word| lexicon.word(word)).collect()
    }

    /// The words of a part in order, each as its stem, what is written for it, and its tools with their fields.
    fn told(part: &Part) -> Vec<String> {
        let word = |at: usize| {
            let tools = part.postings(at).iter().map(|posting| (posting.tool(), posting.fields()));
            format!("{} {} {:?}", part.words.get(at), part.written.get(at), tools.collect::<Vec<_>>())
        };
        let mut all: Vec<_> = (0..part.words.len()).map(word).collect();
        all.sort();
        all
    }

    #[test]
    fn each_word_is_told_with_its_tools() {
        let (mut lexicon, mut gathering) = (Lexicon::default(), Gathering::default());
        for _ in 0..2 {
            gathering.begin();
            gathering.put(&known(&mut lexicon, "mail"), Field::Server, &lexicon);
            gathering.share();
            let tools = [("sending mails", "send"), ("delete", ""), ("", "")];
            for (place, (name, description)) in (0..).zip(tools) {
                gathering.begin_tool();
                gathering.put(&known(&mut lexicon, name), Field::Name, &lexicon);
                gathering.put(&known(&mut lexicon, description), Field::Description, &lexicon);
                gathering.end_tool(place);
            }
            let mut part = Part::default();
            gathering.end(&lexicon, &mut part);
            let expected =
                ["delet delete [(1, 1)]", "mail mail [(0, 3), (1, 2), (2, 2)]", "send send [(0, 5)]"];
            assert_eq!(told(&part), expected);
            let mail = (0..3).find(|at| part.words.get(*at) == "mail").expect("a word");
            let [twice, once, again] = part.postings(mail) else { panic!("three tools") };
            assert!(twice.worth > once.worth && once.worth == again.worth);
        }
    }

    #[test]
    fn no_tool_is_read_without_end() {
        let (mut lexicon, mut gathering) = (Lexicon::default(), Gathering::default());
        let words = known(&mut lexicon, &"word ".repeat(MAX_WORDS + 10));
        gathering.begin();
        gathering.put(&words, Field::Description, &lexicon);
        gathering.put(&words, Field::Values, &lexicon);
        assert_eq!(gathering.found.len(), MAX_WORDS);
        gathering.begin_tool();
        assert_eq!((gathering.found.len(), gathering.lengths), (0, [0; FIELDS]));
    }
}
