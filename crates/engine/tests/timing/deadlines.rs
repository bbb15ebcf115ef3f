//! The deadline of a call: where it comes from, what extends it, and what does not count.

use crate::peer::{Reply, ScriptedPeer, text};
use crate::world::{MAX_CALL, Setup, outcome_of};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use toolbooth_core::json::RawJson;
use toolbooth_core::manifest::Overlay;
use toolbooth_engine::CallRequest;
use toolbooth_upstream::CallLink;
use toolbooth_upstream::connection::ProgressMode;
use toolbooth_upstream::link::LinkEvent;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn the_most_specific_timeout_applies() {
    // The server's `timeout`, its `default_timeout` for tools, the manifest's timeout of the tool.
    let cases = [
        (None, None, None, 30_000),
        (Some(7), None, None, 7_000),
        (Some(7), Some(5), None, 5_000),
        (Some(7), Some(5), Some(9), 9_000),
    ];
    for (of_server, of_tools, of_manifest, expected_ms) in cases {
        let peer = ScriptedPeer::new("mail", async |_| Reply::Silence);
        let mut setup = Setup::with(&[&peer]).entries(|entry| {
            entry.timeout = of_server.map_or(entry.timeout, seconds);
            entry.defaults.default_timeout = of_tools.map(seconds);
        });
        if let Some(timeout) = of_manifest {
            setup = setup
                .overlay("mcp.mail.work", Overlay { timeout: Some(seconds(timeout)), ..Overlay::default() });
        }
        let world = setup.start().await;
        let outcome = world.call("mcp.mail.work").await;
        assert_eq!(
            outcome,
            ("call.timeout".to_owned(), expected_ms),
            "{of_server:?} {of_tools:?} {of_manifest:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_deadline_up_to_the_hard_limit() {
    // The number of progress notifications, one every 8 s, and when a call with a timeout of 10 s ends. Each extension
    // begins when the deadline would have passed.
    let cases: [(u32, Duration); 4] =
        [(0, seconds(10)), (1, seconds(20)), (3, seconds(40)), (u32::MAX, MAX_CALL)];
    for (notifications, expected) in cases {
        let peer = ScriptedPeer::new("mail", move |call| async move {
            for step in 0..notifications {
                sleep(seconds(8)).await;
                call.progress(step).await;
            }
            Reply::Silence
        });
        let world = Setup::with(&[&peer]).entries(|entry| entry.timeout = seconds(10)).start().await;
        let (link, _events) = CallLink::new();
        let request = CallRequest { progress: ProgressMode::Wanted, ..world.request("mcp.mail.work") };
        let began = Instant::now();
        let outcome = world.engine.call(request, &link).await;
        assert_eq!(outcome_of(&outcome), "call.timeout");
        assert_eq!(began.elapsed(), expected, "{notifications} notifications");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_client_is_asked_does_not_count() {
    let peer = ScriptedPeer::new("mail", async |call| {
        if call.earlier > 0 {
            return Reply::Silence;
        }
        sleep(seconds(5)).await;
        let form = json!({
            "mode": "form", "message": "Which one?",
            "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
        });
        let ask = json!({ "method": "elicitation/create", "params": form });
        Reply::Result(json!({
            "resultType": "input_required", "inputRequests": { "which": ask }, "requestState": "s",
        }))
    });
    let world = Setup::with(&[&peer]).start().await;
    let (link, mut events) = CallLink::new();
    let began = Instant::now();
    let client = async {
        let Some(LinkEvent::Question(question)) = events.recv().await else { panic!("no question") };
        assert_eq!(began.elapsed(), seconds(5));
        sleep(seconds(301)).await;
        let answer = json!({ "action": "accept", "content": { "name": "x" } });
        question.reply.send(Ok(RawJson::from_value(&answer))).expect("the call still waits");
        std::future::pending::<()>().await
    };
    let outcome = tokio::select! {
        outcome = world.engine.call(world.request("mcp.mail.work"), &link) => outcome,
        () = client => unreachable!(),
    };
    assert_eq!(outcome_of(&outcome), "call.timeout");
    // 30 s of the server, of which 5 s passed before the question, and 301 s of the client.
    assert_eq!(began.elapsed(), seconds(30 + 301));
    assert_eq!(peer.calls_ms(), [0, 306_000]);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_tool_that_takes_one_call_at_a_time_counts() {
    let peer = ScriptedPeer::new("mail", async |_| {
        sleep(seconds(20)).await;
        text("done")
    });
    let world =
        Setup::with(&[&peer]).entries(|entry| entry.defaults.allow_parallel = Some(false)).start().await;
    let (first, second) = tokio::join!(world.call("mcp.mail.work"), world.call("mcp.mail.work"));
    assert_eq!(first, ("done".to_owned(), 20_000));
    assert_eq!(second, ("call.timeout".to_owned(), 30_000), "10 s were left");
    assert_eq!(peer.calls_ms(), [0, 20_000]);
}

#[tokio::test(start_paused = true)]
async fn a_request_state_is_valid_for_ten_minutes() {
    use toolbooth_engine::request_state::{OpenStateError, StateBinding, StateTarget};
    let peer = ScriptedPeer::new("mail", async |_| text("done"));
    let world = Setup::with(&[&peer]).start().await;
    let binding = StateBinding::new(&world.caller, "tools/call", "x", None);
    let target = StateTarget::Upstream { state: None };
    let seal = || world.engine.states().seal(target.clone(), &binding).expect("sealed");
    let (first, second) = (seal(), seal());
    sleep(seconds(600)).await;
    assert_eq!(world.engine.states().open(&first, &binding).await, Ok(target.clone()));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(world.engine.states().open(&second, &binding).await, Err(OpenStateError::Over));
}
