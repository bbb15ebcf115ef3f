//! Cuts text into the pieces within which bytes are merged, like the pattern of o200k_base:
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
//! The first alternative that matches wins. Written by hand because a general regex engine backtracks; here each
//! character is read a few times at most, whatever the text.

use unicode_general_category::{GeneralCategory, get_general_category};

/// The classes of characters that the pattern distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Only at the beginning of a word: upper and title case.
    Upper,
    /// Only in the rest of a word: lower case.
    Lower,
    /// Anywhere in a word: letters without case.
    Letter,
    /// Anywhere in a word and before it: marks are not letters.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\r` and `\n`.
    Newline,
    /// Other white space.
    Space,
    /// All other characters.
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
    fn continues(self) -> bool {
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

/// The pieces of a text, in order; joined they are the text.
#[derive(Debug, Clone)]
pub(super) struct TextPieces<'a> {
    rest: &'a str,
}

impl<'a> TextPieces<'a> {
    /// The pieces of this text.
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for TextPieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let end = end_of_piece(self.rest)?;
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

/// The end of the first piece of a text.
fn end_of_piece(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    let class = Class::of(first);
    let width = first.len_utf8();
    let after_lead = class.leads().then_some(width);
    let word = after_lead.and_then(|start| end_of_word(text, start)).or_else(|| end_of_word(text, 0));
    // Capitals only: a lower-case letter after them would have matched the first alternative.
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

/// The end of a word by the first alternative; `start` is after the leading character.
fn end_of_word(text: &str, start: usize) -> Option<usize> {
    let mut at = start;
    // The end of the last character of the opening run that may also continue a word.
    let mut turn = None;
    for character in text[start..].chars() {
        let class = Class::of(character);
        if !class.opens() {
            if class == Class::Lower {
                return Some(run(text, at, Class::continues));
            }
            break;
        }
        at += character.len_utf8();
        if class.continues() {
            turn = Some(at);
        }
    }
    turn
}

/// The length of the contraction that the text begins with, or 0.
fn contraction(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('\'') else { return 0 };
    let mut characters = rest.chars();
    let Some(first) = characters.next() else { return 0 };
    match (first.to_ascii_lowercase(), characters.next().map(|second| second.to_ascii_lowercase())) {
        ('s' | 't' | 'm' | 'd', _) => 2,
        // Ignoring case, this is an s.
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
    // The last character belongs to the next piece, unless it is the only one.
    space.char_indices().next_back().map_or(end, |(at, _)| if at > 0 { at } else { end })
}

/// The end of the run of characters that begins at `start`.
fn run(text: &str, start: usize, belongs: impl Fn(Class) -> bool) -> usize {
    let rest = &text[start..];
    rest.find(|character| !belongs(Class::of(character))).map_or(text.len(), |length| start + length)
}
