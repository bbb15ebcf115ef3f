//! Splits texts, names and queries into words, all in the same way.

use rust_stemmers::{Algorithm, Stemmer};
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Maximum length of a word; longer runs of letters are skipped.
const MAX_WORD: usize = 40;

/// Stop words: words that carry no meaning in a query. Sorted.
const STOP: &[&str] = &[
    "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "both", "but", "by", "can", "cannot", "could", "did", "do", "does",
    "doing", "don", "each", "either", "etc", "every", "few", "for", "from", "further", "give", "had", "has",
    "have", "having", "he", "help", "her", "here", "hers", "him", "his", "how", "however", "if", "in",
    "into", "is", "it", "its", "just", "let", "like", "ll", "may", "me", "might", "more", "most", "must",
    "my", "need", "needs", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other",
    "our", "ours", "out", "over", "own", "please", "re", "same", "she", "should", "so", "some", "such",
    "than", "thanks", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those",
    "through", "to", "too", "under", "until", "up", "us", "use", "used", "uses", "using", "ve", "very",
    "via", "want", "was", "we", "were", "what", "when", "where", "whether", "which", "while", "who", "whom",
    "why", "will", "with", "within", "without", "would", "you", "your", "yours",
];

/// Whether a word is a stop word.
pub(crate) fn is_stop(word: &str) -> bool {
    word.len() < 2 || STOP.binary_search(&word).is_ok()
}

/// The last letters of all suffixes that the stemmer removes. A word that ends in another letter is its own stem.
const ENDINGS: &[u8] = b"cdegilmnrsty";

/// Reduces words to their stems.
pub(crate) struct Stems(Stemmer);

impl Default for Stems {
    fn default() -> Self {
        Self(Stemmer::create(Algorithm::English))
    }
}

impl Stems {
    /// The stem of a lower-case word.
    pub(crate) fn of<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let may_end = word.bytes().last().is_some_and(|last| ENDINGS.contains(&last));
        if word.len() > 3 && may_end && word.is_ascii() { self.0.stem(word) } else { Cow::Borrowed(word) }
    }
}

/// Calls `visit` with each word of a text, in lower case and in order. Skips numbers, email addresses, and all of a URL
/// or path except its host name or file extension.
pub(crate) fn each_word(text: &str, visit: &mut impl FnMut(&str)) {
    let mut splitter = WordSplitter { buffer: String::with_capacity(MAX_WORD), visit };
    text.split_whitespace().for_each(|chunk| splitter.runs(meaningful_part(chunk)));
}

/// A name as words with spaces between them.
pub(crate) fn spelled_out(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for run in name.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        for part in humps(run) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(part);
        }
    }
    text
}

/// The letters and digits of a text, in lower case.
pub(crate) fn compact(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The meaningful part of a run of text: the host name of a URL, the file extension of a path, else the whole run.
pub(crate) fn meaningful_part(chunk: &str) -> &str {
    // Every URL, path and email address has one of these characters.
    if memchr::memchr3(b'/', b'\\', b'@', chunk.as_bytes()).is_none() {
        return chunk;
    }
    let bare =
        chunk.trim_matches(|c: char| matches!(c, '"' | '\'' | '`' | '(' | ')' | ',' | ';' | '<' | '>'));
    if let Some((_, rest)) = bare.split_once("://") {
        let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
        let mut labels = host.rsplit('.');
        labels.next();
        return labels.next().unwrap_or_default();
    }
    if bare.contains('@') && bare.contains('.') && !bare.starts_with('@') {
        return "";
    }
    let rooted = bare.starts_with("~/") || bare.starts_with("./") || bare.starts_with("../");
    let rooted = rooted || (bare.len() > 2 && bare.starts_with('/')) || bare.get(1..3) == Some(":\\");
    if rooted {
        let last = bare.rsplit(['/', '\\']).next().unwrap_or_default();
        let kind = last.trim_end_matches(['.', '?', '!', ':']).rsplit_once('.').map_or("", |(_, kind)| kind);
        return if kind.len() <= 5 { kind } else { "" };
    }
    chunk
}

struct WordSplitter<'a, V> {
    buffer: String,
    visit: &'a mut V,
}

impl<V: FnMut(&str)> WordSplitter<'_, V> {
    fn runs(&mut self, chunk: &str) {
        if chunk.is_ascii() {
            let runs = chunk.split(|c: char| !c.is_ascii_alphanumeric());
            runs.filter(|run| (1..=8 * MAX_WORD).contains(&run.len())).for_each(|run| self.ascii(run));
            return;
        }
        for run in chunk.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c)) {
            if run.is_empty() || run.len() > 8 * MAX_WORD {
                continue;
            }
            if run.is_ascii() {
                self.ascii(run);
            } else {
                let folded: String = run.nfkd().filter(|c| !is_combining_mark(*c)).nfc().collect();
                self.folded(&folded);
            }
        }
    }

    /// Splits runs of Han, kana and Hangul, which have no spaces: each pair of neighbours is a word.
    fn folded(&mut self, run: &str) {
        let mut rest = run;
        while let Some(first) = rest.chars().next() {
            let cjk = is_cjk(first);
            let end = rest.char_indices().find(|(_, c)| is_cjk(*c) != cjk).map_or(rest.len(), |(at, _)| at);
            let (same, after) = rest.split_at(end);
            rest = after;
            if !cjk {
                self.ascii(same);
                continue;
            }
            let starts: Vec<usize> = same.char_indices().map(|(at, _)| at).chain([same.len()]).collect();
            match starts.len() {
                0..=2 => (self.visit)(same),
                _ => starts.windows(3).for_each(|w| (self.visit)(same.get(w[0]..w[2]).unwrap_or_default())),
            }
        }
    }

    /// Visits each part of a compound name, and the whole: `GitHub` gives `git`, `hub` and `github`; `s3` gives `s` and
    /// `s3`.
    fn ascii(&mut self, run: &str) {
        // Most runs are plain lower-case words.
        if run.bytes().fold(true, |all, byte| all & byte.is_ascii_lowercase()) {
            if run.len() <= MAX_WORD {
                (self.visit)(run);
            }
            return;
        }
        let mut parts = 0;
        for part in humps(run) {
            parts += 1;
            if !part.starts_with(|c: char| c.is_numeric()) && part.len() <= MAX_WORD {
                self.emit(part);
            }
        }
        if (2..=3).contains(&parts) && run.len() <= MAX_WORD / 2 {
            self.emit(run);
        }
    }

    fn emit(&mut self, word: &str) {
        self.buffer.clear();
        if word.is_ascii() {
            self.buffer.push_str(word);
            self.buffer.make_ascii_lowercase();
        } else {
            self.buffer.extend(word.chars().flat_map(char::to_lowercase));
        }
        (self.visit)(&self.buffer);
    }
}

fn is_cjk(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

/// The parts of a camel-case name: `getHTTPServer2` gives `get`, `HTTP`, `Server`, `2`.
fn humps(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    let is_ascii = run.is_ascii();
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_ascii { ascii_hump_end(rest.as_bytes()) } else { hump_end(rest, first) };
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

/// [`hump_end`] for ASCII, which nearly all names are made of.
fn ascii_hump_end(text: &[u8]) -> usize {
    for at in 1..text.len() {
        let (before, c, next) = (text[at - 1], text[at], text.get(at + 1).copied());
        let turns = before.is_ascii_digit() != c.is_ascii_digit()
            || (before.is_ascii_lowercase() && c.is_ascii_uppercase());
        let is_tail = next == Some(b's') && text.len() - at == 2;
        let is_acronym = before.is_ascii_uppercase() && c.is_ascii_uppercase();
        if turns || (is_acronym && next.is_some_and(|next| next.is_ascii_lowercase()) && !is_tail) {
            return at;
        }
    }
    text.len()
}

fn hump_end(text: &str, first: char) -> usize {
    let mut before = first;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let turns = before.is_numeric() != c.is_numeric() || (before.is_lowercase() && c.is_uppercase());
        // The last capital of several begins the next part, unless only a plural follows: `URLs`.
        let tail = next == Some('s') && text[at..].len() == 2;
        let acronym =
            before.is_uppercase() && c.is_uppercase() && next.is_some_and(char::is_lowercase) && !tail;
        if turns || acronym {
            return at;
        }
        before = c;
    }
    text.len()
}

/// A hash of a word that is the same in every process.
pub(crate) fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let mut found = Vec::new();
        each_word(text, &mut |word: &str| found.push(word.to_owned()));
        found.join(" ")
    }

    #[test]
    fn names_and_texts_are_split_in_the_same_way() {
        let cases = [
            ("createIssue", "create issue createissue"),
            ("create_pull-request.v2", "create pull request v v2"),
            ("getHTTPServer", "get http server gethttpserver"),
            ("list URLs", "list urls"),
            ("S3 bucket, 42 items", "s s3 bucket items"),
            ("save to /root/doc/report.docx", "save to docx"),
            ("open https://www.github.com/a/b?c now", "open github now"),
            ("mail ann@example.com", "mail"),
            ("read/write", "read write"),
            ("Größe des Cafés", "große des cafes"),
            ("搜索关键词 bing", "搜索 索关 关键 键词 bing"),
            ("键", "键"),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn ascii_names_are_split_like_others() {
        let letters = ["a", "B", "s", "7"];
        for at in 0..4_usize.pow(6) {
            let name: String = (0..6).map(|place| letters[at >> (2 * place) & 3]).collect();
            let end = hump_end(&name, name.chars().next().expect("a letter"));
            assert_eq!(ascii_hump_end(name.as_bytes()), end, "{name}");
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP.is_sorted());
        assert!(is_stop("the") && is_stop("x") && !is_stop("delete"));
    }

    #[test]
    fn a_word_without_a_known_suffix_is_its_own_stem() {
        let stemmer = Stemmer::create(Algorithm::English);
        let others = (b'a'..=b'z').chain(b'0'..=b'9').filter(|byte| !ENDINGS.contains(byte));
        let beginnings = ["retr", "happy", "operat", "national", "willing", "dying", "agree", "yes", "ski"];
        for last in others {
            for beginning in beginnings {
                let word = format!("{beginning}{}", char::from(last));
                assert_eq!(stemmer.stem(&word), word);
            }
        }
        for word in include_str!("table/vocab.txt").lines().filter(|word| word.is_ascii()) {
            let expected = if word.len() > 3 { stemmer.stem(word) } else { Cow::Borrowed(word) };
            let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
            assert!(!is_word || Stems::default().of(word) == expected, "{word}");
        }
    }

    #[test]
    fn names_are_spelled_out_as_words() {
        let cases = [("get_fileInfo", "get file Info"), ("mcp.a-b", "mcp a b"), ("", "")];
        for (name, expected) in cases {
            assert_eq!(spelled_out(name), expected, "{name}");
        }
    }
}
