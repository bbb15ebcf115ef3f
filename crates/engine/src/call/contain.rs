//! Panic containment: a panic in the stages of a call ends that call and nothing else.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use toolbooth_core::fault::{Blame, Problem};

/// The pinned stages of a call. Type-erased, because the full type exceeds the compiler's recursion limit.
pub(crate) type Stages<'a, T> = Pin<&'a mut (dyn Future<Output = Result<T, Problem>> + Send + 'a)>;

/// Runs the stages of a call. A panic is turned into a gateway error: the call fails and is recorded and counted like
/// any other failure.
pub(crate) async fn contain_panics<T>(stages: Stages<'_, T>) -> Result<T, Problem> {
    // Unwind-safe: state that outlives the call is replaced as a whole, or its lock ignores poisoning.
    AssertUnwindSafe(stages).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a call panicked; this is a bug in the gateway, please report it");
        Err(Problem {
            code: "call.panicked",
            blame: Blame::Gateway,
            message: "the gateway failed with an internal error during this call".into(),
            hint: Some("the gateway's log shows where; please report it".into()),
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
            contain_panics(stages).await
        });
        let sound = tokio::spawn(async {
            let stages = pin!(async {
                tokio::task::yield_now().await;
                Ok(1)
            });
            contain_panics(stages).await
        });
        let failed = panicking.await.expect("the task ends well").expect_err("the call failed");
        assert_eq!((failed.code, failed.blame), ("call.panicked", Blame::Gateway));
        assert_eq!(sound.await.expect("the task ends well"), Ok(1));
    }
}
