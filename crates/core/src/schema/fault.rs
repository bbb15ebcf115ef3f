//! What can be wrong with a schema.

/// Why a schema, or a keyword of it, is not checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaFault {
    /// Its text is too long.
    #[error("its schema has {0} bytes, over the limit of {limit}", limit = super::MAX_BYTES)]
    TooLarge(usize),
    /// It nests too deep.
    #[error("its schema nests deeper than {limit}", limit = super::MAX_DEPTH)]
    TooDeep,
    /// It has too many parts.
    #[error("its schema has more than {limit} subschemas", limit = super::MAX_SUBSCHEMAS)]
    TooMany,
    /// A keyword has a value it may not have.
    #[error("its schema is broken: `{place}` must be {expected}")]
    Keyword {
        /// Where, as a path of keys.
        place: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A reference leads out of the schema.
    #[error("its schema refers to `{0}`; only references within the schema (`#/…`) are followed")]
    Remote(String),
    /// A reference leads nowhere.
    #[error("its schema refers to `{0}`, which is not there")]
    Dangling(String),
    /// A reference leads back to itself without looking deeper into the arguments.
    #[error("its schema refers to itself without end")]
    Endless,
    /// Checking could take for ever.
    #[error("its schema branches too often to be checked in reasonable time")]
    Branching,
    /// A pattern is no regular expression, or one that looks around, or too large.
    #[error("its schema has a pattern that cannot be checked in bounded time: `{0}`")]
    Pattern(String),
    /// It has too many patterns.
    #[error("its schema has more than {limit} patterns", limit = super::MAX_PATTERNS)]
    Patterns,
    /// A keyword that is not supported.
    #[error("its schema uses `{0}`, which is not supported")]
    Unsupported(String),
    /// The compiler refused it.
    #[error("its schema does not compile: {0}")]
    Uncompiled(String),
}

/// At most so many characters of a text.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    let mut cut: String = text.chars().take(characters).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
