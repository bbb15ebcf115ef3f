//! Event streams: callers receive only their own events, in order, and can resume.

use crate::ledger::LedgerGateway;
use crate::token_users::{TokenUsers, bearer, read, run};
use ::http::Method;
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::events::EventReader;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

/// How long a stream must be idle before it counts as quiet.
const QUIET: Duration = Duration::from_millis(700);

async fn open(http: &Http, query: &str, headers: &[(&str, &str)]) -> EventReader {
    let reply = http.send(Method::GET, &format!("/events{query}"), headers, "").await;
    assert_eq!(reply.status, 200);
    assert!(reply.is_events());
    reply.events()
}

async fn next(events: &mut EventReader) -> Value {
    events.next_within(TEST_TIMEOUT).await.expect("an event in time")
}

/// The next event of a type.
async fn next_of(events: &mut EventReader, kind: &str) -> Value {
    loop {
        let event = next(events).await;
        if event["type"] == kind {
            return event;
        }
    }
}

/// All events until the stream is quiet.
async fn all(events: &mut EventReader) -> Vec<Value> {
    let mut heard = Vec::new();
    while let Some(event) = events.next_within(QUIET).await {
        heard.push(event);
    }
    heard
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

async fn client(gateway: &Gateway) -> TestClient {
    TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await
}

#[tokio::test]
async fn stream_resumes_after_the_last_event_id() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let (http, caller) = (gateway.http(), client(&gateway).await);
    let mut events = open(&http, "?types=tool.*", &[]).await;
    caller.call("good_ok", json!({})).await;
    let (call, result) = (next(&mut events).await, next(&mut events).await);
    assert_eq!((&call["type"], &result["type"]), (&json!("tool.call"), &json!("tool.result")));
    for event in [&call, &result] {
        assert_eq!((&event["server"], &event["tool"]), (&json!("good"), &json!("ok")), "{event}");
        assert!(event["user"].is_string() && event["at_ms"].is_u64(), "{event}");
    }
    assert_eq!(call["call"], result["call"]);
    assert_eq!(result["outcome"], "done");
    assert!(result["duration_ms"].as_f64().unwrap() > 0.0, "{result}");
    drop(events);

    // Events without a follower are kept for resumption.
    caller.call("good_ok", json!({})).await;
    caller.call("good_nothing", json!({})).await;
    let last = result["id"].as_str().unwrap();
    let mut by_header = open(&http, "?types=tool.*", &[("last-event-id", last)]).await;
    let mut by_query = open(&http, &format!("?types=tool.result,tool.call&last_event_id={last}"), &[]).await;
    let missed = all(&mut by_header).await;
    assert_eq!(kinds(&missed), ["tool.call", "tool.result", "tool.result"]);
    assert_eq!(missed, all(&mut by_query).await);
    assert_eq!((&missed[2]["outcome"], &missed[2]["code"]), (&json!("refused"), &json!("call.unknown-tool")));
    assert_eq!((&missed[2]["tool"], missed[2].get("server")), (&json!("good_nothing"), None));

    // After a restart the id is unknown, and the stream begins with a gap event.
    drop((by_header, by_query));
    gateway.stop().await;
    let gateway = home.start().await;
    let mut events = open(&gateway.http(), "", &[("last-event-id", last)]).await;
    let gap = next(&mut events).await;
    assert_eq!((&gap["type"], &gap["reason"]), (&json!("events.gap"), &json!("another-run")), "{gap}");
    let connected = next_of(&mut events, "server.connected").await;
    assert_eq!((&connected["server"], connected["data"]["tools"].is_u64()), (&json!("good"), true));

    for (query, code) in [("?last_event_id=7", "events.bad-id"), ("?types=tools.*", "events.unknown-type")] {
        let reply = gateway.http().send(Method::GET, &format!("/events{query}"), &[], "").await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.json().await["code"], code);
    }
}

#[tokio::test]
async fn users_receive_only_their_own_events_and_administrators_all() {
    let known = TokenUsers::start().await;
    let http = |token: &str| Http::new(known.gateway.address).sending(&bearer(token));
    let people = [("ann", &known.ann.0), ("bob", &known.bob), ("cat", &known.cat), ("root", &known.root)];
    let mut streams = Vec::new();
    for (user, token) in people {
        streams.push((user, token, open(&http(token), "", &[]).await));
    }
    let secret = "what-only-the-server-may-see";
    for (token, tool) in [(&known.ann.0, "desk_echo"), (&known.bob, "vault_echo"), (&known.cat, "open_echo")]
    {
        for era in [TestEra::Legacy, TestEra::Modern] {
            let transcript = known.client(era, token).await.call(tool, json!({ "message": secret })).await;
            assert!(transcript.code().is_none(), "{}", transcript.answer);
        }
        // Hidden tools are not in events either.
        known.client(TestEra::Modern, token).await.call("vault_nothing", json!({})).await;
    }
    known.gateway.act("desk", "restart").await;
    known.gateway.connected(&["desk"]).await;
    known.home.write_config("{ this is not a configuration");
    let (status, _) = known.gateway.http().post_json("/servers/reload", "").await;
    assert_ne!(status, 200);

    let sees: [(&str, &[&str]); 4] =
        [("ann", &["desk", "open"]), ("bob", &["open", "vault"]), ("cat", &["open"]), ("root", &[])];
    for ((user, token, mut stream), (_, servers)) in streams.into_iter().zip(sees) {
        let heard = all(&mut stream).await;
        let recent = http(token).get_json("/events/recent?limit=1000").await;
        let recent = recent["events"].as_array().unwrap().clone();
        for event in heard.iter().chain(&recent) {
            assert!(!event.to_string().contains(secret), "an event contains an argument: {event}");
            if user == "root" {
                continue;
            }
            assert!(event.get("user").is_none_or(|of| of == user), "{user} received {event}");
            let server = event["server"].as_str();
            assert!(server.is_none_or(|server| servers.contains(&server)), "{user} received {event}");
            assert_ne!(event["type"], "config.error", "{user}");
        }
        let heard_of = |kind: &str| heard.iter().filter(|event| event["type"] == kind).count();
        match user {
            "root" => {
                assert_eq!(heard_of("tool.result"), 9, "{:?}", kinds(&heard));
                assert!(heard_of("config.error") >= 1, "{:?}", kinds(&heard));
                assert!(recent.len() > heard.len(), "recent events include the start of the gateway");
            }
            _ => assert_eq!((heard_of("tool.call"), heard_of("tool.result")), (2, 3), "{user}"),
        }
        let restarted =
            heard.iter().any(|event| event["server"] == "desk" && event["type"] == "server.connected");
        assert_eq!(restarted, matches!(user, "ann" | "root"), "{user}");
    }
}

#[tokio::test]
async fn event_streams_are_limited_and_end_with_the_token() {
    let known = TokenUsers::start().await;
    let ann = Http::new(known.gateway.address).sending(&bearer(&known.ann.0));
    let mut streams = Vec::new();
    for _ in 0..32 {
        streams.push(open(&ann, "?types=call.*", &[]).await);
    }
    let reply = ann.send(Method::GET, "/events", &[], "").await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json().await["code"], "events.too-many-streams");
    let bob = Http::new(known.gateway.address).sending(&bearer(&known.bob));
    let mut other = open(&bob, "?types=call.*", &[]).await;
    streams.truncate(1);
    let reopened = poll(TEST_TIMEOUT, || async {
        (ann.send(Method::GET, "/events", &[], "").await.status == 200).then_some(())
    });
    assert!(reopened.await.is_some(), "a closed stream frees its place");

    let path = format!("/tokens/{}", known.ann.1);
    assert_eq!(known.gateway.http().send(Method::DELETE, &path, &[], "").await.status, 200);
    let ended = tokio::time::timeout(Duration::from_secs(5), streams[0].next()).await;
    assert_eq!(ended, Ok(None), "the stream ends when its token is revoked");
    assert!(tokio::time::timeout(QUIET, other.next()).await.is_err(), "streams of other users stay open");
    assert_eq!(ann.send(Method::GET, "/events", &[], "").await.status, 401);
}

#[tokio::test]
async fn approvals_and_plans_emit_events() {
    let settings = json!({ "approval": { "default": "writes", "wait_seconds": 0, "expires_seconds": 2 } });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let mut events = open(&ledger.gateway.http(), "?types=call.*,plan.*,tool.result", &[]).await;
    let caller = client(&ledger.gateway).await;
    let held = |transcript: toolbooth_testkit::world::Transcript| {
        transcript.result()["_meta"]["toolbooth/held"]["id"].as_str().unwrap_or_default().to_owned()
    };
    for (answer, decided) in [("approve", "call.approved"), ("reject", "call.rejected")] {
        let id = held(caller.call("led_write_entry", json!({ "text": answer })).await);
        let event = next_of(&mut events, "call.held").await;
        assert_eq!((&event["call"], &event["tool"]), (&json!(id), &json!("write_entry")), "{event}");
        ledger.gateway.http().post_json(&format!("/approvals/{id}/{answer}"), "").await;
        let event = next_of(&mut events, decided).await;
        assert_eq!(event["call"], id.as_str());
        assert_eq!(event["data"]["by"], event["user"], "{event}");
    }
    let id = held(caller.call("led_write_entry", json!({ "text": "late" })).await);
    assert_eq!(next_of(&mut events, "call.held").await["call"], id.as_str());
    let over = poll(TEST_TIMEOUT, || async {
        // A request is enough to expire an overdue held call.
        let listed = ledger.gateway.http().get_json("/approvals?state=pending").await;
        listed["approvals"].as_array()?.is_empty().then_some(())
    });
    assert!(over.await.is_some());
    let expired = next_of(&mut events, "call.expired").await;
    assert_eq!((&expired["type"], &expired["call"]), (&json!("call.expired"), &json!(id)));

    assert!(ledger.run(&["plan", "on"]).status.success());
    assert_eq!(next(&mut events).await["type"], "plan.created");
    caller.call("led_write_entry", json!({ "text": "planned" })).await;
    let queued = next_of(&mut events, "plan.queued").await;
    assert_eq!(queued["data"]["step"], 1, "{queued}");
    assert!(ledger.run(&["plan", "approve", "all"]).status.success());
    assert_eq!(next_of(&mut events, "plan.approved").await["data"]["step"], 1);
    let done = next_of(&mut events, "plan.done").await;
    assert_eq!((&done["outcome"], &done["call"]), (&json!("done"), &queued["call"]), "{done}");
    assert!(ledger.run(&["plan", "off"]).status.success());
    assert_eq!(next_of(&mut events, "plan.closed").await["data"]["plan"], queued["data"]["plan"]);
}

#[tokio::test]
async fn changed_tool_emits_an_event() {
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    let home = Home::new(&[("srv", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    assert!(poll(TEST_TIMEOUT, || async { upstream.has_subscribers().then_some(()) }).await.is_some());
    let mut events = open(&gateway.http(), "?types=tool.changed&types=catalog.changed", &[]).await;
    let tool = |name: &str, about: &str| json!({ "name": name, "description": about, "inputSchema": { "type": "object" } });
    upstream.list(json!([tool("take", "Takes something else."), tool("give", "Gives.")]).to_string());
    upstream.announce("notifications/tools/list_changed");
    let changed = next(&mut events).await;
    assert_eq!((&changed["type"], &changed["tool"]), (&json!("tool.changed"), &json!("take")), "{changed}");
    let catalog = next(&mut events).await;
    let expected = json!({ "tools": 2, "added": 1, "removed": 0, "changed": 1 });
    assert_eq!((&catalog["server"], &catalog["data"]), (&json!("srv"), &expected), "{catalog}");
}

#[tokio::test]
async fn cli_follows_events_and_reconnects_after_a_restart() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let without_gateway = run(&home, &["events"], None);
    assert_eq!(
        without_gateway.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&without_gateway.stderr)
    );
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    client(&gateway).await.call("good_ok", json!({})).await;
    let output = run(&home, &["events", "--types", "tool.*"], None);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() == 2 && lines[1].contains("tool.result") && lines[1].contains("good.ok  done"),
        "{text}"
    );
    let listed = read(&run(&home, &["events", "--types", "tool.*", "--json"], None));
    let first = listed["events"][0]["id"].as_str().unwrap();
    let after = read(&run(&home, &["events", "--types", "tool.*", "--json", "--since", first], None));
    assert_eq!(after["events"].as_array().unwrap().len(), 1, "{after}");

    let mut command = home.command("events");
    command.args([
        "--follow",
        "--json",
        "--types",
        "tool.result",
        "--types",
        "server.connected",
        "--since",
        first,
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut follower = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut heard = async || -> Value {
        let line = tokio::time::timeout(TEST_TIMEOUT, lines.next_line()).await.expect("a line in time");
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    };
    assert_eq!(heard().await["type"], "tool.result");
    client(&gateway).await.call("good_echo", json!({})).await;
    assert_eq!(heard().await["tool"], "echo");
    gateway.stop().await;
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    assert_eq!(heard().await["type"], "events.gap");
    assert_eq!(heard().await["type"], "server.connected");
}

// Once, progress and updates reached only the client of the call.
#[tokio::test]
async fn progress_and_updates_of_a_call_over_rest_are_events() {
    let home = Home::new(&[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    for tool in ["test_tool_with_progress", "progress_updates"] {
        let (status, answer) = gateway.http().post_json(&format!("/tools/srv_{tool}/call"), "{}").await;
        assert_eq!(status, 200, "{answer}");
    }
    let recent = async |kind: &str| {
        let recent = gateway.http().get_json(&format!("/events/recent?types={kind}")).await;
        recent["events"].as_array().unwrap().clone()
    };
    let steps = recent("tool.progress").await;
    let progress: Vec<&Value> = steps.iter().map(|step| &step["data"]["progress"]).collect();
    assert_eq!(progress, [&json!(0), &json!(50), &json!(100)], "{steps:?}");
    assert_eq!(steps[1]["data"]["message"], "Half done");
    assert!(steps.iter().all(|step| step["tool"] == "test_tool_with_progress" && step["call"].is_string()));
    let updates = recent("tool.update").await;
    let kinds: Vec<&Value> = updates.iter().map(|update| &update["data"]["type"]).collect();
    assert_eq!(kinds, ["canvas_update", "system_message", "artifacts"]);
    assert_eq!(updates[2]["data"]["artifacts"], json!(["draft.txt"]));
    assert!(!json!(updates).to_string().contains("<p>1</p>"), "events have no content");
}
