//! Automatic replays of dead letters.

use crate::peer::{ScriptedPeer, malformed, text};
use crate::world::{Setup, World};
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::dead_letter::{DeadLetter, LetterState};
use toolbooth_engine::LetterFilter;

async fn only_letter(world: &World) -> DeadLetter {
    let mut letters =
        world.engine.dead_letters().list(&world.caller, LetterFilter::default()).await.expect("read");
    assert_eq!(letters.len(), 1);
    letters.remove(0)
}

/// Replays what is due, and waits until the calls have ended.
async fn replay(world: &World) {
    world.engine.dead_letters().replay_due().await;
    sleep(Duration::from_millis(1)).await;
}

fn single_attempts(setup: Setup) -> Setup {
    setup.terms(|terms| terms.routing.retry.attempts = 1)
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_replayed_after_1_5_and_15_minutes() {
    let peer = ScriptedPeer::new("mail", async |_| malformed());
    let world = single_attempts(Setup::with(&[&peer])).start().await;
    world.call("mcp.mail.work").await;
    for (replays, delay_ms) in [60_000, 300_000, 900_000].into_iter().enumerate() {
        let letter = only_letter(&world).await;
        assert_eq!(letter.replays as usize, replays);
        let due_ms = letter.next_retry_ms.expect("a time");
        // Each waits for its delay and up to a tenth more, counted from the failure.
        let failed_ms = letter.attempts.last().expect("an attempt").at_ms;
        let waits_ms = due_ms - failed_ms;
        assert!((delay_ms..=delay_ms + delay_ms / 10).contains(&waits_ms), "{waits_ms}");
        let left_ms = due_ms - world.engine.clock().now_ms();
        sleep(Duration::from_millis(left_ms.unsigned_abs() - 2)).await;
        replay(&world).await;
        assert_eq!(peer.calls_ms().len(), replays + 1, "not due yet");
        sleep(Duration::from_millis(1)).await;
        replay(&world).await;
        assert_eq!(peer.calls_ms().len(), replays + 2, "due");
    }
    let letter = only_letter(&world).await;
    assert_eq!((letter.replays, letter.next_retry_ms, letter.state), (3, None, LetterState::Pending));
    sleep(Duration::from_secs(24 * 3600)).await;
    replay(&world).await;
    assert_eq!(peer.calls_ms().len(), 4, "never again");
}

#[tokio::test(start_paused = true)]
async fn the_schedule_is_configured_and_its_last_delay_repeats() {
    let peer = ScriptedPeer::new("mail", async |call| match call.earlier {
        0..=3 => malformed(),
        _ => text("done"),
    });
    let setup = single_attempts(Setup::with(&[&peer])).terms(|terms| {
        terms.letters.max_replays = 10;
        terms.letters.schedule_seconds = vec![10, 20];
    });
    let world = setup.start().await;
    world.call("mcp.mail.work").await;
    for (replays, delay_ms) in [10_000, 20_000, 20_000, 20_000].into_iter().enumerate() {
        let due_ms = only_letter(&world).await.next_retry_ms.expect("a time");
        let waits_ms = due_ms - world.engine.clock().now_ms();
        assert!((delay_ms - 1..=delay_ms + delay_ms / 10).contains(&waits_ms), "{waits_ms}");
        sleep(Duration::from_millis(waits_ms.unsigned_abs())).await;
        replay(&world).await;
        assert_eq!(peer.calls_ms().len(), replays + 2);
    }
    assert_eq!(only_letter(&world).await.state, LetterState::Resolved);
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_waits_for_a_person() {
    let peer = ScriptedPeer::new("mail", async |_| malformed());
    let world = single_attempts(Setup::with(&[&peer]).writing()).start().await;
    world.call("mcp.mail.work").await;
    let letter = only_letter(&world).await;
    assert_eq!((letter.next_retry_ms, letter.may_have_happened), (None, true));
    sleep(Duration::from_secs(24 * 3600)).await;
    replay(&world).await;
    assert_eq!(peer.calls_ms(), [0]);
}
