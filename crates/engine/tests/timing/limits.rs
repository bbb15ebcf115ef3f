//! Allowances of callers, and reconnects to a server that is down.

use crate::peer::{ScriptedPeer, text};
use crate::world::{BEGIN_MS, Setup};
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::allowance::Allowance;

const DAY_MS: i64 = 24 * 3_600_000;

#[tokio::test(start_paused = true)]
async fn calls_are_allowed_again_after_a_minute() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let allowance = Allowance { calls_per_minute: Some(2), runtime: None, cost: None };
    let world = Setup::with(&[&peer]).terms(|terms| terms.routing.allowance = Some(allowance)).start().await;
    let steps = [(0, "done"), (0, "done"), (0, "call.over-rate"), (59, "call.over-rate"), (1, "done")];
    for (pause_s, expected) in steps {
        sleep(Duration::from_secs(pause_s)).await;
        assert_eq!(world.call("mcp.mail.work").await, (expected.to_owned(), 0), "after {pause_s} s");
    }
}

#[tokio::test(start_paused = true)]
async fn runtime_is_allowed_again_on_the_next_day() {
    let peer = ScriptedPeer::new("mail", async |_| {
        sleep(Duration::from_secs(12)).await;
        text("done")
    });
    let allowance = Allowance { calls_per_minute: None, runtime: Some(Duration::from_secs(10)), cost: None };
    let world = Setup::with(&[&peer]).terms(|terms| terms.routing.allowance = Some(allowance)).start().await;
    assert_eq!(world.call("mcp.mail.work").await, ("done".to_owned(), 12_000));
    assert_eq!(world.call("mcp.mail.work").await, ("call.over-runtime".to_owned(), 0));
    let midnight_ms = (BEGIN_MS / DAY_MS + 1) * DAY_MS;
    let left_ms = midnight_ms - world.engine.clock().now_ms();
    sleep(Duration::from_millis(left_ms.unsigned_abs() - 1)).await;
    assert_eq!(world.call("mcp.mail.work").await.0, "call.over-runtime");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(world.call("mcp.mail.work").await.0, "done");
}

#[tokio::test(start_paused = true)]
async fn pauses_between_reconnects_double_from_one_second_to_sixty() {
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = Setup::with(&[&peer]).start().await;
    peer.go_down();
    sleep(Duration::from_secs(1800)).await;
    let opened = peer.opened_ms();
    let pauses: Vec<u128> = opened.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let longest_ms = (0..).map(|attempt: u32| (1_000_u128 << attempt.min(6)).min(60_000));
    for (attempt, (pause_ms, longest_ms)) in pauses.iter().zip(longest_ms).enumerate() {
        // Jitter leaves at least a twentieth, and a timer fires at the next millisecond.
        assert!(
            (longest_ms / 20..=longest_ms + 1).contains(pause_ms),
            "{attempt}: {pause_ms} of {longest_ms}"
        );
    }
    assert!(pauses.len() >= 25, "it does not give up: {pauses:?}");
    peer.come_up();
    sleep(Duration::from_secs(61)).await;
    assert_eq!(world.call("mcp.mail.work").await, ("done".to_owned(), 0));
}
