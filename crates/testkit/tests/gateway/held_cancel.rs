//! Held calls whose gateway stops, whose caller cancels, or whose question is interrupted.

use crate::ledger::LedgerGateway;
use crate::token_users::{read, run};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::terminal::Terminal;
use toolbooth_testkit::world::{Home, Http, TEST_TIMEOUT, TestClient, poll};

fn asks_for_writes() -> Value {
    json!({ "approval": { "default": "writes", "wait_seconds": 600, "expires_seconds": 600 } })
}

/// Calls `write_entry` over REST.
async fn write(http: &Http, text: &str, wait: u64) -> (u16, Value) {
    let body = json!({ "arguments": { "text": text }, "wait": wait }).to_string();
    http.post_json("/tools/led_write_entry/call", &body).await
}

/// Waits until so many calls are pending; returns their ids.
async fn pending(http: &Http, count: usize) -> Vec<String> {
    let found = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        let ids = listed["approvals"].as_array().into_iter().flatten().filter_map(|held| held["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        (ids.len() == count).then_some(ids)
    });
    found.await.unwrap_or_else(|| panic!("there are not {count} held calls"))
}

/// The callers get the ids of their held calls, and the gateway does not wait for people.
#[tokio::test]
async fn stopping_gateway_answers_calls_that_wait_for_a_person() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let http = ledger.gateway.http();
    let over_rest = tokio::spawn({
        let http = http.clone();
        async move { write(&http, "rest", 600).await }
    });
    let client = TestClient::with_capabilities(TestEra::Modern, ledger.gateway.address, json!({})).await;
    let over_mcp =
        tokio::spawn(async move { client.call("led_write_entry", json!({ "text": "mcp" })).await });
    let mut held = pending(&http, 2).await;
    held.sort();
    let LedgerGateway { home, gateway } = ledger;
    let (status, took) = gateway.stop().await;
    assert!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}");
    let (status, answer) = over_rest.await.unwrap();
    assert_eq!((status, &answer["kind"]), (202, &json!("approval")), "{answer}");
    let transcript = over_mcp.await.unwrap();
    let mut answered = [&answer["held"], &transcript.result()["_meta"]["toolbooth/held"]["id"]]
        .map(|id| id.as_str().expect("the id of the held call").to_owned());
    answered.sort();
    assert_eq!(answered.to_vec(), held);

    let gateway = home.start().await;
    let http = gateway.http();
    let records = http.get_json("/calls?outcome=held").await;
    assert_eq!(records["calls"].as_array().map(Vec::len), Some(2), "{records}");
    let record = http.get_json(&format!("/calls/{}", answer["call"].as_str().expect("an id"))).await;
    assert_eq!(record["held"], answer["held"], "{record}");
    assert_eq!(pending(&http, 2).await.len(), 2);
}

/// The request has ended by then, so only the store knows the call.
#[tokio::test]
async fn answered_held_call_is_cancelled_by_its_id_or_that_of_its_call() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let http = ledger.gateway.http();
    for key in ["held", "call"] {
        let (status, answer) = write(&http, key, 0).await;
        assert_eq!(status, 202, "{answer}");
        let path = format!("/calls/{}/cancel", answer[key].as_str().expect("an id"));
        let (status, cancelled) = http.post_json(&path, "").await;
        assert_eq!((status, &cancelled["state"]), (202, &json!("cancelled")), "{key}: {cancelled}");
        assert_eq!(cancelled["held"], answer["held"], "{key}: {cancelled}");
        let (status, again) = http.post_json(&path, "").await;
        assert_eq!((status, &again["code"]), (409, &json!("call.already-decided")), "{key}: {again}");
    }
    // A repeated call waits for the held call of the first one.
    let (_, first) = write(&http, "again", 0).await;
    let (_, second) = write(&http, "again", 0).await;
    assert_eq!(first["held"], second["held"]);
    let path = format!("/calls/{}/cancel", second["call"].as_str().expect("an id"));
    assert_eq!(http.post_json(&path, "").await.0, 202);
    // On the command line, a part of the id is enough.
    let (_, answer) = write(&http, "command", 0).await;
    let id = answer["held"].as_str().expect("an id");
    let output = ledger.run(&["calls", "cancel", &id[id.len() - 8..]]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "Cancelled. The call waited for approval and was not run.\n");
    assert_eq!(http.get_json("/approvals?state=pending").await["approvals"], json!([]));
    let unknown = "/calls/00000000-0000-7000-8000-000000000000/cancel";
    let (status, problem) = http.post_json(unknown, "").await;
    assert_eq!((status, &problem["code"]), (404, &json!("call.unknown")), "{problem}");
    assert!(ledger.entries().is_empty());
}

#[tokio::test]
async fn call_that_waits_for_a_person_is_listed_as_held_and_cancelled_by_that_id() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let http = ledger.gateway.http();
    let call = tokio::spawn({
        let http = http.clone();
        async move { write(&http, "never", 600).await }
    });
    let held = pending(&http, 1).await.remove(0);
    let listed = poll(TEST_TIMEOUT, || async {
        let running = http.get_json("/calls/running").await;
        (running["calls"][0]["state"] == "held").then(|| running["calls"][0].clone())
    });
    let listed = listed.await.expect("a held call");
    assert_eq!(listed["held"], json!(held), "{listed}");
    let (status, cancelled) = http.post_json(&format!("/calls/{held}/cancel"), "").await;
    assert_eq!((status, &cancelled["state"]), (202, &json!("cancelled")), "{cancelled}");
    let (status, problem) = call.await.unwrap();
    assert_eq!((status, &problem["code"]), (409, &json!("call.cancelled")), "{problem}");
    let title = problem["title"].as_str().unwrap_or_default();
    assert!(title.ends_with("was cancelled while it waited for approval; it was not run"), "{title}");
    assert_eq!(http.get_json("/approvals?state=pending").await["approvals"], json!([]));
}

/// Otherwise the call would stay held and could still be approved.
#[tokio::test]
async fn interrupted_question_rejects_the_call() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let mut command = ledger.home.command("call");
    command.args(["led_write_entry", "text=never"]);
    let mut terminal = Terminal::run(command).unwrap();
    terminal.wait_for_text("Run it? [y/N/e(dit)] ").await;
    terminal.interrupt();
    terminal.wait_for_text("interrupted with Ctrl+C").await;
    assert_eq!(terminal.wait_for_exit().await, Some(3));
    let listed = ledger.gateway.http().get_json("/approvals").await;
    assert_eq!(listed["approvals"][0]["state"], "rejected", "{listed}");
    assert!(ledger.entries().is_empty());
}

/// It accepts no connections then, but its process still uses the store.
#[tokio::test]
async fn status_says_that_the_gateway_is_stopping() {
    let home = Home::new(&[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let params = json!({ "name": "srv_slow", "arguments": { "ms": 4000, "steps": 50 }, "_meta": { "progressToken": 1 } });
    let call = client.start("tools/call", params).await;
    gateway.signal(Signal::SIGTERM);
    let stopping = poll(TEST_TIMEOUT, || async {
        let output = run(&home, &["status", "--json"], None);
        let status = read(&output);
        (status["stopping"] == true).then_some((output.status.code(), status))
    });
    let (code, status) = stopping.await.expect("a gateway that is stopping");
    assert_eq!((code, &status["running"]), (Some(5), &json!(false)), "{status}");
    assert_eq!(call.finish().await.text(), "Done in 50 steps.");
    assert!(gateway.gone().await.0.success());
    let status = read(&run(&home, &["status", "--json"], None));
    assert_eq!((&status["running"], status.get("stopping")), (&json!(false), None), "{status}");
}
