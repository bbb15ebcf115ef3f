//! Turns: one call at a time, first come, first served, and no more waiting than there is room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolbooth_core::fault::{Blame, Problem};

/// The turns of one tool with one provider.
#[derive(Debug)]
pub(crate) struct Turns {
    seat: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Turns {
    fn default() -> Self {
        Self { seat: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) }
    }
}

/// Counts somebody as waiting for as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Turns {
    /// Waits for the turn; refused at once where too many wait. The turn lasts as long as what is returned.
    pub(crate) async fn take(&self, tool: &str, room: usize) -> Result<OwnedSemaphorePermit, Problem> {
        if let Ok(free) = self.seat.clone().try_acquire_owned() {
            return Ok(free);
        }
        let full = || Problem {
            code: "call.queue-full",
            blame: Blame::Gateway,
            message: format!("`{tool}` takes one call at a time, and {room} wait already"),
            hint: Some("call again later; `limits.queue` sets how many may wait".into()),
        };
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= room {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(full());
        }
        let _waiting = Waiting(&self.waiting);
        self.seat.clone().acquire_owned().await.map_err(|_| full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_in_order_and_no_more_than_fit() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("t", 2).await.expect("free");
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..2 {
            let (turns, order) = (turns.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = turns.take("t", 2).await.expect("room");
                order.lock().expect("whole").push(number);
            }));
            tokio::task::yield_now().await;
        }
        let refused = turns.take("t", 2).await.expect_err("full");
        assert_eq!(refused.code, "call.queue-full");
        drop(first);
        for task in tasks {
            task.await.expect("it ran");
        }
        assert_eq!(*order.lock().expect("whole"), [0, 1]);
        assert!(turns.take("t", 0).await.is_ok());
    }
}
