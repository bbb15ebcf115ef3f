//! Clients that disconnect while their call is approved, claimed or recorded: every call still ends.

use crate::ledger::{LedgerGateway, over};
use ::http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Http, TEST_TIMEOUT, TestClient, poll};

const CALLS: u32 = 20;
/// The additional delay of each disconnect: together they cover a commit and the call itself.
const STEP: Duration = Duration::from_micros(400);

/// Waits with microsecond precision: the runtime's timers have a resolution of milliseconds.
async fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

/// Calls `write_entry` over REST; aborting the task closes the connection.
fn write(http: &Http, text: &str) -> JoinHandle<Option<(u16, Value)>> {
    let (http, body) = (http.clone(), json!({ "arguments": { "text": text }, "wait": 600 }).to_string());
    tokio::spawn(async move { http.try_post("/tools/led_write_entry/call", &body).await })
}

/// The id of the call with this text, once it is held.
async fn held(http: &Http, text: &str) -> String {
    let found = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        let mut pending = listed["approvals"].as_array()?.iter();
        let found = pending.find(|held| held["arguments"]["text"] == text)?;
        Some(found["id"].as_str()?.to_owned())
    });
    found.await.unwrap_or_else(|| panic!("{text} is not held"))
}

/// Approves a held call over REST; accepts `call.already-decided` if another answer was first.
async fn approve(http: Http, id: String) {
    let (status, answer) = http.post_json(&format!("/approvals/{id}/approve"), "{}").await;
    assert!(status == 200 || answer["code"] == "call.already-decided", "{status} {answer}");
}

/// The caller waits over REST and disconnects while another request approves.
async fn hang_up_over_rest(http: &Http, text: &str, after: Duration) -> String {
    let caller = write(http, text);
    let id = held(http, text).await;
    let approving = tokio::spawn(approve(http.clone(), id.clone()));
    pass(after).await;
    caller.abort();
    approving.await.unwrap();
    id
}

/// The caller is asked on its own stream, approves, and disconnects while the answer is processed.
async fn hang_up_over_mcp(ledger: &LedgerGateway, text: &str, after: Duration) -> String {
    let http = ledger.gateway.http();
    let client = TestClient::of(TestEra::Legacy, ledger.gateway.address).await;
    let params = json!({ "name": "led_write_entry", "arguments": { "text": text } });
    let (_, mut stream) = client.start("tools/call", params).await.into_events();
    let question = stream.next_within(TEST_TIMEOUT).await.expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let id = held(&http, text).await;
    let answering = tokio::spawn(async move {
        let accept = json!({ "action": "accept", "content": { "decision": "approve" } });
        client.reply(&question["id"], accept).await
    });
    pass(after).await;
    drop(stream);
    answering.await.unwrap();
    // An answer that came too late was not accepted: the call is still held.
    approve(http, id.clone()).await;
    id
}

/// How often the server wrote an entry of this text.
fn written(ledger: &LedgerGateway, text: &str) -> usize {
    ledger.entries().iter().filter(|entry| entry.split(' ').next() == Some(text)).count()
}

/// The audit rows of calls.
async fn rows(http: &Http) -> Vec<Value> {
    let page = http.get_json("/audit?kind=call&limit=1000").await;
    page["rows"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

/// Kills the gateway: an unfinished call would be found at the next start and recorded as `unknown`.
async fn assert_nothing_was_left_open(ledger: LedgerGateway) {
    let entries = ledger.entries();
    let ledger = ledger.survive().await.ready().await;
    let rows = rows(&ledger.gateway.http()).await;
    assert!(rows.iter().all(|row| row["outcome"] != "unknown"), "{rows:?}");
    assert_eq!(ledger.entries(), entries, "nothing ran at the next start");
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

#[tokio::test]
async fn clients_that_hang_up_at_an_approval_leave_no_held_call_unfinished() {
    let ledger = LedgerGateway::start(json!({ "approval": { "default": "writes" } })).await.ready().await;
    let http = ledger.gateway.http();
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let after = STEP * number;
        let (rest, mcp) = (format!("rest-{number}"), format!("mcp-{number}"));
        calls.push((hang_up_over_rest(&http, &rest, after).await, rest));
        calls.push((hang_up_over_mcp(&ledger, &mcp, after).await, mcp));
    }
    for (id, text) in &calls {
        let ended = over(&http, id).await;
        let times = written(&ledger, text);
        match ended["outcome"]["kind"].as_str() {
            Some("done") => assert_eq!((&ended["state"], times), (&json!("done"), 1), "{text}: {ended}"),
            // It may have been sent before its client disconnected.
            Some("cancelled") => assert!(times <= 1, "{text} ran {times} times"),
            _ => panic!("{text} is neither done nor cancelled: {ended}"),
        }
    }
    assert_nothing_was_left_open(ledger).await;
}

#[tokio::test]
async fn clients_that_hang_up_while_an_intent_is_written_leave_no_call_open() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let http = ledger.gateway.http();
    let mut events = http.send(Method::GET, "/events?types=tool.call", &[], "").await.events();
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let text = format!("call-{number}");
        let caller = write(&http, &text);
        // The event is emitted right before the intent is written.
        let event = events.next_within(TEST_TIMEOUT).await.expect("the call is made");
        pass(STEP * number).await;
        caller.abort();
        calls.push((event["call"].as_str().unwrap_or_else(|| panic!("{event}")).to_owned(), text));
    }
    for (id, text) in &calls {
        let ended = poll(TEST_TIMEOUT, || async {
            rows(&http).await.into_iter().find(|row| row["call_id"] == id.as_str())
        });
        let row = ended.await.unwrap_or_else(|| panic!("{text} has no row"));
        let times = written(&ledger, text);
        match row["outcome"].as_str() {
            Some("done") => assert_eq!(times, 1, "{text}: {row}"),
            Some("cancelled") => assert!(times <= 1, "{text} ran {times} times"),
            _ => panic!("{text} is neither done nor cancelled: {row}"),
        }
    }
    assert_nothing_was_left_open(ledger).await;
}
