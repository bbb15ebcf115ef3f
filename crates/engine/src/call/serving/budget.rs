//! The remaining time and the attempts of a call that providers serve.

use super::fault::ProviderFault;
use crate::answer::Answer;
use crate::call::deadline::Deadline;
use crate::call::dispatch_failure::{DispatchFailure, InnerQuestion};
use toolbooth_core::provider::Skip;
use toolbooth_core::retry::Repeat;

/// Whether another provider is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextProvider {
    Ready,
    Absent,
}

/// The remaining time of a call, and its attempts so far.
pub(super) struct AttemptBudget<'a> {
    pub(super) repeat: Repeat,
    pub(super) deadline: Deadline<'a>,
    pub(super) attempts: u32,
    /// The failures so far.
    pub(super) failed: Option<Box<DispatchFailure>>,
}

impl AttemptBudget<'_> {
    /// A budget with the same deadline, for a concurrent attempt.
    pub(super) fn fork(&self) -> Self {
        Self { repeat: self.repeat, deadline: self.deadline, attempts: 0, failed: None }
    }

    /// Adds the attempts of a concurrent budget.
    pub(super) fn join(&mut self, other: Self) {
        self.attempts += other.attempts;
        if let Some(more) = other.failed {
            self.failed = Some(more.after(self.failed.take()));
        }
    }
}

/// The outcome of one provider.
pub(super) enum AttemptOutcome {
    Served(Answer),
    Asks(Box<InnerQuestion>),
    Skipped(Skip),
    Failed(ProviderFault),
}
