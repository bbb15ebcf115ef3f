//! Cancelling a request: some may say it, one hears it.

use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// The word that a request is cancelled. It has one listener and no children: every call makes one, and a token that
/// could have both costs ten times as much.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Word>);

#[derive(Debug, Default)]
struct Word {
    said: AtomicBool,
    listener: AtomicWaker,
}

impl Cancel {
    /// Says it.
    pub fn cancel(&self) {
        self.0.said.store(true, Ordering::Release);
        self.0.listener.wake();
    }

    /// Whether it was said.
    pub fn is_cancelled(&self) -> bool {
        self.0.said.load(Ordering::Acquire)
    }

    /// Waits until it is said; for one at a time.
    pub async fn cancelled(&self) {
        poll_fn(|cx| {
            // Registered first, so that a word said in between wakes us.
            self.0.listener.register(cx.waker());
            if self.is_cancelled() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_word_is_heard_whenever_it_is_said() {
        let early = Cancel::default();
        early.cancel();
        early.cancelled().await;

        let late = Cancel::default();
        let waits = tokio::spawn({
            let late = late.clone();
            async move { late.cancelled().await }
        });
        tokio::task::yield_now().await;
        assert!(!late.is_cancelled() && !waits.is_finished());
        late.cancel();
        assert!(waits.await.is_ok());
    }
}
