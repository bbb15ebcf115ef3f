//! Enums whose values are words: the same word in the database, in all interfaces and in the docs.

/// The error for an unknown word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind}")]
pub struct NoSuchWord {
    /// The kind of word that was expected.
    pub kind: &'static str,
}

/// Declares an enum together with its words.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident ($kind:literal) {
        $($(#[$doc:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word used in the database and in all interfaces.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::NoSuchWord;

            fn from_str(word: &str) -> Result<Self, $crate::words::NoSuchWord> {
                let found = Self::ALL.into_iter().find(|value| value.as_str() == word);
                found.ok_or($crate::words::NoSuchWord { kind: $kind })
            }
        }
    };
}

pub(crate) use words;
