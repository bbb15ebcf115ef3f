//! Held calls: how long a request waits for a person, when the call expires, and who runs it.

use crate::peer::{ScriptedPeer, text};
use crate::world::{BEGIN_MS, Setup, World, outcome_of};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use toolbooth_core::call::policy::RequireApproval;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::held::{HeldCall, HeldState, HeldVerdict};
use toolbooth_engine::{CallRequest, HeldFilter};
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;
use toolbooth_upstream::link::LinkEvent;

async fn world(peer: &Arc<ScriptedPeer>) -> World {
    let setup = Setup::with(&[peer]).terms(|terms| terms.policies = vec![Box::new(RequireApproval)]);
    setup.entries(|entry| entry.tools.require_approval = vec!["*".to_owned()]).start().await
}

fn working() -> Arc<ScriptedPeer> {
    ScriptedPeer::new("mail", async |_| text("done"))
}

/// A request of a client that cannot be asked: the decision comes from somewhere else.
fn request(world: &World) -> CallRequest {
    let mut request = world.request("mcp.mail.work");
    request.incoming.client = Arc::new(ClientFacts::default());
    request
}

async fn only_held(world: &World) -> HeldCall {
    let mut held = world.engine.store().held_calls(HeldFilter::default()).await.expect("read");
    assert_eq!(held.len(), 1);
    held.remove(0)
}

async fn approve(world: &World, held: &HeldCall) -> Result<HeldState, &'static str> {
    let verdict = HeldVerdict::Approve { arguments: None, remember: None };
    let decided = world.engine.approvals().decide(&world.caller, held.id, verdict, None).await;
    decided.map(|held| held.state).map_err(|problem| problem.code)
}

#[tokio::test(start_paused = true)]
async fn a_request_returns_with_the_held_call_when_its_wait_is_over() {
    let cases = [(None, 50_000), (Some(7), 7_000), (Some(0), 0)];
    for (wait_s, expected_ms) in cases {
        let peer = working();
        let world = world(&peer).await;
        let began = Instant::now();
        let request = CallRequest { approval_wait: wait_s.map(Duration::from_secs), ..request(&world) };
        let outcome = world.engine.call(request, &CallLink::silent()).await;
        assert_eq!((outcome_of(&outcome).as_str(), began.elapsed().as_millis()), ("held", expected_ms));
        assert_eq!(only_held(&world).await.state, HeldState::Pending);
        assert_eq!(peer.calls_ms(), Vec::<u128>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_returns_with_the_held_call_when_the_gateway_stops() {
    for progress in [ProgressMode::Observed, ProgressMode::Wanted] {
        let peer = working();
        let world = world(&peer).await;
        let (link, began) = (CallLink::silent(), Instant::now());
        let first = CallRequest { progress, ..request(&world) };
        let stop = async {
            sleep(Duration::from_secs(20)).await;
            let held = only_held(&world).await.id;
            let waiting: Vec<_> = world.engine.approvals().waiting_calls().into_values().collect();
            assert_eq!(waiting, [held]);
            world.engine.approvals().stop_waiting();
        };
        let (outcome, ()) = tokio::join!(world.engine.call(first, &link), stop);
        assert_eq!((outcome_of(&outcome).as_str(), began.elapsed().as_secs()), ("held", 20));
        assert!(world.engine.approvals().waiting_calls().is_empty());
        // Later requests do not wait either.
        assert_eq!(outcome_of(&world.engine.call(request(&world), &CallLink::silent()).await), "held");
        assert_eq!(began.elapsed().as_secs(), 20);
        assert_eq!(only_held(&world).await.state, HeldState::Pending);
        assert_eq!(peer.calls_ms(), Vec::<u128>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_wants_progress_waits_until_the_call_expires() {
    let world = world(&working()).await;
    let (link, mut events) = CallLink::new();
    let request = CallRequest { progress: ProgressMode::Wanted, ..request(&world) };
    let began = Instant::now();
    let mut progress_s = Vec::new();
    let mut call = pin!(world.engine.call(request, &link));
    let outcome = loop {
        tokio::select! {
            outcome = &mut call => break outcome,
            event = events.recv() => {
                assert!(matches!(event, Some(LinkEvent::Progress(_))));
                progress_s.push(began.elapsed().as_secs());
            }
        }
    };
    assert_eq!(outcome_of(&outcome), "call.approval-timeout");
    assert_eq!(began.elapsed(), Duration::from_secs(300));
    let every_five: Vec<u64> = (0..60).map(|number| number * 5).collect();
    assert_eq!(&progress_s[..60], every_five);
    assert_eq!(only_held(&world).await.state, HeldState::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_held_call_can_be_decided_for_300_seconds() {
    for (decided_at_ms, expected) in
        [(299_999, Ok(HeldState::Approved)), (300_000, Err("call.answer-too-late"))]
    {
        let peer = working();
        let world = world(&peer).await;
        let created_ms = world.engine.clock().now_ms();
        assert_eq!(outcome_of(&world.engine.call(request(&world), &CallLink::silent()).await), "held");
        let held = only_held(&world).await;
        assert_eq!((held.created_ms, held.expires_ms), (created_ms, Some(created_ms + 300_000)));
        assert!(created_ms >= BEGIN_MS);
        sleep(Duration::from_millis(decided_at_ms - 50_000)).await;
        world.engine.approvals().sweep().await;
        assert_eq!(approve(&world, &held).await, expected, "{decided_at_ms} ms");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(peer.calls_ms().len(), usize::from(expected.is_ok()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_runs_the_call_as_soon_as_it_is_approved() {
    let peer = working();
    let world = world(&peer).await;
    let decide = async {
        sleep(Duration::from_secs(20)).await;
        approve(&world, &only_held(&world).await).await
    };
    let began = Instant::now();
    let link = CallLink::silent();
    let (outcome, decided) = tokio::join!(world.engine.call(request(&world), &link), decide);
    assert_eq!(decided, Ok(HeldState::Approved));
    assert_eq!((outcome_of(&outcome).as_str(), began.elapsed()), ("done", Duration::from_secs(20)));
    // The gateway, which would run it two seconds later, finds it done.
    sleep(Duration::from_secs(10)).await;
    assert_eq!(peer.calls_ms(), [20_000]);
    assert_eq!(only_held(&world).await.state, HeldState::Done);
}

#[tokio::test(start_paused = true)]
async fn the_gateway_runs_a_call_at_once_if_no_request_waits() {
    let peer = working();
    let world = world(&peer).await;
    assert_eq!(outcome_of(&world.engine.call(request(&world), &CallLink::silent()).await), "held");
    sleep(Duration::from_secs(100)).await;
    assert_eq!(approve(&world, &only_held(&world).await).await, Ok(HeldState::Approved));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(peer.calls_ms(), [150_000]);
}

#[tokio::test(start_paused = true)]
async fn the_gateway_runs_a_call_that_its_request_does_not_take_up_in_two_seconds() {
    let peer = working();
    let world = world(&peer).await;
    let link = CallLink::silent();
    let mut call = pin!(world.engine.call(request(&world), &link));
    assert!(timeout(Duration::from_secs(20), &mut call).await.is_err(), "it waits");
    // From here on, the request is not polled: its client is stalled.
    assert_eq!(approve(&world, &only_held(&world).await).await, Ok(HeldState::Approved));
    sleep(Duration::from_millis(1_999)).await;
    assert_eq!(peer.calls_ms(), Vec::<u128>::new());
    sleep(Duration::from_millis(2)).await;
    assert_eq!(peer.calls_ms(), [22_000]);
    // The request comes too late, and does not run it again.
    assert_eq!(outcome_of(&call.await), "held");
    assert_eq!(peer.calls_ms(), [22_000]);
}

/// A world with an approved call whose server is down.
async fn deferred() -> (Arc<ScriptedPeer>, World, HeldCall) {
    let peer = working();
    let world = world(&peer).await;
    assert_eq!(outcome_of(&world.engine.call(request(&world), &CallLink::silent()).await), "held");
    peer.go_down();
    sleep(Duration::from_secs(10)).await;
    let held = only_held(&world).await;
    assert_eq!(approve(&world, &held).await, Ok(HeldState::Approved));
    sleep(Duration::from_millis(1)).await;
    assert!(world.engine.approvals().deferred_for(&held).is_some(), "its server is down");
    (peer, world, held)
}

/// Tries deferred calls again, and waits until they have ended.
async fn run_deferred(world: &World) {
    world.engine.approvals().run_deferred().await;
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_waits_until_its_server_is_up_again() {
    let (peer, world, _) = deferred().await;
    sleep(Duration::from_secs(3600)).await;
    run_deferred(&world).await;
    assert_eq!((peer.calls_ms(), only_held(&world).await.state), (vec![], HeldState::Approved));
    peer.come_up();
    // A server is tried again after a minute at most.
    sleep(Duration::from_secs(60)).await;
    run_deferred(&world).await;
    assert_eq!((peer.calls_ms().len(), only_held(&world).await.state), (1, HeldState::Done));
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_cannot_run_for_a_day_is_given_up() {
    let (peer, world, _) = deferred().await;
    let decided_ms = only_held(&world).await.decided_ms.expect("it was decided");
    let left_ms = decided_ms + 24 * 3_600_000 - world.engine.clock().now_ms();
    sleep(Duration::from_millis(left_ms.unsigned_abs())).await;
    run_deferred(&world).await;
    assert_eq!(only_held(&world).await.state, HeldState::Approved, "exactly a day");
    run_deferred(&world).await;
    let held = only_held(&world).await;
    assert_eq!(held.state, HeldState::Failed);
    assert_eq!(held.outcome.and_then(|outcome| outcome.code).as_deref(), Some("call.deferred-too-long"));
    assert_eq!(peer.calls_ms(), Vec::<u128>::new());
}
