//! Faults of schemas.

/// The reason why a schema, or one of its keywords, is not checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// The text is too long.
    #[error("its schema has {0} bytes, over the limit of {limit}", limit = super::MAX_BYTES)]
    TooLarge(usize),
    /// The schema nests too deep.
    #[error("its schema nests deeper than {limit}", limit = super::MAX_DEPTH)]
    TooDeep,
    /// The schema has too many subschemas.
    #[error("its schema has more than {limit} subschemas", limit = super::MAX_SUBSCHEMAS)]
    TooMany,
    /// A keyword has an invalid value.
    #[error("its schema is broken: `{place}` must be {expected}")]
    Keyword {
        /// The position as a path of keys.
        place: String,
        /// The expected value.
        expected: &'static str,
    },
    /// A reference points outside the schema.
    #[error("its schema refers to `{0}`; only references within the schema (`#/…`) are followed")]
    Remote(String),
    /// The target of a reference does not exist.
    #[error("its schema refers to `{0}`, which does not exist")]
    Dangling(String),
    /// A reference leads back to itself without going deeper into the arguments.
    #[error("its schema refers to itself endlessly")]
    Endless,
    /// A check could take too long.
    #[error("its schema branches too often to be checked in reasonable time")]
    Branching,
    /// A pattern is not a valid regular expression, uses lookaround, or is too large.
    #[error("its schema has a pattern that cannot be checked in bounded time: `{0}`")]
    Pattern(String),
    /// The schema has too many patterns.
    #[error("its schema has more than {limit} patterns", limit = super::MAX_PATTERNS)]
    Patterns,
    /// The keyword is not supported.
    #[error("its schema uses `{0}`, which is not supported")]
    Unsupported(String),
    /// The schema does not compile.
    #[error("its schema does not compile: {0}")]
    Uncompiled(String),
}

/// The first `characters` characters of a text, with `…` if it is longer.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    let mut cut: String = text.chars().take(characters).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
