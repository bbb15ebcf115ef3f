//! Faults: errors with a stable code, a blame and a hint.

use std::fmt;

/// Who can resolve a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller: a different request can succeed.
    Caller,
    /// This gateway or its configuration.
    Gateway,
    /// A server behind the gateway.
    Upstream,
}

impl Blame {
    /// The word used in all interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Gateway => "gateway",
            Self::Upstream => "upstream",
        }
    }
}

/// An error that people and programs can act on: a stable code, a blame and a hint.
///
/// The sentence itself is the error's `Display`; it must not contain secrets or error text of others.
pub trait Fault: std::error::Error {
    /// A stable code such as `server.command-not-found`.
    fn code(&self) -> &'static str;
    /// Who can resolve it.
    fn blame(&self) -> Blame;
    /// What to try next.
    fn hint(&self) -> Option<String> {
        None
    }
}

/// A fault with its type erased, for transport to the interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: &'static str,
    /// Who can resolve it.
    pub blame: Blame,
    /// One sentence for people.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
}

impl Problem {
    /// Erases the type of any fault.
    pub fn of(fault: &dyn Fault) -> Self {
        Self { code: fault.code(), blame: fault.blame(), message: fault.to_string(), hint: fault.hint() }
    }

    /// Message and hint in one text, for formats with a single field.
    pub fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} (hint: {hint})", self.message),
            None => self.message.clone(),
        }
    }
}

/// The problem of an operation that needs random numbers, which the system does not provide. `failed` is a clause, such
/// as "the session could not be opened".
pub fn no_randomness(failed: &str) -> Problem {
    Problem {
        code: "request.failed",
        blame: Blame::Gateway,
        message: format!("{failed}: the system provides no random numbers"),
        hint: Some("try again later".into()),
    }
}

impl<F: Fault> From<F> for Problem {
    fn from(fault: F) -> Self {
        Self::of(&fault)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
