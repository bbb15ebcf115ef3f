//! Panics: one in the stages of a call ends that call and nothing else.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use toolbooth_core::fault::{Blame, Problem};

/// The stages of a call, pinned where they stay. Without their type, whose depth would be the compiler's limit.
pub(crate) type Stages<'a, T> = Pin<&'a mut (dyn Future<Output = Result<T, Problem>> + Send + 'a)>;

/// Runs the stages of a call. A panic is a fault of the gateway's: the call fails, is recorded and counted like any
/// other failure, and what it held is let go of.
pub(crate) async fn contained<T>(stages: Stages<'_, T>) -> Result<T, Problem> {
    // Nothing that outlives the call is left half done: shared state is swapped whole, or its lock is not poisoned.
    AssertUnwindSafe(stages).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a call ended in a panic, which is a fault of the gateway: please report it");
        Err(Problem {
            code: "call.panicked",
            blame: Blame::Gateway,
            message: "the gateway failed inside while it made this call".into(),
            hint: Some("its log has the place; please report it".into()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    // F30: a panic in a handler.
    #[tokio::test]
    async fn a_panic_ends_its_own_call_and_no_other() {
        let panicking = tokio::spawn(async {
            let stages = pin!(async {
                tokio::task::yield_now().await;
                if std::hint::black_box(true) {
                    panic!("a bug");
                }
                Ok(0)
            });
            contained(stages).await
        });
        let sound = tokio::spawn(async {
            let stages = pin!(async {
                tokio::task::yield_now().await;
                Ok(1)
            });
            contained(stages).await
        });
        let failed = panicking.await.expect("the task ends well").expect_err("the call failed");
        assert_eq!((failed.code, failed.blame), ("call.panicked", Blame::Gateway));
        assert_eq!(sound.await.expect("the task ends well"), Ok(1));
    }
}
