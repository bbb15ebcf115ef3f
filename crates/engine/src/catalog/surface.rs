//! Counts how often the tools that clients see have changed, by cause.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why the tools that clients see changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceCause {
    /// The configuration changed.
    Configured,
    /// A server was connected for the first time.
    Discovered,
    /// A known server changed its list.
    Changed,
    /// A session loaded tools, which changes only its own list.
    Loaded,
}

impl SurfaceCause {
    /// All causes, with their words.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Configured, "configured"),
        (Self::Discovered, "discovered"),
        (Self::Changed, "changed"),
        (Self::Loaded, "loaded"),
    ];
}

/// How often the tools that clients see have changed, by cause.
#[derive(Debug, Default)]
pub struct SurfaceTally([AtomicU64; 4]);

impl SurfaceTally {
    pub(crate) fn count(&self, cause: SurfaceCause) {
        self.0[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts, by the cause's word.
    pub fn report(&self) -> [(&'static str, u64); 4] {
        SurfaceCause::ALL.map(|(cause, word)| (word, self.0[cause as usize].load(Ordering::Relaxed)))
    }
}
