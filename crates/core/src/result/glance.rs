//! One glance at the text of a result: does anything in it need a closer look? One pass, no parsing.

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, Match};
use std::sync::LazyLock;

/// What a glance showed. All false for almost every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Glance {
    /// Words of the contract stand in it.
    pub contract: bool,
    /// The word for an answer stands in it. Looked for only where it matters.
    pub answer: bool,
    /// Blocks that carry encoded data may stand in it.
    pub media: bool,
    /// A file token of ours may stand in it.
    pub echo: bool,
    /// A key that only the gateway writes may stand in it.
    pub forged: bool,
}

impl Glance {
    /// Whether the result may go on as it is.
    pub fn is_plain(self) -> bool {
        !self.may_be_contract() && !self.media && !self.echo && !self.forged
    }

    /// Whether the contract may be meant: it is an answer with something beside it.
    pub fn may_be_contract(self) -> bool {
        self.contract && self.answer
    }

    /// Looks at the next part of a text.
    pub fn further(self, part: &[u8]) -> Self {
        let seen = words_of(part);
        Self {
            contract: self.contract || seen.contract,
            answer: self.answer || has_answer(part),
            media: self.media || seen.media,
            echo: self.echo || seen.echo,
            forged: self.forged || seen.forged,
        }
    }
}

/// Words without which nothing needs to be changed. Keys stand in structured content as `"b64"` and in a text
/// as `\"b64\"`, so quotes are left out; the kinds of blocks stand in no text with a plain quote behind them.
const WORDS: [&str; 10] = [
    "b64",
    "display",
    "meta_data",
    "meta-data",
    "returned_file",
    "\"image\"",
    "\"audio\"",
    "\"blob\"",
    super::echo::TOKEN_SIGN,
    "\"toolbooth",
];
/// The first of the words that are not of the contract, not of media, not of an echo.
const MEDIA_FROM: usize = 5;
const ECHO_FROM: usize = 8;
const FORGED_FROM: usize = 9;

/// How much of a text must be looked at again when the next part comes: the longest word less one.
pub const OVERLAP: usize = 13;

/// Looks for all words at once, in vectors: forty times as fast as an automaton, where the machine has them.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(WORDS));
/// For machines that have none.
static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(WORDS).ok());

/// Looks at a whole text.
pub fn glance(text: &[u8]) -> Glance {
    let seen = words_of(text);
    Glance { answer: seen.contract && has_answer(text), ..seen }
}

fn has_answer(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"result").is_some()
}

fn words_of(text: &[u8]) -> Glance {
    match (&*SEARCHER, &*AUTOMATON) {
        (Some(searcher), _) => seen_in(searcher.find_iter(text)),
        (None, Some(automaton)) => seen_in(automaton.find_iter(text)),
        (None, None) => Glance { contract: true, answer: true, media: true, echo: true, forged: true },
    }
}

fn seen_in(found: impl Iterator<Item = Match>) -> Glance {
    let mut seen = Glance::default();
    for word in found {
        match word.pattern().as_usize() {
            FORGED_FROM.. => seen.forged = true,
            ECHO_FROM.. => seen.echo = true,
            MEDIA_FROM.. => seen.media = true,
            _ => seen.contract = true,
        }
        if seen.contract && seen.media && seen.echo && seen.forged {
            break;
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_a_look_gets_one() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"hello"}]}"#, (false, false, false)),
            (r#"{"content":[],"structuredContent":{"results":5}}"#, (false, false, false)),
            (r#"{"content":[{"type":"text","text":"a \"image\" of it"}]}"#, (false, false, false)),
            (r#"{"content":[{"type": "image","data":"AA=="}]}"#, (false, true, false)),
            (r#"{"content":[{"type":"text","text":"{\"results\":1,\"b64\":1}"}]}"#, (true, false, false)),
            (r#"{"content":[{"type":"text","text":"a display"}]}"#, (false, false, false)),
            (r#"{"content":["?token=v1.k.eyJ1IjoiYW5uIn0.x"]}"#, (false, false, true)),
        ];
        for (text, (contract, media, echo)) in cases {
            let seen = glance(text.as_bytes());
            assert_eq!((seen.may_be_contract(), seen.media, seen.echo), (contract, media, echo), "{text}");
        }
        assert!(glance(br#"{"_meta":{"toolbooth/held":{}}}"#).forged);
        assert!(!glance(br#"{"content":[{"type":"text","text":"a toolbooth/held"}]}"#).forged);
        assert_eq!(WORDS.iter().map(|word| word.len()).max(), Some(OVERLAP));
    }
}
