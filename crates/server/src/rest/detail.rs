//! How much of a tool a response shows.

/// How much of each tool is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The fields of a list.
    Summary,
    /// All fields.
    Full,
}
