//! The states of the tokenizer: what may follow, and the parts of tokens that may end with a piece of the text.

use super::{SyntaxFault, TokenKind};

/// The state between two bytes: what may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenizerState {
    Value,
    /// A value or the end of the array: it has just opened, or the dialect has trailing commas.
    FirstElement,
    /// A key or the end of the object: it has just opened, or the dialect has trailing commas.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of the innermost object or array.
    Next,
    /// Nothing but white space.
    End,
    /// Inside a string.
    Text(TextPart),
    Number(NumberPart),
    /// Inside `true`, `false` or `null`, with the number of bytes read.
    Word(TokenKind, u8),
    Comment(CommentPart),
}

impl TokenizerState {
    /// The fault if neither this nor a comment follows.
    pub(super) fn fault(self) -> SyntaxFault {
        match self {
            Self::End => SyntaxFault::TextAfterValue,
            Self::Colon => SyntaxFault::ExpectedColon,
            Self::FirstKey | Self::Key => SyntaxFault::ExpectedKey,
            Self::Next => SyntaxFault::ExpectedComma,
            _ => SyntaxFault::ExpectedValue,
        }
    }

    /// Whether a token has begun and not ended.
    pub(super) fn is_in_token(self) -> bool {
        matches!(self, Self::Text(_) | Self::Number(_) | Self::Word(..))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextPart {
    Plain,
    /// After a backslash.
    Escape,
    /// Inside `\u`, with the number of digits that are still missing.
    Digits(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommentPart {
    /// After the first slash.
    Slash,
    /// Inside a comment that ends with its line.
    Line,
    /// Inside a comment that ends with `*/`.
    Block,
    /// The same, after an asterisk.
    Asterisk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberPart {
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
    pub(super) fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::PowerDigits)
    }

    /// The part after this byte; `None` if the byte does not belong to the number.
    pub(super) fn after(self, byte: u8) -> Option<Self> {
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
