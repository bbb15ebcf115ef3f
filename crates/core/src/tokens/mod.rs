//! The JSON tokenizer: one state machine for texts that are whole and for texts that come in pieces.
//!
//! It accepts exactly RFC 8259 in valid UTF-8, up to a depth, and gives each token with its place in the text. How the
//! text is cut into pieces changes nothing. Readers that decide something for security (is this key there twice, does
//! this result need shaping) are built on it: `strict` here, `outline` and `long` in the wire crate.

mod block;
mod strict;
#[cfg(test)]
mod tests;
mod utf8;

pub use strict::{StrictError, check_strictly, parse_strictly};

use crate::scan::special;
use block::{BLOCK, skip_blocks};
use std::ops::{ControlFlow, Range};
use utf8::Utf8;

/// The deepest nesting that a tokenizer can follow: one bit for each open object or array.
pub const DEEPEST: usize = 128;

/// The longest spelling of a value that a token carries, quotes included. Keys are always carried.
pub const LONGEST_SPELLED: usize = 64;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the tokens of JSON are the documentation")]
pub enum TokenKind {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Key,
    Text,
    Number,
    True,
    False,
    Null,
}

/// One token and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// How many objects and arrays are open around it.
    pub depth: usize,
    /// Its place in the whole text, quotes included.
    pub range: Range<usize>,
    /// Its text as it is written, quotes included: for every key, and for short values.
    pub spelled: Option<&'a [u8]>,
    /// Whether a backslash stands in it.
    pub escaped: bool,
}

/// Why a text has no more tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not JSON.
    #[error("not valid JSON: {what} at byte {at}")]
    Syntax {
        /// What is wrong.
        what: &'static str,
        /// The place in the whole text.
        at: usize,
    },
    /// The text is not UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// Values nest too deep.
    #[error("values nest deeper than {0}")]
    TooDeep(usize),
    /// The reader of the tokens wants no more of them.
    #[error("the reader stopped")]
    Stopped,
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// A value, or the end of an array that has just opened.
    FirstElement,
    /// A key, or the end of an object that has just opened.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of the innermost object or array.
    Next,
    /// Nothing but space.
    End,
    /// Inside a string.
    Text(TextPart),
    Number(NumberPart),
    /// Inside `true`, `false` or `null`: so many bytes of it were read.
    Word(TokenKind, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextPart {
    Plain,
    /// Behind a backslash.
    Escape,
    /// So many digits of `\u` are still to come.
    Digits(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberPart {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Power,
    PowerSign,
    PowerDigits,
}

impl NumberPart {
    fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::PowerDigits)
    }

    /// The part that this byte leads to; nothing if it does not belong to the number.
    fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::Power,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Power, b'+' | b'-') => Self::PowerSign,
            (Self::Power | Self::PowerSign | Self::PowerDigits, b'0'..=b'9') => Self::PowerDigits,
            _ => return None,
        })
    }
}

/// Reads a text in pieces.
#[derive(Debug)]
pub struct Tokenizer {
    state: State,
    depth: usize,
    max_depth: usize,
    /// One bit for each open value, innermost lowest: set for objects.
    objects: u128,
    utf8: Utf8,
    /// How long the pieces before this one were together.
    base: usize,
    /// The token under way: its place, and whether it is a key and has escapes.
    start: usize,
    is_key: bool,
    escaped: bool,
    /// What earlier pieces had of it, as far as it is carried.
    kept: Vec<u8>,
}

impl Tokenizer {
    /// A tokenizer that refuses values nested deeper than `max_depth`, which is at most [`DEEPEST`].
    pub fn new(max_depth: usize) -> Self {
        Self {
            state: State::Value,
            depth: 0,
            max_depth: max_depth.min(DEEPEST),
            objects: 0,
            utf8: Utf8::default(),
            base: 0,
            start: 0,
            is_key: false,
            escaped: false,
            kept: Vec::new(),
        }
    }

    /// Reads all tokens of a whole text.
    pub fn read_all(
        text: &[u8],
        max_depth: usize,
        mut each: impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        let mut tokenizer = Self::new(max_depth);
        tokenizer.push(text, &mut each)?;
        tokenizer.finish(&mut each)
    }

    /// Reads the next piece. After an error the tokenizer must not be used any more.
    pub fn push(
        &mut self,
        piece: &[u8],
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        if !self.utf8.push(piece) {
            return Err(TokenError::NotUtf8);
        }
        let mut at = 0;
        while at < piece.len() {
            at = match self.state {
                State::Text(part) => self.text(piece, at, part, each)?,
                State::Number(part) => self.number(piece, at, part, each)?,
                State::Word(kind, read) => self.word(piece, at, kind, read, each)?,
                state => self.between(piece, at, state, each)?,
            };
        }
        if matches!(self.state, State::Text(_) | State::Number(_) | State::Word(..)) {
            self.keep(piece);
        }
        self.base += piece.len();
        Ok(())
    }

    /// The text is over: what was read must be one whole value.
    pub fn finish(&mut self, each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>) -> Result<(), TokenError> {
        if let State::Number(part) = self.state
            && part.may_end()
        {
            self.emit(TokenKind::Number, &[], 0, each)?;
        }
        match self.state {
            State::End if self.utf8.is_whole() => Ok(()),
            _ => Err(self.wrong("it ends too early", 0)),
        }
    }

    fn wrong(&self, what: &'static str, at: usize) -> TokenError {
        TokenError::Syntax { what, at: self.base + at }
    }

    /// Keeps the part of a token that stands in this piece, if the token is carried at all.
    fn keep(&mut self, piece: &[u8]) {
        let from = self.start.saturating_sub(self.base);
        let part = piece.get(from..).unwrap_or_default();
        // One byte more than is carried tells a long value from one that just fits.
        let room =
            if self.is_key { usize::MAX } else { (LONGEST_SPELLED + 1).saturating_sub(self.kept.len()) };
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Gives a token that ends before `at` of this piece, and says what may follow it.
    fn emit(
        &mut self,
        kind: TokenKind,
        piece: &[u8],
        at: usize,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        let range = self.start..self.base + at;
        let is_carried = kind == TokenKind::Key || range.len() <= LONGEST_SPELLED;
        let spelled = match self.start.checked_sub(self.base) {
            _ if !is_carried => None,
            Some(from) if self.kept.is_empty() => piece.get(from..at),
            _ => {
                self.kept.extend_from_slice(&piece[..at]);
                Some(&self.kept[..])
            }
        };
        let told = each(Token { kind, depth: self.depth, range, spelled, escaped: self.escaped });
        self.kept.clear();
        self.state = match kind {
            TokenKind::Key => State::Colon,
            _ => self.after_value(),
        };
        if told.is_break() { Err(TokenError::Stopped) } else { Ok(()) }
    }

    fn after_value(&self) -> State {
        if self.depth == 0 { State::End } else { State::Next }
    }

    fn begin(&mut self, state: State, at: usize) {
        self.state = state;
        self.start = self.base + at;
        self.is_key = false;
        self.escaped = false;
    }

    /// Reads what belongs to no string, number or word: one byte, or a run of space; where to go on.
    fn between(
        &mut self,
        piece: &[u8],
        at: usize,
        state: State,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        let byte = piece[at];
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        if is_space(&byte) {
            // Indented texts have long runs of it.
            let rest = &piece[at..];
            return Ok(at + rest.iter().position(|byte| !is_space(byte)).unwrap_or(rest.len()));
        }
        match (state, byte) {
            (State::Colon, b':') => self.state = State::Value,
            (State::Next, b',') => {
                self.state = if self.objects & 1 == 1 { State::Key } else { State::Value };
            }
            (State::Next | State::FirstKey, b'}') if self.objects & 1 == 1 => {
                self.close(TokenKind::ObjectEnd, at, each)?;
            }
            (State::Next | State::FirstElement, b']') if self.objects & 1 == 0 => {
                self.close(TokenKind::ArrayEnd, at, each)?;
            }
            (State::FirstKey | State::Key, b'"') => {
                self.begin(State::Text(TextPart::Plain), at);
                self.is_key = true;
                return self.text(piece, at + 1, TextPart::Plain, each);
            }
            (State::Value | State::FirstElement, byte) => return self.value(piece, at, byte, each),
            (State::End, _) => return Err(self.wrong("something follows the value", at)),
            (State::Colon, _) => return Err(self.wrong("a colon is missing", at)),
            (State::FirstKey | State::Key, _) => return Err(self.wrong("a key is missing", at)),
            _ => return Err(self.wrong("a comma or an end is missing", at)),
        }
        Ok(at + 1)
    }

    fn value(
        &mut self,
        piece: &[u8],
        at: usize,
        byte: u8,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        match byte {
            b'"' => {
                self.begin(State::Text(TextPart::Plain), at);
                return self.text(piece, at + 1, TextPart::Plain, each);
            }
            b'{' => self.open(TokenKind::ObjectStart, at, each)?,
            b'[' => self.open(TokenKind::ArrayStart, at, each)?,
            b't' => self.begin(State::Word(TokenKind::True, 1), at),
            b'f' => self.begin(State::Word(TokenKind::False, 1), at),
            b'n' => self.begin(State::Word(TokenKind::Null, 1), at),
            b'-' => self.begin(State::Number(NumberPart::Minus), at),
            b'0' => self.begin(State::Number(NumberPart::Zero), at),
            b'1'..=b'9' => self.begin(State::Number(NumberPart::Whole), at),
            _ => return Err(self.wrong("a value is missing", at)),
        }
        Ok(at + 1)
    }

    fn open(
        &mut self,
        kind: TokenKind,
        at: usize,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        if self.depth >= self.max_depth {
            return Err(TokenError::TooDeep(self.max_depth));
        }
        self.tell(kind, at, each)?;
        self.depth += 1;
        let is_object = kind == TokenKind::ObjectStart;
        self.objects = (self.objects << 1) | u128::from(is_object);
        self.state = if is_object { State::FirstKey } else { State::FirstElement };
        Ok(())
    }

    fn close(
        &mut self,
        kind: TokenKind,
        at: usize,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        self.depth -= 1;
        self.objects >>= 1;
        self.state = self.after_value();
        self.tell(kind, at, each)
    }

    /// Gives a token of one byte.
    fn tell(
        &mut self,
        kind: TokenKind,
        at: usize,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        let at = self.base + at;
        let token = Token { kind, depth: self.depth, range: at..at + 1, spelled: None, escaped: false };
        if each(token).is_break() { Err(TokenError::Stopped) } else { Ok(()) }
    }

    /// Reads on in a string; where to go on.
    fn text(
        &mut self,
        piece: &[u8],
        mut at: usize,
        mut part: TextPart,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        // Short strings are read without blocks; so is the rest of a block that is not ordinary.
        let mut no_blocks_before = (self.start + BLOCK).saturating_sub(self.base);
        loop {
            if part == TextPart::Plain {
                if at >= no_blocks_before {
                    let skipped = skip_blocks(&piece[at..]);
                    self.escaped |= memchr::memchr(b'\\', &piece[at..at + skipped]).is_some();
                    at += skipped;
                    no_blocks_before = at + BLOCK;
                }
                at += special(&piece[at..]).unwrap_or(piece.len() - at);
            }
            let Some(byte) = piece.get(at) else { break };
            part = match (part, byte) {
                (TextPart::Plain, b'"') => {
                    let kind = if self.is_key { TokenKind::Key } else { TokenKind::Text };
                    self.emit(kind, piece, at + 1, each)?;
                    return Ok(at + 1);
                }
                (TextPart::Plain, b'\\') => {
                    self.escaped = true;
                    TextPart::Escape
                }
                (TextPart::Plain, _) => return Err(self.wrong("a control character in a string", at)),
                (TextPart::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => TextPart::Plain,
                (TextPart::Escape, b'u') => TextPart::Digits(4),
                (TextPart::Escape, _) => return Err(self.wrong("an unknown escape", at)),
                (TextPart::Digits(1), digit) if digit.is_ascii_hexdigit() => TextPart::Plain,
                (TextPart::Digits(left), digit) if digit.is_ascii_hexdigit() => TextPart::Digits(left - 1),
                (TextPart::Digits(_), _) => return Err(self.wrong("an escape without four digits", at)),
            };
            at += 1;
        }
        self.state = State::Text(part);
        Ok(at)
    }

    fn number(
        &mut self,
        piece: &[u8],
        mut at: usize,
        mut part: NumberPart,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        while let Some(byte) = piece.get(at) {
            match part.after(*byte) {
                Some(next) => part = next,
                None if part.may_end() => {
                    self.emit(TokenKind::Number, piece, at, each)?;
                    return Ok(at);
                }
                None => return Err(self.wrong("a malformed number", at)),
            }
            at += 1;
        }
        self.state = State::Number(part);
        Ok(at)
    }

    fn word(
        &mut self,
        piece: &[u8],
        mut at: usize,
        kind: TokenKind,
        mut read: u8,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        let word: &[u8] = match kind {
            TokenKind::True => b"true",
            TokenKind::False => b"false",
            _ => b"null",
        };
        while let Some(byte) = piece.get(at) {
            if word.get(usize::from(read)) != Some(byte) {
                return Err(self.wrong("an unknown word", at));
            }
            (at, read) = (at + 1, read + 1);
            if usize::from(read) == word.len() {
                self.emit(kind, piece, at, each)?;
                return Ok(at);
            }
        }
        self.state = State::Word(kind, read);
        Ok(at)
    }
}
