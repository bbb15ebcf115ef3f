//! Each temper of the hostile executable, met through the line reader.

use crate::support::{Client, PATIENCE, hostile};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use toolbooth_upstream::process::{Exit, Frame};

#[tokio::test]
async fn garbage_between_messages_is_passed_over() {
    let mut client = Client::connect(&["garbage"]).await;
    for number in 0..12 {
        let text = client.call("echo", json!({"n": number, "t": "ä"})).await;
        assert_eq!(text, json!({"n": number, "t": "ä"}).to_string());
    }
}

#[tokio::test]
async fn a_huge_line_is_told_at_once_and_the_next_is_read() {
    for (arguments, id_in_prefix) in [(json!({}), true), (json!({"mib": 17, "id_last": true}), false)] {
        let mut client = Client::connect(&["huge-line"]).await;
        let id = client.ask("tools/call", json!({"name": "huge", "arguments": arguments})).await;
        let Frame::TooLong { limit, prefix } = client.frame().await else { panic!("too long") };
        let Frame::Skipped { discarded, suffix } = client.frame().await else { panic!("skipped") };
        assert!(limit == 16 << 20 && discarded > 17 << 20, "{discarded}");
        let edge = if id_in_prefix { prefix } else { suffix };
        assert!(String::from_utf8(edge.to_vec()).unwrap().contains(&format!("\"id\":{id}")));
        assert_eq!(client.call("ok", json!({})).await, "ok");
    }
}

#[tokio::test]
async fn silence_is_silence() {
    let mut client = Client::new(hostile(&["silent"]));
    client.ask("initialize", json!({})).await;
    assert!(timeout(Duration::from_millis(200), client.lines.next()).await.is_err());
}

#[tokio::test]
async fn a_hanging_call_leaves_others_alone() {
    let mut client = Client::connect(&["never-answers"]).await;
    client.ask("tools/call", json!({"name": "hang"})).await;
    assert_eq!(client.call("ok", json!({})).await, "ok");
}

#[tokio::test]
async fn death_in_the_middle_of_a_line_shows_as_a_partial_one() {
    let mut client = Client::connect(&["dies"]).await;
    client.ask("tools/call", json!({"name": "die", "arguments": {"code": 9}})).await;
    let Frame::Partial(half) = client.frame().await else { panic!("half a line") };
    assert!(half.starts_with(b"{\"jsonrpc\""));
    assert_eq!(timeout(PATIENCE, client.process.wait()).await.unwrap(), Exit::Code(9));
}

#[tokio::test]
async fn wrong_ids_surround_the_right_one() {
    let mut client = Client::connect(&["id-confusion"]).await;
    for nonce in ["a", "b"] {
        assert_eq!(client.call("confuse", json!({"nonce": nonce})).await, format!("right {nonce}"));
    }
}

#[tokio::test]
async fn a_storm_of_notices_passes() {
    let mut client = Client::connect(&["storm"]).await;
    let id = client.ask("tools/call", json!({"name": "storm", "arguments": {"count": 5000}})).await;
    let mut notices = 0;
    loop {
        let message = client.message().await;
        match message["method"].as_str() {
            Some("notifications/tools/list_changed") => notices += 1,
            _ => break assert_eq!(message["id"], id),
        }
    }
    assert_eq!(notices, 5000);
}

#[tokio::test]
async fn many_tools_come_with_unreadable_ones() {
    let mut client = Client::connect(&["many-tools", "500"]).await;
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 507);
    assert_eq!(client.call("tool_499", json!({})).await, "tool_499");
}

#[tokio::test]
async fn a_slow_start_is_slow() {
    let start = Instant::now();
    Client::connect(&["slow-start", "300"]).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_flood_on_stderr_blocks_nothing_and_is_bounded() {
    let mut client = Client::connect(&["stderr-flood", "16"]).await;
    assert_eq!(client.call("flood", json!({"mib": 64})).await, "flooded");
    let lines = client.stderr.lines();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.starts_with(r"\x1b[31meee") || line.is_empty()), "{lines:?}");
    assert!(client.stderr.total() > 500_000);
}

#[tokio::test]
async fn questions_come_in_the_middle_of_calls() {
    let cases = [
        ("ask_name", "elicitation/create", json!({"action": "accept", "content": {"name": "Ann"}})),
        (
            "sample",
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "hi"}}),
        ),
        ("roots", "roots/list", json!({"roots": []})),
    ];
    let mut client = Client::connect(&["asks", "roots"]).await;
    // Sent before the handshake was even confirmed.
    assert_eq!(client.message().await["method"], "roots/list");
    for (tool, method, answer) in cases {
        let id = client.ask("tools/call", json!({"name": tool})).await;
        let question = client.message().await;
        assert_eq!(question["method"], method);
        client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        let result = client.message().await;
        let text = result["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!((&result["id"], serde_json::from_str::<Value>(text).unwrap()), (&json!(id), answer));
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_fills_its_pipe() {
    let mut client = Client::connect(&["stops-reading"]).await;
    assert_eq!(client.tools().await, ["ok"]);
    let flood = vec![b' '; 1 << 20];
    assert!(timeout(Duration::from_millis(200), client.stdin.write_all(&flood)).await.is_err());
}
