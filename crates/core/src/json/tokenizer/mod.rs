//! The JSON tokenizer: one state machine for complete texts and for texts that arrive in pieces.
//!
//! It accepts exactly RFC 8259 in valid UTF-8, up to a depth, and returns each token with its position in the text. The
//! result does not depend on how the text is cut into pieces. [`JsonDialect::Commented`] also accepts comments and
//! trailing commas, for configuration files.
//!
//! `skip` is the shortcut for text that the tokenizer, or serde_json, has already accepted: it finds the end of a value
//! without checking the value again.

mod block;
mod fault;
mod find;
mod skip;
mod state;
#[cfg(test)]
mod tests;
mod utf8;

pub use fault::{SyntaxFault, TokenError};
pub(super) use find::special;
pub(super) use skip::{is_space, plain_string_end, value_end};

use block::{BLOCK, skip_blocks};
use state::{CommentPart, NumberPart, TextPart, TokenizerState};
use std::ops::{ControlFlow, Range};
use utf8::Utf8Check;

/// The depth limit for text whose depth does not matter, because its reader does not recurse.
pub const ANY_DEPTH: usize = usize::MAX;

/// Maximum length of the spelling of a value that a token carries, quotes included. Keys are always carried.
pub const LONGEST_SPELLED: usize = 64;

/// The kind of a token.
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

/// One token and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// The kind.
    pub kind: TokenKind,
    /// The number of objects and arrays that enclose it.
    pub depth: usize,
    /// Its range in the whole text, quotes included.
    pub range: Range<usize>,
    /// Its text as written, quotes included: for every key, and for short values.
    pub spelled: Option<&'a [u8]>,
    /// Whether it has a backslash.
    pub escaped: bool,
}

/// What a text may contain besides JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JsonDialect {
    /// Nothing: RFC 8259.
    #[default]
    Plain,
    /// Comments (`// …` and `/* … */`) between tokens, and a comma after the last entry of an object or array.
    Commented,
}

/// Number of open values whose kind fits into one word.
const WORD_BITS: usize = u128::BITS as usize;

/// Splits a text that arrives in pieces into tokens.
#[derive(Debug)]
pub struct Tokenizer {
    state: TokenizerState,
    dialect: JsonDialect,
    /// The state before the current comment.
    before_comment: TokenizerState,
    depth: usize,
    max_depth: usize,
    /// One bit for each open value, innermost lowest: set for objects.
    objects: u128,
    /// The bits of outer values, in full words, if more are open than one word has bits.
    outer_objects: Vec<u128>,
    utf8: Utf8Check,
    /// The length of all earlier pieces.
    base: usize,
    /// The current token: its start, and whether it is a key and has escapes.
    start: usize,
    is_key: bool,
    escaped: bool,
    /// The bytes of the current token in earlier pieces, as far as they are carried.
    kept: Vec<u8>,
}

impl Tokenizer {
    /// A tokenizer for plain JSON that refuses values nested deeper than `max_depth`.
    pub fn new(max_depth: usize) -> Self {
        Self::in_dialect(JsonDialect::Plain, max_depth)
    }

    /// A tokenizer for a dialect that refuses values nested deeper than `max_depth`.
    pub fn in_dialect(dialect: JsonDialect, max_depth: usize) -> Self {
        Self {
            state: TokenizerState::Value,
            dialect,
            before_comment: TokenizerState::Value,
            depth: 0,
            max_depth,
            objects: 0,
            outer_objects: Vec::new(),
            utf8: Utf8Check::default(),
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

    /// Reads the next piece. The tokenizer must not be used after an error.
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
                TokenizerState::Text(part) => self.text(piece, at, part, each)?,
                TokenizerState::Number(part) => self.number(piece, at, part, each)?,
                TokenizerState::Word(kind, read) => self.word(piece, at, kind, read, each)?,
                TokenizerState::Comment(part) => self.comment(piece, at, part)?,
                state => self.between(piece, at, state, each)?,
            };
        }
        if self.state.is_in_token() {
            self.keep(piece);
        }
        self.base += piece.len();
        Ok(())
    }

    /// Ends the text, which must be one complete value.
    pub fn finish(&mut self, each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>) -> Result<(), TokenError> {
        if let TokenizerState::Number(part) = self.state
            && part.may_end()
        {
            self.emit(TokenKind::Number, &[], 0, each)?;
        }
        if self.state == TokenizerState::Comment(CommentPart::Line) {
            self.state = self.before_comment;
        }
        match self.state {
            TokenizerState::End if self.utf8.is_whole() => Ok(()),
            TokenizerState::Comment(CommentPart::Slash) => Err(self.wrong_slash()),
            TokenizerState::Comment(_) => Err(self.wrong_in_token(SyntaxFault::CommentNotClosed, 0)),
            TokenizerState::Value => Err(self.wrong(SyntaxFault::EndBeforeValue, 0)),
            state if state.is_in_token() => Err(self.wrong_in_token(SyntaxFault::End, 0)),
            _ => Err(self.wrong(SyntaxFault::End, 0)),
        }
    }

    /// A fault between tokens.
    fn wrong(&self, fault: SyntaxFault, at: usize) -> TokenError {
        TokenError::Syntax { fault, from: self.base + at, at: self.base + at }
    }

    /// A fault inside of a token or comment.
    fn wrong_in_token(&self, fault: SyntaxFault, at: usize) -> TokenError {
        TokenError::Syntax { fault, from: self.start, at: self.base + at }
    }

    /// The fault of a slash that does not begin a comment.
    fn wrong_slash(&self) -> TokenError {
        TokenError::Syntax { fault: self.before_comment.fault(), from: self.start, at: self.start }
    }

    /// Takes a byte that may not follow, unless it begins a comment; returns the next position.
    fn unexpected(&mut self, at: usize, byte: u8) -> Result<usize, TokenError> {
        if byte != b'/' || self.dialect != JsonDialect::Commented {
            return Err(self.wrong(self.state.fault(), at));
        }
        self.before_comment = self.state;
        self.begin(TokenizerState::Comment(CommentPart::Slash), at);
        Ok(at + 1)
    }

    /// Continues in a comment; returns the next position.
    fn comment(&mut self, piece: &[u8], at: usize, part: CommentPart) -> Result<usize, TokenError> {
        let rest = &piece[at..];
        let (part, read) = match (part, rest[0]) {
            (CommentPart::Slash, b'/') => (Some(CommentPart::Line), 1),
            (CommentPart::Slash, b'*') => (Some(CommentPart::Block), 1),
            (CommentPart::Slash, _) => return Err(self.wrong_slash()),
            (CommentPart::Line, _) => match memchr::memchr(b'\n', rest) {
                Some(end) => (None, end),
                None => (Some(CommentPart::Line), rest.len()),
            },
            (CommentPart::Asterisk, b'/') => (None, 1),
            (CommentPart::Asterisk, b'*') => (Some(CommentPart::Asterisk), 1),
            (CommentPart::Block | CommentPart::Asterisk, _) => match memchr::memchr(b'*', rest) {
                Some(found) => (Some(CommentPart::Asterisk), found + 1),
                None => (Some(CommentPart::Block), rest.len()),
            },
        };
        self.state = part.map_or(self.before_comment, TokenizerState::Comment);
        Ok(at + read)
    }

    /// Keeps the part of a token in this piece, if the token is carried at all.
    fn keep(&mut self, piece: &[u8]) {
        let from = self.start.saturating_sub(self.base);
        let part = piece.get(from..).unwrap_or_default();
        // One byte more than is carried distinguishes a long value from one that just fits.
        let room =
            if self.is_key { usize::MAX } else { (LONGEST_SPELLED + 1).saturating_sub(self.kept.len()) };
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Emits a token that ends before `at` of this piece, and sets the next state.
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
        let flow = each(Token { kind, depth: self.depth, range, spelled, escaped: self.escaped });
        self.kept.clear();
        self.state = match kind {
            TokenKind::Key => TokenizerState::Colon,
            _ => self.after_value(),
        };
        if flow.is_break() { Err(TokenError::Stopped) } else { Ok(()) }
    }

    fn after_value(&self) -> TokenizerState {
        if self.depth == 0 { TokenizerState::End } else { TokenizerState::Next }
    }

    fn begin(&mut self, state: TokenizerState, at: usize) {
        self.state = state;
        self.start = self.base + at;
        self.is_key = false;
        self.escaped = false;
    }

    /// Reads a byte outside of strings, numbers and literals, or a run of white space; returns the next position.
    fn between(
        &mut self,
        piece: &[u8],
        at: usize,
        state: TokenizerState,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        let byte = piece[at];
        if is_space(byte) {
            // Indented texts have long runs of white space.
            let rest = &piece[at..];
            return Ok(at + rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len()));
        }
        match (state, byte) {
            (TokenizerState::Colon, b':') => self.state = TokenizerState::Value,
            (TokenizerState::Next, b',') => {
                self.state = match (self.objects & 1 == 1, self.dialect) {
                    (true, JsonDialect::Plain) => TokenizerState::Key,
                    (false, JsonDialect::Plain) => TokenizerState::Value,
                    // The end may follow, as after the opening bracket.
                    (true, JsonDialect::Commented) => TokenizerState::FirstKey,
                    (false, JsonDialect::Commented) => TokenizerState::FirstElement,
                };
            }
            (TokenizerState::Next | TokenizerState::FirstKey, b'}') if self.objects & 1 == 1 => {
                self.close(TokenKind::ObjectEnd, at, each)?;
            }
            (TokenizerState::Next | TokenizerState::FirstElement, b']') if self.objects & 1 == 0 => {
                self.close(TokenKind::ArrayEnd, at, each)?;
            }
            (TokenizerState::FirstKey | TokenizerState::Key, b'"') => {
                self.begin(TokenizerState::Text(TextPart::Plain), at);
                self.is_key = true;
                return self.text(piece, at + 1, TextPart::Plain, each);
            }
            (TokenizerState::Value | TokenizerState::FirstElement, byte) => {
                return self.value(piece, at, byte, each);
            }
            (_, byte) => return self.unexpected(at, byte),
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
                self.begin(TokenizerState::Text(TextPart::Plain), at);
                return self.text(piece, at + 1, TextPart::Plain, each);
            }
            b'{' => self.open(TokenKind::ObjectStart, at, each)?,
            b'[' => self.open(TokenKind::ArrayStart, at, each)?,
            b't' => self.begin(TokenizerState::Word(TokenKind::True, 1), at),
            b'f' => self.begin(TokenizerState::Word(TokenKind::False, 1), at),
            b'n' => self.begin(TokenizerState::Word(TokenKind::Null, 1), at),
            b'-' => self.begin(TokenizerState::Number(NumberPart::Minus), at),
            b'0' => self.begin(TokenizerState::Number(NumberPart::Zero), at),
            b'1'..=b'9' => self.begin(TokenizerState::Number(NumberPart::Whole), at),
            _ => return self.unexpected(at, byte),
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
        self.emit_byte(kind, at, each)?;
        if self.depth > 0 && self.depth.is_multiple_of(WORD_BITS) {
            self.outer_objects.push(self.objects);
        }
        self.depth += 1;
        let is_object = kind == TokenKind::ObjectStart;
        self.objects = (self.objects << 1) | u128::from(is_object);
        self.state = if is_object { TokenizerState::FirstKey } else { TokenizerState::FirstElement };
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
        if self.depth > 0 && self.depth.is_multiple_of(WORD_BITS) {
            self.objects = self.outer_objects.pop().unwrap_or_default();
        }
        self.state = self.after_value();
        self.emit_byte(kind, at, each)
    }

    /// Emits a token of one byte.
    fn emit_byte(
        &mut self,
        kind: TokenKind,
        at: usize,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<(), TokenError> {
        let at = self.base + at;
        let token = Token { kind, depth: self.depth, range: at..at + 1, spelled: None, escaped: false };
        if each(token).is_break() { Err(TokenError::Stopped) } else { Ok(()) }
    }

    /// Continues in a string; returns the next position.
    fn text(
        &mut self,
        piece: &[u8],
        mut at: usize,
        mut part: TextPart,
        each: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
    ) -> Result<usize, TokenError> {
        // Short strings are read without blocks, and so is the rest of a block that is not ordinary.
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
                (TextPart::Plain, _) => return Err(self.wrong_in_token(SyntaxFault::ControlCharacter, at)),
                (TextPart::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => TextPart::Plain,
                (TextPart::Escape, b'u') => TextPart::Digits(4),
                (TextPart::Escape, _) => return Err(self.wrong_in_token(SyntaxFault::InvalidEscape, at)),
                (TextPart::Digits(1), digit) if digit.is_ascii_hexdigit() => TextPart::Plain,
                (TextPart::Digits(left), digit) if digit.is_ascii_hexdigit() => TextPart::Digits(left - 1),
                (TextPart::Digits(_), _) => {
                    return Err(self.wrong_in_token(SyntaxFault::InvalidHexEscape, at));
                }
            };
            at += 1;
        }
        self.state = TokenizerState::Text(part);
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
                None => return Err(self.wrong_in_token(SyntaxFault::InvalidNumber, at)),
            }
            at += 1;
        }
        self.state = TokenizerState::Number(part);
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
                return Err(self.wrong_in_token(SyntaxFault::UnknownLiteral, at));
            }
            (at, read) = (at + 1, read + 1);
            if usize::from(read) == word.len() {
                self.emit(kind, piece, at, each)?;
                return Ok(at);
            }
        }
        self.state = TokenizerState::Word(kind, read);
        Ok(at)
    }
}
