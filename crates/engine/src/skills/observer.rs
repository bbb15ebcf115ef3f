//! Observers of runs, which are notified of each step.

use futures_util::future::BoxFuture;
use toolbooth_core::fault::Problem;
use toolbooth_core::skill::{SkillStep, StepRecord};
use uuid::Uuid;

/// Is notified of each step of a run, for example to store the progress.
pub trait StepObserver: Send + Sync {
    /// A step is about to start; `call` will be the id of its call. After an error, the step and all others that have
    /// not started are not run.
    fn starts<'a>(&'a self, step: &'a SkillStep, call: Uuid) -> BoxFuture<'a, Result<(), Problem>>;

    /// A step has ended, was skipped, or cannot start in this run. After an error, no further step starts.
    fn ended<'a>(&'a self, step: &'a SkillStep, record: &'a StepRecord)
    -> BoxFuture<'a, Result<(), Problem>>;
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl StepObserver for Unobserved {
    fn starts<'a>(&'a self, _: &'a SkillStep, _: Uuid) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn ended<'a>(&'a self, _: &'a SkillStep, _: &'a StepRecord) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
