//! How the work on a run can end, and the times of its lease.

use toolbooth_core::skill::StepError;

/// How long a worker has a run without renewing its lease.
pub(super) const LEASE_MS: i64 = 30_000;
/// How often a waiting run is looked at.
pub(super) const WAIT_MS: i64 = 3_000;

/// How the work on a run ended.
pub(super) enum WorkEnd {
    /// All parts have ended.
    Ended,
    /// A part waits for a person; look again at this time.
    Waits(i64),
    /// A person must decide about an interrupted step.
    Held(StepError),
    /// The run cannot go on.
    Failed(StepError),
    /// The gateway is stopping; the next process continues.
    Stopped,
    /// Another process has the run now.
    Lost,
}
