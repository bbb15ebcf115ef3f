//! Scans the text of a result for words that require a closer inspection: one pass, no parsing.
//!
//! It is a byte search, not a reader of JSON: it does not know keys from values, and only decides whether the readers of
//! `core::json` have to look. A word that is spelled with escapes is not found (ADR 6); keys that only the gateway writes
//! are checked again in decoded form where a result is passed on.

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, Match};
use std::sync::LazyLock;

/// The findings of a scan. All are false for almost every result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prescan {
    /// It has keywords of a file result.
    pub file_result: bool,
    /// It has the word `result`. Only searched for if it matters.
    pub answer: bool,
    /// It may have blocks with encoded data.
    pub media: bool,
    /// It may have a file token of the gateway.
    pub echo: bool,
    /// It may have a key that only the gateway writes.
    pub forged: bool,
}

impl Prescan {
    /// Whether the result can pass unchanged.
    pub fn is_plain(self) -> bool {
        !self.may_be_file_result() && !self.media && !self.echo && !self.forged
    }

    /// Whether the result may be a file result: an answer with something beside it.
    pub fn may_be_file_result(self) -> bool {
        self.file_result && self.answer
    }

    /// Adds the findings of the next part of a text.
    pub fn extended(self, part: &[u8]) -> Self {
        let found = scan_words(part);
        Self {
            file_result: self.file_result || found.file_result,
            answer: self.answer || has_answer(part),
            media: self.media || found.media,
            echo: self.echo || found.echo,
            forged: self.forged || found.forged,
        }
    }
}

/// The words without which nothing needs to change. Keys are written as `"b64"` in structured content and as `\"b64\"`
/// in a text, so these words have no quotes. The block types do, because in a text their quotes are escaped.
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
/// The indices of the first words for media, echoes and forged keys.
const MEDIA_FROM: usize = 5;
const ECHO_FROM: usize = 8;
const FORGED_FROM: usize = 9;

/// Number of bytes at the end of a part to scan again together with the next part.
pub const OVERLAP: usize = 13;

/// Searches for all words at once with SIMD: forty times as fast as an automaton, on machines that support it.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(WORDS));
/// The fallback for other machines.
static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(WORDS).ok());

/// Scans a whole text.
pub fn prescan(text: &[u8]) -> Prescan {
    let found = scan_words(text);
    Prescan { answer: found.file_result && has_answer(text), ..found }
}

fn has_answer(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"result").is_some()
}

fn scan_words(text: &[u8]) -> Prescan {
    match (&*SEARCHER, &*AUTOMATON) {
        (Some(searcher), _) => prescan_of(searcher.find_iter(text)),
        (None, Some(automaton)) => prescan_of(automaton.find_iter(text)),
        (None, None) => Prescan { file_result: true, answer: true, media: true, echo: true, forged: true },
    }
}

fn prescan_of(matches: impl Iterator<Item = Match>) -> Prescan {
    let mut found = Prescan::default();
    for word in matches {
        match word.pattern().as_usize() {
            FORGED_FROM.. => found.forged = true,
            ECHO_FROM.. => found.echo = true,
            MEDIA_FROM.. => found.media = true,
            _ => found.file_result = true,
        }
        if found.file_result && found.media && found.echo && found.forged {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_that_need_inspection_are_marked() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"hello"}]}"#, (false, false, false)),
            (r#"{"content":[],"structuredContent":{"results":5}}"#, (false, false, false)),
            (r#"{"content":[{"type":"text","text":"a \"image\" of it"}]}"#, (false, false, false)),
            (r#"{"content":[{"type": "image","data":"AA=="}]}"#, (false, true, false)),
            (r#"{"content":[{"type":"text","text":"{\"results\":1,\"b64\":1}"}]}"#, (true, false, false)),
            (r#"{"content":[{"type":"text","text":"a display"}]}"#, (false, false, false)),
            (r#"{"content":["?token=v1.k.eyJ1IjoiYW5uIn0.x"]}"#, (false, false, true)),
        ];
        for (text, (file_result, media, echo)) in cases {
            let found = prescan(text.as_bytes());
            assert_eq!(
                (found.may_be_file_result(), found.media, found.echo),
                (file_result, media, echo),
                "{text}"
            );
        }
        assert!(prescan(br#"{"_meta":{"toolbooth/held":{}}}"#).forged);
        assert!(!prescan(br#"{"content":[{"type":"text","text":"a toolbooth/held"}]}"#).forged);
        assert_eq!(WORDS.iter().map(|word| word.len()).max(), Some(OVERLAP));
    }
}
