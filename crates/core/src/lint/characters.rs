//! Characters that people do not see but a model reads: hidden, bidirectional and control characters.
//!
//! Some of them are needed in writing: joiners inside emoji and between letters of some scripts, a variation selector
//! after a sign that has variants, and direction marks next to right-to-left letters. There they are not suspicious;
//! anywhere else, and in sequences, they are.

use crate::json::{JsonCursor, JsonKind};
use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;

crate::words::words! {
    /// The kinds of suspicious characters.
    pub enum HiddenKind("kind of character") {
        /// It controls a terminal or a printer.
        Control = "control",
        /// It changes the direction in which text is read.
        Bidirectional = "bidirectional",
        /// It has no width.
        ZeroWidth = "zero-width",
        /// It is an invisible tag letter.
        Tag = "tag",
        /// It selects a variant of a sign that has none.
        VariationSelector = "variation selector",
    }
}

/// A suspicious character in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenCharacter {
    /// The character.
    pub character: char,
    /// Its kind.
    pub kind: HiddenKind,
    /// The position as a JSON pointer, with hidden characters escaped.
    pub pointer: String,
    /// The number of suspicious characters in the definition.
    pub count: usize,
}

impl fmt::Display for HiddenCharacter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, kind, pointer, count } = self;
        write!(f, "hidden characters: U+{:04X} ({kind}) in `{pointer}`", u32::from(*character))?;
        match count {
            1 => Ok(()),
            more => write!(f, ", and {} more", more - 1),
        }
    }
}

/// Finds the first suspicious character in all texts and keys of a definition.
pub fn find_hidden(definition: &str) -> Option<HiddenCharacter> {
    if is_plain(definition.as_bytes()) {
        return None;
    }
    let mut scan = CharacterScan { path: Vec::new(), found: None };
    scan.value(&mut JsonCursor::new(definition, 0));
    scan.found
}

/// The first suspicious character of a text, and the number of all.
pub fn suspicious(text: &str) -> Option<(char, HiddenKind, usize)> {
    if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        return None;
    }
    let characters: Vec<char> = text.chars().collect();
    let mut found: Option<(char, HiddenKind, usize)> = None;
    let mut at = 0;
    while at < characters.len() {
        if let Some(length) = subdivision_flag(&characters[at..]) {
            at += length;
            continue;
        }
        if let Some(kind) = kind_in_context(&characters, at) {
            let (_, _, count) = found.get_or_insert((characters[at], kind, 0));
            *count += 1;
        }
        at += 1;
    }
    found
}

/// A text with its hidden characters escaped, so that a person sees what a model reads.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| !matches!(c, '\t' | '\n') && kind_of(c).is_some();
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    for c in text.chars() {
        match hidden(c) {
            true => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A text that is safe to display to a person: characters that control, reorder or hide text are escaped. Characters
/// that writing needs stay, such as joiners inside emoji and those of Persian and Hindi.
pub fn revealed(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 32);
    let mut at = 0;
    while at < characters.len() {
        if let Some(length) = subdivision_flag(&characters[at..]) {
            out.extend(&characters[at..at + length]);
            at += length;
            continue;
        }
        let c = characters[at];
        // Direction marks are always escaped: a terminal may apply them to other text.
        let moves = matches!(kind_of(c), Some(HiddenKind::Control | HiddenKind::Bidirectional)) || c == '\r';
        match moves || kind_in_context(&characters, at).is_some() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        at += 1;
    }
    Cow::Owned(out)
}

/// Whether JSON text cannot have such characters: ASCII, without escapes that encode others.
fn is_plain(text: &[u8]) -> bool {
    text.is_ascii()
        && memchr::memchr(0x7f, text).is_none()
        && memchr::memchr_iter(b'\\', text)
            .all(|at| !matches!(text.get(at + 1).copied(), Some(b'u' | b'b' | b'f')))
}

struct CharacterScan<'a> {
    path: Vec<Cow<'a, str>>,
    found: Option<HiddenCharacter>,
}

impl<'a> CharacterScan<'a> {
    /// Maximum depth that is read; admission refuses deeper definitions.
    const DEEPEST: usize = 128;

    fn value(&mut self, cursor: &mut JsonCursor<'a>) {
        match cursor.kind() {
            JsonKind::Text => {
                let text = cursor.text();
                self.text(&text);
            }
            JsonKind::Object | JsonKind::Array if self.path.len() >= Self::DEEPEST => drop(cursor.skip()),
            JsonKind::Object => {
                let Ok(()): Result<(), Infallible> = cursor.members(|cursor, key| {
                    self.path.push(key.clone());
                    self.text(&key);
                    self.value(cursor);
                    self.path.pop();
                    Ok(())
                });
            }
            JsonKind::Array => {
                let mut index = 0_usize;
                let Ok(()): Result<(), Infallible> = cursor.elements(|cursor| {
                    self.path.push(Cow::Owned(index.to_string()));
                    index += 1;
                    self.value(cursor);
                    self.path.pop();
                    Ok(())
                });
            }
            JsonKind::Number | JsonKind::Boolean | JsonKind::Null => drop(cursor.skip()),
        }
    }

    fn text(&mut self, text: &str) {
        let Some((character, kind, count)) = suspicious(text) else { return };
        match &mut self.found {
            Some(found) => found.count += count,
            None => {
                self.found = Some(HiddenCharacter { character, kind, pointer: pointer(&self.path), count })
            }
        }
    }
}

/// A path as a JSON pointer that is safe to display; a long one is cut.
pub(super) fn pointer<S: AsRef<str>>(path: &[S]) -> String {
    const MOST: usize = 300;
    let mut pointer = String::new();
    for step in path {
        pointer.push('/');
        pointer.push_str(&visible(&step.as_ref().replace('~', "~0").replace('/', "~1")));
    }
    match pointer.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &pointer[..cut]),
        None => pointer,
    }
}

/// The kind of a character, regardless of its neighbours.
fn kind_of(c: char) -> Option<HiddenKind> {
    Some(match u32::from(c) {
        0x09 | 0x0a | 0x0d => return None,
        0x00..=0x1f | 0x7f..=0x9f | 0x2028 | 0x2029 | 0xfff9..=0xfffb => HiddenKind::Control,
        0x061c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069 => HiddenKind::Bidirectional,
        0xfe00..=0xfe0f | 0x180b..=0x180d | 0x180f | 0xe0100..=0xe01ef => HiddenKind::VariationSelector,
        0xe0000..=0xe0fff => HiddenKind::Tag,
        0x00ad | 0x034f | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180e => HiddenKind::ZeroWidth,
        0x200b..=0x200d | 0x2060..=0x2065 | 0x206a..=0x206f => HiddenKind::ZeroWidth,
        0x3164 | 0xfeff | 0xffa0 | 0xfff0..=0xfff8 | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a => {
            HiddenKind::ZeroWidth
        }
        _ => return None,
    })
}

/// The kind of a character that is suspicious between its neighbours.
fn kind_in_context(text: &[char], at: usize) -> Option<HiddenKind> {
    let c = text[at];
    let kind = kind_of(c)?;
    let before = at.checked_sub(1).map(|at| text[at]);
    let after = text.get(at + 1).copied();
    let is_legitimate = match c {
        // Composed emoji: people, professions, flags.
        '\u{200d}' if before.is_some_and(ends_emoji) && after.is_some_and(is_pictograph) => true,
        '\u{200c}' | '\u{200d}' => before.is_some_and(joins) && after.is_some_and(joins),
        // Shown as text or as an emoji; keycaps as well.
        '\u{fe0e}' | '\u{fe0f}' => {
            before.is_some_and(|c| is_pictograph(c) || matches!(c, '0'..='9' | '#' | '*'))
        }
        '\u{fe00}'..='\u{fe0d}' => before.is_some_and(|c| is_ideograph(c) || is_mathematical(c)),
        '\u{e0100}'..='\u{e01ef}' => before.is_some_and(is_ideograph),
        '\u{180b}'..='\u{180f}' => before.is_some_and(|c| ('\u{1820}'..='\u{18aa}').contains(&c)),
        // Direction marks correct punctuation between words of both directions.
        '\u{061c}' | '\u{200e}' | '\u{200f}' => {
            let hidden = |c: Option<char>| c.is_some_and(|c| kind_of(c).is_some());
            !hidden(before) && !hidden(after) && near(text, at).any(is_right_to_left)
        }
        _ => false,
    };
    (!is_legitimate).then_some(kind)
}

/// The characters near a mark: a word or two on both sides.
fn near(text: &[char], at: usize) -> impl Iterator<Item = char> {
    const WORDS: usize = 24;
    text[at.saturating_sub(WORDS)..(at + WORDS).min(text.len())].iter().copied()
}

/// The length of the flag of England, Scotland or Wales, which are the only valid uses of tags.
fn subdivision_flag(text: &[char]) -> Option<usize> {
    if text.first() != Some(&'\u{1f3f4}') {
        return None;
    }
    let spelled: Option<String> = text.get(1..7)?.iter().map(|c| untagged(*c)).collect();
    matches!(spelled?.as_str(), "gbeng\u{7f}" | "gbsct\u{7f}" | "gbwls\u{7f}").then_some(7)
}

fn untagged(c: char) -> Option<char> {
    char::from_u32(u32::from(c).checked_sub(0xe0000)?).filter(char::is_ascii)
}

fn is_pictograph(c: char) -> bool {
    matches!(u32::from(c),
        0xa9 | 0xae | 0x203c | 0x2049 | 0x20e3 | 0x2122 | 0x2139 | 0x3030 | 0x303d | 0x3297 | 0x3299
        | 0x2190..=0x21ff | 0x2300..=0x23ff | 0x24c2 | 0x25a0..=0x27bf | 0x2900..=0x297f | 0x2b00..=0x2bff
        | 0x1f000..=0x1faff)
}

/// Characters that a joiner may follow in an emoji: a picture, a skin tone or the emoji selector.
fn ends_emoji(c: char) -> bool {
    is_pictograph(c) || c == '\u{fe0f}'
}

/// Letters of scripts in which joiners are part of spelling.
fn joins(c: char) -> bool {
    matches!(u32::from(c),
        0x0600..=0x08ff | 0x0900..=0x0dff | 0x0f00..=0x109f | 0x1780..=0x18af | 0x1a20..=0x1aaf
        | 0x1b00..=0x1c4f | 0xa840..=0xa8ff | 0xa980..=0xabff | 0xfb50..=0xfdff | 0xfe70..=0xfefc
        | 0x10a00..=0x10eff | 0x11000..=0x11fff)
}

fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x05d0..=0x08ff | 0xfb1d..=0xfdff | 0xfe70..=0xfefc | 0x10800..=0x10fff | 0x1e800..=0x1efff)
        && c.is_alphabetic()
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn is_mathematical(c: char) -> bool {
    matches!(u32::from(c), 0x2200..=0x22ff | 0x2a00..=0x2aff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_found_and_ordinary_writing_is_not() {
        use HiddenKind::{Bidirectional, Control, Tag, VariationSelector, ZeroWidth};
        let cases = [
            ("Reads a file.\n\tReturns its text.\r\n", None),
            ("Größe, naïve, 東京, Ελληνικά, עברית, العربية", None),
            ("می\u{200c}خواهم, क्\u{200d}ष", None), // joiners of Persian and Hindi
            ("שלום (C++)\u{200f} עולם", None),
            ("⚠\u{fe0f} careful, 1\u{fe0f}\u{20e3} first, ❤\u{fe0e}", None),
            ("👩\u{200d}💻 👩🏽\u{200d}🚒 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈", None),
            ("🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} Scotland", None),
            ("葛\u{e0100}飾区 ∩\u{fe00}", None),
            ("plain\u{200b}text", Some(ZeroWidth)),
            ("plain\u{200d}text", Some(ZeroWidth)),
            ("می\u{200c}\u{200c}خ", Some(ZeroWidth)), // a sequence is suspicious
            ("a\u{2063}b", Some(ZeroWidth)),
            ("\u{feff}start", Some(ZeroWidth)),
            ("soft\u{ad}hyphen", Some(ZeroWidth)),
            ("filler\u{3164}", Some(ZeroWidth)),
            ("safe\u{202e}exe.txt", Some(Bidirectional)),
            ("\u{2066}isolated\u{2069}", Some(Bidirectional)),
            ("left to right\u{200f} only", Some(Bidirectional)),
            ("א\u{200e}\u{200f}\u{200e}", Some(Bidirectional)),
            ("hi\u{e0069}\u{e0067}\u{e006e}", Some(Tag)),
            ("🏴\u{e0075}\u{e0073}\u{e0074}\u{e0078}\u{e0078}\u{e007f}", Some(Tag)),
            ("😀\u{fe01}\u{fe02}", Some(VariationSelector)),
            ("😀\u{e0110}\u{e0120}", Some(VariationSelector)),
            ("a\u{fe0f}", Some(VariationSelector)),
            ("⚠\u{fe0f}\u{fe0f}", Some(VariationSelector)),
            ("葛\u{e0100}\u{e0101}", Some(VariationSelector)),
            ("esc\u{1b}[31m", Some(Control)),
            ("nul\u{0}", Some(Control)),
            ("del\u{7f}", Some(Control)),
            ("c1\u{9b}", Some(Control)),
            ("line\u{2028}separator", Some(Control)),
        ];
        for (text, expected) in cases {
            assert_eq!(suspicious(text).map(|(_, kind, _)| kind), expected, "{}", visible(text));
        }
    }

    #[test]
    fn every_text_of_a_definition_is_checked_in_any_spelling() {
        let cases = [
            (r#"{"name":"a","description":"b\nc\t\"d\"","inputSchema":{"x":1}}"#, None),
            (r#"{"description":"caf\u00e9 \ud83d\ude00"}"#, None),
            (r#"{"description":"a\u202eb"}"#, Some("/description")),
            (r#"{"description":"a\bb"}"#, Some("/description")),
            (r#"{"description":"\udb40\udc41"}"#, Some("/description")),
            (
                r#"{"inputSchema":{"properties":{"p~/":{"enum":["x",["\u200b"]]}}}}"#,
                Some("/inputSchema/properties/p~0~1/enum/1/0"),
            ),
            (
                r#"{"inputSchema":{"properties":{"p\u2060q":{}}}}"#,
                Some("/inputSchema/properties/p\\u{2060}q"),
            ),
        ];
        for (definition, expected) in cases {
            let found = find_hidden(definition);
            assert_eq!(found.as_ref().map(|found| found.pointer.as_str()), expected, "{definition}");
        }
        let found =
            find_hidden("{\"name\":\"a\u{200b}\",\"description\":\"\u{200b}\u{200b}\"}").expect("three");
        assert_eq!(found.to_string(), "hidden characters: U+200B (zero-width) in `/name`, and 2 more");
    }

    #[test]
    fn displayed_text_hides_nothing_and_keeps_ordinary_writing() {
        let cases = [
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("over\rwritten", "over\\rwritten"),
            ("del\u{200c}ete", "del\\u{200c}ete"),
            ("del\u{ad}ete \u{3164}", "del\\u{ad}ete \\u{3164}"),
            ("pay\u{202e}100", "pay\\u{202e}100"),
            ("שלום (C++)\u{200f} עולם", "שלום (C++)\\u{200f} עולם"),
            ("می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}", "می\u{200c}خواهم 👩\u{200d}💻 ⚠\u{fe0f}"),
            ("a\u{fe0f}b\u{e0041}", "a\\u{fe0f}b\\u{e0041}"),
        ];
        for (text, expected) in cases {
            assert_eq!(revealed(text), expected, "{}", visible(text));
        }
    }

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(visible("a\nb\u{202e}c\u{e0041}"), "a\nb\\u{202e}c\\u{e0041}");
        assert_eq!(visible("caf\u{e9}"), "caf\u{e9}");
    }
}
