//! Errors of the tokenizer.

/// Errors of the tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not JSON.
    #[error("not valid JSON: {fault} at byte {at}")]
    Syntax {
        /// The fault.
        fault: SyntaxFault,
        /// The start of the token or comment that has the fault; equal to `at` if the fault is between tokens.
        from: usize,
        /// The position of the first byte that is wrong, or of the end, in the whole text.
        at: usize,
    },
    /// The text is not UTF-8.
    #[error("not valid UTF-8")]
    NotUtf8,
    /// Values nest too deep.
    #[error("values nest deeper than {0}")]
    TooDeep(usize),
    /// The consumer of the tokens stopped.
    #[error("the reader stopped")]
    Stopped,
}

/// What is wrong with a text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxFault {
    /// The text ends inside a token, or before a key, a colon, a comma or a closing bracket.
    #[error("unexpected end")]
    End,
    /// The text ends where a value must follow.
    #[error("unexpected end")]
    EndBeforeValue,
    /// Something follows the value.
    #[error("unexpected text after the value")]
    TextAfterValue,
    /// No colon follows a key.
    #[error("expected a colon")]
    ExpectedColon,
    /// No key follows.
    #[error("expected a key")]
    ExpectedKey,
    /// Neither a comma nor the end of the innermost object or array follows.
    #[error("expected a comma or a closing bracket")]
    ExpectedComma,
    /// No value follows.
    #[error("expected a value")]
    ExpectedValue,
    /// A string has an unescaped control character.
    #[error("control character in a string")]
    ControlCharacter,
    /// A backslash with a character that is not an escape.
    #[error("invalid escape")]
    InvalidEscape,
    /// `\u` without four hexadecimal digits.
    #[error("escape without four hex digits")]
    InvalidHexEscape,
    /// A number that ends too early.
    #[error("invalid number")]
    InvalidNumber,
    /// A word that is not `true`, `false` or `null`.
    #[error("unknown literal")]
    UnknownLiteral,
    /// A comment without `*/`, in a dialect that has comments.
    #[error("a comment is not closed")]
    CommentNotClosed,
}
