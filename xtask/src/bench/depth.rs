//! The amount of work per call that a benchmark measures.

/// The amount of work of the gateway for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Routing, identification, policies, arguments and metrics.
    Lean,
    /// The defaults: also an audit row for every call, and an inspection of every result.
    Full,
}

impl Depth {
    /// The value for this depth.
    pub fn of(self, lean: f64, full: f64) -> f64 {
        if self == Self::Lean { lean } else { full }
    }
}
