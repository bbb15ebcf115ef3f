//! Hedging: when a provider takes long, the next is asked too, and whoever answers first is heard. Only where asking
//! twice does no harm, and only where the tool's `hedge_after` asks for it.

use super::Instance;
use super::attempts::{Effort, Manner, Next, Tried};
use crate::engine::Engine;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use toolbooth_core::call::Sealed;
use toolbooth_core::retry::Repeat;
use toolbooth_upstream::CallLink;

/// What came of two providers; nothing of one that was not asked, or whose answer came too late.
pub(super) struct Race {
    pub(super) first: Option<Tried>,
    pub(super) second: Option<Tried>,
}

/// How long a provider has before the next is asked, too; nothing where that is not wanted, or might do harm.
pub(super) fn hedge_after(call: &Sealed, repeat: Repeat) -> Option<Duration> {
    call.tool().terms.hedge_after.filter(|_| repeat == Repeat::Harmless)
}

impl Engine {
    /// Asks one provider and, once it has taken `after`, another. Whoever is still at it when the other has served
    /// the call is told to stop.
    #[allow(clippy::too_many_arguments, reason = "the stages' values, each of a type of its own")]
    pub(super) async fn try_two(
        &self,
        call: &Sealed,
        [one, two]: [&(usize, Arc<Instance>); 2],
        after: Duration,
        manner: &Manner,
        effort: &mut Effort<'_>,
        link: &CallLink,
    ) -> Race {
        let mut other = effort.apart();
        let asked = AtomicBool::new(false);
        let race = {
            let first = pin!(self.try_provider(call, one.0, &one.1, manner, Next::Another, effort, link));
            let second = pin!(async {
                tokio::time::sleep(after).await;
                asked.store(true, Ordering::Relaxed);
                self.try_provider(call, two.0, &two.1, manner, Next::Nothing, &mut other, link).await
            });
            match select(first, second).await {
                Either::Left((first @ Tried::Served(_), _)) => Race { first: Some(first), second: None },
                // Failed before the other was asked: that is for whoever tries the next.
                Either::Left((first, _)) if !asked.load(Ordering::Relaxed) => {
                    Race { first: Some(first), second: None }
                }
                Either::Left((first, second)) => Race { first: Some(first), second: Some(second.await) },
                Either::Right((second @ Tried::Served(_), _)) => Race { first: None, second: Some(second) },
                Either::Right((second, first)) => Race { first: Some(first.await), second: Some(second) },
            }
        };
        effort.join(other);
        race
    }
}
