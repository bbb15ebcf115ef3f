//! Tools with several providers: failover, the share of the deadline, hedging, and the circuit breaker.

use crate::peer::{Reply, ScriptedPeer, text};
use crate::world::{Setup, World};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use toolbooth_core::catalog::Lookup;
use toolbooth_core::manifest::Overlay;
use toolbooth_core::provider::BreakerState;
use toolbooth_core::server::SideEffects;
use toolbooth_engine::ProviderReport;

fn reading(timeout_s: u64) -> Overlay {
    Overlay {
        side_effects: Some(SideEffects::ReadExternalService),
        timeout: Some(Duration::from_secs(timeout_s)),
        ..Overlay::default()
    }
}

fn writing(timeout_s: u64) -> Overlay {
    Overlay { side_effects: Some(SideEffects::Write), ..reading(timeout_s) }
}

fn hedged(overlay: Overlay) -> Overlay {
    Overlay { hedge_after: Some(Duration::from_secs(2)), ..overlay }
}

/// Two providers: the first never answers, the second after a second.
fn silent_and_slow() -> (Arc<ScriptedPeer>, Arc<ScriptedPeer>) {
    let slow = async |_| {
        sleep(Duration::from_secs(1)).await;
        text("second")
    };
    (ScriptedPeer::new("one", async |_| Reply::Silence), ScriptedPeer::new("two", slow))
}

#[tokio::test(start_paused = true)]
async fn the_next_provider_is_tried_at_once() {
    let one = ScriptedPeer::new("one", async |_| Reply::Error(-32_000));
    let two = ScriptedPeer::new("two", async |_| text("second"));
    let world = Setup::with(&[&one, &two]).job(reading(20)).start().await;
    assert_eq!(world.call("tool.job").await, ("second".to_owned(), 0));
    assert_eq!((one.calls_ms(), two.calls_ms()), (vec![0], vec![0]));
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_gets_half_of_the_time() {
    let (one, two) = silent_and_slow();
    let world = Setup::with(&[&one, &two]).job(reading(20)).start().await;
    assert_eq!(world.call("tool.job").await, ("second".to_owned(), 11_000));
    assert_eq!((one.calls_ms(), two.calls_ms()), (vec![0], vec![10_000]));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_to_a_second_provider() {
    for overlay in [writing(20), hedged(writing(20))] {
        let (one, two) = silent_and_slow();
        let world = Setup::with(&[&one, &two]).writing().job(overlay).start().await;
        assert_eq!(world.call("tool.job").await, ("call.timeout".to_owned(), 20_000));
        assert_eq!((one.calls_ms(), two.calls_ms()), (vec![0], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hedged_read_asks_the_next_provider_as_well() {
    let (one, two) = silent_and_slow();
    let world = Setup::with(&[&one, &two]).job(hedged(reading(20))).start().await;
    assert_eq!(world.call("tool.job").await, ("second".to_owned(), 3_000));
    assert_eq!((one.calls_ms(), two.calls_ms()), (vec![0], vec![2_000]));
}

#[tokio::test(start_paused = true)]
async fn a_fast_first_provider_wins_without_a_hedge() {
    let one = ScriptedPeer::new("one", async |_| {
        sleep(Duration::from_millis(1_999)).await;
        text("first")
    });
    let two = ScriptedPeer::new("two", async |_| text("second"));
    let world = Setup::with(&[&one, &two]).job(hedged(reading(20))).start().await;
    assert_eq!(world.call("tool.job").await, ("first".to_owned(), 1_999));
    assert_eq!(two.calls_ms(), Vec::<u128>::new());
}

#[tokio::test(start_paused = true)]
async fn the_last_provider_is_retried_like_a_server() {
    let one = ScriptedPeer::new("one", async |_| Reply::Error(-32_000));
    let two = ScriptedPeer::new("two", async |_| Reply::Error(-32_000));
    let world = Setup::with(&[&one, &two]).job(reading(20)).start().await;
    assert_eq!(world.call("tool.job").await, ("error -32000".to_owned(), 3_000));
    assert_eq!((one.calls_ms(), two.calls_ms()), (vec![0], vec![0, 1_000, 3_000]));
}

fn report(world: &World) -> ProviderReport {
    let catalog = world.engine.catalog().snapshot();
    let Lookup::Found(tool) = catalog.tool("tool.job", &world.caller) else { panic!("no tool") };
    world.engine.routing().report(tool, &world.caller).remove(0)
}

/// The time until the breaker lets a call test its provider, in seconds.
fn backoff(world: &World) -> f64 {
    let until = report(world).router.backoff_until.expect("it is open");
    until - world.engine.clock().wall().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_after_three_failures_and_backs_off_longer_each_time() {
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let one = ScriptedPeer::new("one", move |_| {
        let fails = failing.load(Ordering::Relaxed);
        async move { if fails { Reply::Error(-32_000) } else { text("first") } }
    });
    let two = ScriptedPeer::new("two", async |_| text("second"));
    let world = Setup::with(&[&one, &two]).job(reading(20)).start().await;
    for failures in 1..=3 {
        assert_eq!(report(&world).router.state, BreakerState::Closed);
        assert_eq!(world.call("tool.job").await, ("second".to_owned(), 0));
        assert_eq!(report(&world).router.consecutive_failures, failures);
    }
    // Open: at first for a second at most, then for twice as long each time, up to a minute.
    for longest in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
        assert_eq!(report(&world).router.state, BreakerState::Open);
        let pause = backoff(&world);
        assert!((longest / 2.0 - 0.002..=longest + 0.002).contains(&pause), "{pause} of {longest}");
        let calls = one.calls_ms().len();
        assert_eq!(world.call("tool.job").await, ("second".to_owned(), 0));
        assert_eq!(one.calls_ms().len(), calls, "an open breaker lets no call through");
        sleep(Duration::from_secs_f64(pause) + Duration::from_millis(2)).await;
        // One call tests the provider, and fails again.
        assert_eq!(world.call("tool.job").await, ("second".to_owned(), 0));
        assert_eq!(one.calls_ms().len(), calls + 1);
    }
    fails.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(world.call("tool.job").await, ("first".to_owned(), 0));
    let router = report(&world).router;
    assert_eq!((router.state, router.consecutive_failures), (BreakerState::Closed, 0));
}
