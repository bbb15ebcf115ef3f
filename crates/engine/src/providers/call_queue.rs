//! The queue of a tool that takes one call at a time: first come, first served, with a bounded length.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolbooth_core::fault::{Blame, Problem};

/// The queue of one tool with one provider.
#[derive(Debug)]
pub(crate) struct CallQueue {
    slot: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for CallQueue {
    fn default() -> Self {
        Self { slot: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) }
    }
}

/// Counts one waiting call for as long as it exists.
struct QueuedCall<'a>(&'a AtomicUsize);

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CallQueue {
    /// Waits for the slot; fails at once if `max_waiting` calls already wait. The returned permit holds the slot.
    pub(crate) async fn wait(&self, tool: &str, max_waiting: usize) -> Result<OwnedSemaphorePermit, Problem> {
        if let Ok(free) = self.slot.clone().try_acquire_owned() {
            return Ok(free);
        }
        let full = || Problem {
            code: "call.queue-full",
            blame: Blame::Gateway,
            message: format!("`{tool}` takes one call at a time, and {max_waiting} calls already wait"),
            hint: Some("call again later; `limits.queue` sets the length of the queue".into()),
        };
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= max_waiting {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(full());
        }
        let _waiting = QueuedCall(&self.waiting);
        self.slot.clone().acquire_owned().await.map_err(|_| full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_run_one_at_a_time_in_order_and_a_full_queue_refuses() {
        let queue = Arc::new(CallQueue::default());
        let first = queue.wait("t", 2).await.expect("free");
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..2 {
            let (queue, order) = (queue.clone(), order.clone());
            tasks.push(tokio::spawn(async move {
                let _turn = queue.wait("t", 2).await.expect("room");
                order.lock().expect("whole").push(number);
            }));
            tokio::task::yield_now().await;
        }
        let refused = queue.wait("t", 2).await.expect_err("full");
        assert_eq!(refused.code, "call.queue-full");
        drop(first);
        for task in tasks {
            task.await.expect("it ran");
        }
        assert_eq!(*order.lock().expect("whole"), [0, 1]);
        assert!(queue.wait("t", 0).await.is_ok());
    }
}
