//! The eras and revisions of the protocol.

use std::fmt;

/// The two families of protocol revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Stateless, metadata on every request (2026-07-28).
    Modern,
    /// `initialize` and sessions (2025-11-25 and older).
    Legacy,
}

impl Era {
    /// The name used in configuration, logs and the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }

    /// Parses the name.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "modern" => Some(Self::Modern),
            "legacy" => Some(Self::Legacy),
            _ => None,
        }
    }
}

/// A protocol revision that the gateway supports, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the dates are the documentation")]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    /// The newest revision with sessions.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest stateless revision.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;
    /// All revisions, newest first, as they are offered to a client.
    pub const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The era it belongs to.
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// The revision in the response to `initialize`: the requested one if it is a known legacy revision, else the newest
    /// legacy revision.
    pub fn negotiate(requested: &str) -> Self {
        match Self::from_name(requested) {
            Some(revision) if revision.era() == Era::Legacy => revision,
            _ => Self::NEWEST_LEGACY,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_gets_the_requested_revision_or_the_newest() {
        let cases = [
            ("2024-11-05", Revision::V2024_11_05),
            ("2025-03-26", Revision::V2025_03_26),
            ("2025-11-25", Revision::V2025_11_25),
            ("2026-07-28", Revision::V2025_11_25), // has no initialize
            ("1999-01-01", Revision::V2025_11_25),
        ];
        for (requested, expected) in cases {
            assert_eq!(Revision::negotiate(requested), expected, "{requested}");
        }
    }
}
