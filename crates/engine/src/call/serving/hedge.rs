//! Hedging: if a provider is slow, the next one is asked as well, and the first answer wins. Only for tools that set
//! `hedge_after` and can safely be called twice.

use super::budget::{AttemptBudget, AttemptOutcome, NextProvider};
use crate::call::options::DispatchOptions;
use crate::call::pipeline::CallPipeline;
use crate::providers::Instance;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use toolbooth_core::call::Sealed;
use toolbooth_core::retry::Repeat;
use toolbooth_upstream::CallLink;

/// The outcomes of two providers; `None` for one that was not asked or lost the race.
pub(super) struct Race {
    pub(super) first: Option<AttemptOutcome>,
    pub(super) second: Option<AttemptOutcome>,
}

/// How long a provider has before the next one is asked as well; `None` if the tool does not set it or a second call
/// might do harm.
pub(super) fn hedge_after(call: &Sealed, repeat: Repeat) -> Option<Duration> {
    call.tool().terms.hedge_after.filter(|_| repeat == Repeat::Harmless)
}

impl CallPipeline {
    /// Asks one provider and, after `after`, another. When one has served the call, the other is cancelled.
    #[allow(clippy::too_many_arguments, reason = "the values of the stages, all of different types")]
    pub(super) async fn try_two(
        &self,
        call: &Sealed,
        [one, two]: [&(usize, Arc<Instance>); 2],
        after: Duration,
        options: &DispatchOptions,
        budget: &mut AttemptBudget<'_>,
        link: &CallLink,
    ) -> Race {
        let mut other = budget.fork();
        let asked = AtomicBool::new(false);
        let race = {
            let first =
                pin!(self.try_provider(call, one.0, &one.1, options, NextProvider::Ready, budget, link));
            let second = pin!(async {
                tokio::time::sleep(after).await;
                asked.store(true, Ordering::Relaxed);
                self.try_provider(call, two.0, &two.1, options, NextProvider::Absent, &mut other, link).await
            });
            match select(first, second).await {
                Either::Left((first @ AttemptOutcome::Served(_), _)) => {
                    Race { first: Some(first), second: None }
                }
                // It failed before the other was asked: the caller of this function tries the next provider.
                Either::Left((first, _)) if !asked.load(Ordering::Relaxed) => {
                    Race { first: Some(first), second: None }
                }
                Either::Left((first, second)) => Race { first: Some(first), second: Some(second.await) },
                Either::Right((second @ AttemptOutcome::Served(_), _)) => {
                    Race { first: None, second: Some(second) }
                }
                Either::Right((second, first)) => Race { first: Some(first.await), second: Some(second) },
            }
        };
        budget.join(other);
        race
    }
}
