//! Each mode of `toolbooth-hostile`, read with the line reader.

use crate::support::{LineProtocolClient, TEST_TIMEOUT, hostile};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use toolbooth_upstream::process::{LineFrame, ProcessExit};

#[tokio::test]
async fn garbage_lines_are_skipped() {
    let mut client = LineProtocolClient::connect(&["garbage"]).await;
    for number in 0..12 {
        let text = client.call("echo", json!({"n": number, "t": "ä"})).await;
        assert_eq!(text, json!({"n": number, "t": "ä"}).to_string());
    }
}

#[tokio::test]
async fn huge_line_is_reported_at_once_and_the_next_is_read() {
    for (arguments, id_in_prefix) in [(json!({}), true), (json!({"mib": 17, "id_last": true}), false)] {
        let mut client = LineProtocolClient::connect(&["huge-line"]).await;
        let id = client.ask("tools/call", json!({"name": "huge", "arguments": arguments})).await;
        let LineFrame::TooLong { limit, prefix } = client.frame().await else { panic!("too long") };
        let LineFrame::Skipped { discarded, suffix } = client.frame().await else { panic!("skipped") };
        assert!(limit == 16 << 20 && discarded > 17 << 20, "{discarded}");
        let edge = if id_in_prefix { prefix } else { suffix };
        assert!(String::from_utf8(edge.to_vec()).unwrap().contains(&format!("\"id\":{id}")));
        assert_eq!(client.call("ok", json!({})).await, "ok");
    }
}

#[tokio::test]
async fn silent_server_sends_nothing() {
    let mut client = LineProtocolClient::new(hostile(&["silent"]));
    client.ask("initialize", json!({})).await;
    assert!(timeout(Duration::from_millis(200), client.lines.next()).await.is_err());
}

#[tokio::test]
async fn hanging_call_does_not_block_others() {
    let mut client = LineProtocolClient::connect(&["never-answers"]).await;
    client.ask("tools/call", json!({"name": "hang"})).await;
    assert_eq!(client.call("ok", json!({})).await, "ok");
}

#[tokio::test]
async fn exit_in_the_middle_of_a_line_gives_a_partial_frame() {
    let mut client = LineProtocolClient::connect(&["dies"]).await;
    client.ask("tools/call", json!({"name": "die", "arguments": {"code": 9}})).await;
    let LineFrame::Partial(half) = client.frame().await else { panic!("half a line") };
    assert!(half.starts_with(b"{\"jsonrpc\""));
    assert_eq!(timeout(TEST_TIMEOUT, client.process.wait()).await.unwrap(), ProcessExit::Code(9));
}

#[tokio::test]
async fn right_answer_is_found_among_wrong_ids() {
    let mut client = LineProtocolClient::connect(&["id-confusion"]).await;
    for nonce in ["a", "b"] {
        assert_eq!(client.call("confuse", json!({"nonce": nonce})).await, format!("right {nonce}"));
    }
}

#[tokio::test]
async fn storm_of_notifications_is_read() {
    let mut client = LineProtocolClient::connect(&["storm"]).await;
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
async fn many_tools_includes_invalid_tools() {
    let mut client = LineProtocolClient::connect(&["many-tools", "500"]).await;
    let answer = client.request("tools/list", json!({})).await;
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 507);
    assert_eq!(client.call("tool_499", json!({})).await, "tool_499");
}

#[tokio::test]
async fn slow_start_delays_the_handshake() {
    let start = Instant::now();
    LineProtocolClient::connect(&["slow-start", "300"]).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn stderr_flood_does_not_block_and_is_bounded() {
    let mut client = LineProtocolClient::connect(&["stderr-flood", "16"]).await;
    assert_eq!(client.call("flood", json!({"mib": 64})).await, "flooded");
    let lines = client.stderr.lines();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| line.starts_with(r"\x1b[31meee") || line.is_empty()), "{lines:?}");
    assert!(client.stderr.total() > 500_000);
}

#[tokio::test]
async fn questions_arrive_during_calls() {
    let cases = [
        ("ask_name", "elicitation/create", json!({"action": "accept", "content": {"name": "Ann"}})),
        (
            "sample",
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "hi"}}),
        ),
        ("roots", "roots/list", json!({"roots": []})),
    ];
    let mut client = LineProtocolClient::connect(&["asks", "roots"]).await;
    // Sent before the client confirmed the handshake.
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
async fn server_that_stops_reading_fills_its_pipe() {
    let mut client = LineProtocolClient::connect(&["stops-reading"]).await;
    assert_eq!(client.tools().await, ["ok"]);
    let flood = vec![b' '; 1 << 20];
    assert!(timeout(Duration::from_millis(200), client.stdin.write_all(&flood)).await.is_err());
}
