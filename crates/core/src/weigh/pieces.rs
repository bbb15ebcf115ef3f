//! Cuts text into the pieces within which bytes are merged, as the pattern of o200k_base does:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! The first alternative that fits counts. By hand, because a general engine tries and takes back; here each
//! character is looked at a few times at most, whatever the text.

use unicode_general_category::{GeneralCategory, get_general_category};

/// What the pattern tells characters apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Only where a word begins: upper and title case.
    Upper,
    /// Only where a word goes on: lower case.
    Lower,
    /// Either: letters without case.
    Letter,
    /// Either, and before a word, too: marks are no letters.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\r` and `\n`.
    Newline,
    /// White space on a line.
    Space,
    /// All the rest.
    Other,
}

impl Class {
    /// The class of a character.
    pub(super) fn of(character: char) -> Self {
        use GeneralCategory as C;
        match character {
            'a'..='z' => return Self::Lower,
            'A'..='Z' => return Self::Upper,
            '0'..='9' => return Self::Number,
            '\r' | '\n' => return Self::Newline,
            space if space.is_whitespace() => return Self::Space,
            '\0'..='\x7f' => return Self::Other,
            _ => {}
        }
        match get_general_category(character) {
            C::UppercaseLetter | C::TitlecaseLetter => Self::Upper,
            C::LowercaseLetter => Self::Lower,
            C::ModifierLetter | C::OtherLetter => Self::Letter,
            C::NonspacingMark | C::SpacingMark | C::EnclosingMark => Self::Mark,
            C::DecimalNumber | C::LetterNumber | C::OtherNumber => Self::Number,
            _ => Self::Other,
        }
    }

    /// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
    fn opens(self) -> bool {
        matches!(self, Self::Upper | Self::Letter | Self::Mark)
    }

    /// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
    fn goes_on(self) -> bool {
        matches!(self, Self::Lower | Self::Letter | Self::Mark)
    }

    /// `[^\r\n\p{L}\p{N}]`
    fn leads(self) -> bool {
        matches!(self, Self::Mark | Self::Space | Self::Other)
    }

    /// `[^\s\p{L}\p{N}]`
    fn is_sign(self) -> bool {
        matches!(self, Self::Mark | Self::Other)
    }

    /// `\s`
    fn is_space(self) -> bool {
        matches!(self, Self::Newline | Self::Space)
    }
}

/// The pieces of a text, in order; together they are the text.
#[derive(Debug, Clone)]
pub(super) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    /// Of this text.
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = end_of_piece(self.rest)?;
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

/// Where the first piece of a text ends.
fn end_of_piece(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let class = Class::of(first);
    let width = first.len_utf8();
    let after_lead = class.leads().then_some(width);
    let word = after_lead.and_then(|start| end_of_word(text, start)).or_else(|| end_of_word(text, 0));
    // In capitals only: there is nothing a word could go on with, or the first alternative had fitted.
    let capitals = || {
        let start = after_lead.unwrap_or(0);
        Some(run(text, start, Class::opens)).filter(|end| *end > start)
    };
    if let Some(end) = word.or_else(capitals) {
        return Some(end + contraction(&text[end..]));
    }
    if class == Class::Number {
        let digits = text.char_indices().take(3).take_while(|(_, digit)| Class::of(*digit) == Class::Number);
        return digits.last().map(|(at, digit)| at + digit.len_utf8());
    }
    let signs = usize::from(first == ' ');
    let end = run(text, signs, Class::is_sign);
    if end > signs {
        let more = text.as_bytes()[end..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/'));
        return Some(end + more.count());
    }
    Some(end_of_space(text))
}

/// The end of a word by the first alternative, from behind what leads it.
fn end_of_word(text: &str, start: usize) -> Option<usize> {
    let mut at = start;
    // Behind the last character of the opening run that could also be where the word goes on.
    let mut turn = None;
    for character in text[start..].chars() {
        let class = Class::of(character);
        if !class.opens() {
            if class == Class::Lower {
                return Some(run(text, at, Class::goes_on));
            }
            break;
        }
        at += character.len_utf8();
        if class.goes_on() {
            turn = Some(at);
        }
    }
    turn
}

/// The length of a contraction's end, if the text begins with one.
fn contraction(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut characters = rest.chars();
    let Some(first) = characters.next() else { return 0 };
    match (first.to_ascii_lowercase(), characters.next().map(|second| second.to_ascii_lowercase())) {
        ('s' | 't' | 'm' | 'd', _) => 2,
        // Without regard to case, this is an s.
        ('ſ', _) => 3,
        ('r' | 'v', Some('e')) | ('l', Some('l')) => 3,
        _ => 0,
    }
}

/// The end of a piece of white space.
fn end_of_space(text: &str) -> usize {
    let end = run(text, 0, Class::is_space);
    let space = &text[..end];
    if let Some(newline) = space.rfind(['\r', '\n']) {
        return newline + 1;
    }
    if end == text.len() {
        return end;
    }
    // The last one belongs to what follows, unless it is the only one.
    space.char_indices().next_back().map_or(end, |(at, _)| if at > 0 { at } else { end })
}

/// Where a run of characters ends that begins at `start`.
fn run(text: &str, start: usize, belongs: impl Fn(Class) -> bool) -> usize {
    let rest = &text[start..];
    rest.find(|character| !belongs(Class::of(character))).map_or(text.len(), |length| start + length)
}
