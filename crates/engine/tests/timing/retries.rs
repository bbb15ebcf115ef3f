//! Retries of a failed call to a server: how often, after which pauses, and when not at all.

use crate::peer::{Reply, ScriptedPeer, malformed, text};
use crate::world::Setup;
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::retry::{Jitter, RetryTerms};

#[tokio::test(start_paused = true)]
async fn pauses_double_from_one_second_to_ten() {
    let cases: [(u32, &[u128]); 4] = [
        (1, &[0]),
        (2, &[0, 1_000]),
        (3, &[0, 1_000, 3_000]),
        (7, &[0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]),
    ];
    for (attempts, expected_ms) in cases {
        let peer = ScriptedPeer::new("mail", async |_| malformed());
        let setup = Setup::with(&[&peer]).terms(|terms| terms.routing.retry.attempts = attempts);
        let world = setup.entries(|entry| entry.timeout = Duration::from_secs(60)).start().await;
        let (code, took_ms) = world.call("mcp.mail.work").await;
        assert_eq!((code.as_str(), Some(&took_ms)), ("server.bad-answer", expected_ms.last()));
        assert_eq!(peer.calls_ms(), expected_ms, "{attempts} attempts");
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_only_shortens_pauses() {
    let peer = ScriptedPeer::new("mail", async |_| malformed());
    let world =
        Setup::with(&[&peer]).terms(|terms| terms.routing.retry = RetryTerms::default()).start().await;
    for _ in 0..50 {
        world.call("mcp.mail.work").await;
    }
    let calls = peer.calls_ms();
    assert_eq!(calls.len(), 150);
    let mut pauses = [Vec::new(), Vec::new()];
    for call in calls.chunks(3) {
        pauses[0].push(call[1] - call[0]);
        pauses[1].push(call[2] - call[1]);
    }
    for (pauses, longest_ms) in pauses.iter().zip([1_000, 2_000]) {
        // A timer fires at the next millisecond.
        assert!(pauses.iter().all(|pause| *pause <= longest_ms + 1), "{pauses:?}");
        // The chance that 50 even pauses are all in one half is 2^-49.
        assert!(pauses.iter().any(|pause| *pause < longest_ms / 2), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > longest_ms / 2), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_attempt_may_succeed() {
    let peer = ScriptedPeer::new("mail", async |call| match call.earlier {
        0 | 1 => malformed(),
        _ => {
            sleep(Duration::from_millis(200)).await;
            text("done")
        }
    });
    let world = Setup::with(&[&peer]).start().await;
    assert_eq!(world.call("mcp.mail.work").await, ("done".to_owned(), 3_200));
    assert_eq!(peer.calls_ms(), [0, 1_000, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn no_pause_begins_that_would_outlast_the_deadline() {
    // The timeout in milliseconds, and when the call fails: the pauses are 1 s and 2 s.
    let cases: [(u64, u128, usize); 4] =
        [(3_001, 3_000, 3), (3_000, 1_000, 2), (1_001, 1_000, 2), (1_000, 0, 1)];
    for (timeout_ms, expected_ms, attempts) in cases {
        let peer = ScriptedPeer::new("mail", async |_| malformed());
        let setup = Setup::with(&[&peer]);
        let world = setup.entries(|entry| entry.timeout = Duration::from_millis(timeout_ms)).start().await;
        let outcome = world.call("mcp.mail.work").await;
        assert_eq!(outcome, ("server.bad-answer".to_owned(), expected_ms), "{timeout_ms} ms");
        assert_eq!(peer.calls_ms().len(), attempts, "{timeout_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_arrived_is_not_sent_again() {
    for code in ["server.bad-answer", "server.lost"] {
        let peer = ScriptedPeer::new("mail", move |_| async move {
            match code {
                "server.lost" => Reply::HangUp,
                _ => malformed(),
            }
        });
        let world = Setup::with(&[&peer]).writing().start().await;
        assert_eq!(world.call("mcp.mail.work").await, (code.to_owned(), 0));
        sleep(Duration::from_secs(3600)).await;
        assert_eq!(peer.calls_ms(), [0], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_with_an_idempotency_key_is_sent_again() {
    let peer = ScriptedPeer::new("mail", async |call| match call.earlier {
        0 => malformed(),
        _ => text("done"),
    });
    let setup = Setup::with(&[&peer]).writing().entries(|entry| entry.defaults.idempotency_key = true);
    let world = setup.start().await;
    assert_eq!(world.call("mcp.mail.work").await, ("done".to_owned(), 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_after_the_server_has_reconnected() {
    let peer = ScriptedPeer::new("mail", async |call| match call.earlier {
        0 => Reply::HangUp,
        _ => text("done"),
    });
    let world = Setup::with(&[&peer]).start().await;
    // The first reconnect waits for at most a second, as the call does.
    let (outcome, took_ms) = world.call("mcp.mail.work").await;
    assert_eq!(outcome, "done");
    assert!((1_000..=1_001).contains(&took_ms), "{took_ms}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_an_error_is_not_retried() {
    let peer = ScriptedPeer::new("mail", async |_| Reply::Error(-32_000));
    let world = Setup::with(&[&peer]).start().await;
    assert_eq!(world.call("mcp.mail.work").await, ("error -32000".to_owned(), 0));
    assert_eq!(peer.calls_ms(), [0]);
    assert_eq!(RetryTerms::default().jitter, Jitter::Full);
}
