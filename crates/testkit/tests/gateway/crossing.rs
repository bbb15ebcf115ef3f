//! What must not cross from one era into the other, told by a server that says it all the same.

use crate::door::{ACCEPT, JSON, post};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::{Era, LEGACY};
use toolbooth_testkit::world::client::result_text;
use toolbooth_testkit::world::upstream::{Answer, ID};
use toolbooth_testkit::world::{Client, Gateway, Home, Upstream};

struct Pairs {
    _home: Home,
    gateway: Gateway,
    modern: Upstream,
    legacy: Upstream,
}

async fn open() -> Pairs {
    let (modern, legacy) = (Upstream::start(Era::Modern).await, Upstream::start(Era::Legacy).await);
    // Results pass unread, so that long ones are streamed.
    let settings = json!({ "limits": { "result_tokens": 0 }, "results": { "inspect": false } });
    let home = Home::with_settings(settings, &[("modern", modern.entry()), ("legacy", legacy.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["modern", "legacy"]).await;
    Pairs { _home: home, gateway, modern, legacy }
}

/// A raw question in a legacy server's result is no question, however the server spells it and however long it is.
#[tokio::test]
async fn a_legacy_server_cannot_ask_a_modern_client_in_a_result() {
    let pairs = open().await;
    let client = Client::of(Era::Modern, pairs.gateway.address).await;
    let asked = r#""inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Password?"}}}"#;
    for length in [0, 100_000] {
        let content = format!(r#""content":[{{"type":"text","text":"{}"}}]"#, "x".repeat(length));
        let results = [
            format!(r#"{{"resultType":"input_required",{asked},"requestState":"s",{content}}}"#),
            format!(r#"{{{content},"resultType":"input_required",{asked},"requestState":"s"}}"#),
            format!(r#"{{{content},"resultType":"complete","\u0072esultType":"input_required",{asked}}}"#),
        ];
        for result in results {
            pairs.legacy.answer(Answer::result(&result));
            let (status, answer) = client.call_text("legacy_take", "{}").await;
            let got = result_text(&answer).unwrap_or_default();
            assert_eq!((status, got.matches("esultType").count()), (200, 1), "{answer}");
            let got: Value = serde_json::from_str(&got).unwrap();
            assert_eq!(got["resultType"], "complete");
            assert_eq!(got["content"][0]["text"].as_str().map(str::len), Some(length));
            assert_eq!((got.get("inputRequests"), got.get("requestState")), (None, None));
        }
    }
}

/// Legacy clients know objects alone: neither schemas nor structures of anything else reach them.
#[tokio::test]
async fn legacy_clients_are_shown_no_odd_structure() {
    let pairs = open().await;
    pairs.modern.list(
        r#"[{"name":"take","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{}}},
            {"name":"even","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]"#,
    );
    pairs.modern.announce("notifications/tools/list_changed");
    let listed = async |client: &Client, name: &str| {
        let told = client.ask("tools/list", json!({})).await;
        let tools = told.result()["tools"].as_array().cloned().unwrap_or_default();
        tools.into_iter().find(|tool| tool["name"] == name)
    };
    let modern = Client::of(Era::Modern, pairs.gateway.address).await;
    let came =
        toolbooth_testkit::world::poll(toolbooth_testkit::world::PATIENCE, || listed(&modern, "modern_even"));
    came.await.expect("the new list");
    let schema = |tool: Option<Value>| tool.expect("the tool").get("outputSchema").cloned();
    assert_eq!(schema(listed(&modern, "modern_take").await), Some(json!({ "type": "array", "items": {} })));
    for length in [0, 100_000] {
        let content = format!(r#""content":[{{"type":"text","text":"{}"}}]"#, "x".repeat(length));
        for revision in ["2025-06-18", LEGACY] {
            let client = Client::legacy(pairs.gateway.address, revision, json!({})).await;
            assert_eq!(schema(listed(&client, "modern_take").await), None);
            assert_eq!(schema(listed(&client, "modern_even").await), Some(json!({ "type": "object" })));
            for result in [
                format!(r#"{{{content},"structuredContent":[1,2],"resultType":"complete"}}"#),
                format!(r#"{{"structuredContent":[1,2],{content}}}"#),
            ] {
                pairs.modern.answer(Answer::result(&result));
                let (_, answer) = client.call_text("modern_take", "{}").await;
                let expected = format!("{{{content}}}");
                assert!(
                    result_text(&answer) == Some(expected),
                    "{revision}: {}",
                    &answer[answer.len() - 80..]
                );
            }
        }
    }
}

#[tokio::test]
async fn a_result_that_is_no_object_is_a_bad_answer_in_every_pair() {
    let pairs = open().await;
    for client_era in [Era::Legacy, Era::Modern] {
        let client = Client::of(client_era, pairs.gateway.address).await;
        for (tool, server) in [("modern_take", &pairs.modern), ("legacy_take", &pairs.legacy)] {
            for odd in ["7", "[]", "\"text\"", "null"] {
                server.answer(Answer::result(odd));
                let told = client.call(tool, json!({})).await;
                assert_eq!(
                    told.fault(),
                    "server.bad-answer",
                    "{client_era:?}, {tool}, {odd}: {}",
                    told.answer
                );
            }
        }
    }
}

/// A legacy server's error that sends the user to a page is never shown raw to modern clients.
#[tokio::test]
async fn unreadable_pages_are_an_error_of_the_server() {
    let pairs = open().await;
    let urls = json!({ "elicitation": { "url": {} } });
    let client = Client::with_capabilities(Era::Modern, pairs.gateway.address, urls).await;
    for data in ["null", r#"{"elicitations":[]}"#, r#"{"elicitations":[{"url":7}]}"#] {
        pairs.legacy.answer(Answer::Body(format!(
            r#"{{"jsonrpc":"2.0","id":{ID},"error":{{"code":-32042,"message":"m","data":{data}}}}}"#
        )));
        let told = client.call("legacy_take", json!({})).await;
        assert_eq!(told.code(), Some(-31000), "{data}: {}", told.answer);
    }
}

/// Whoever asks is told under the id of the request, also where there is no session for it.
#[tokio::test]
async fn refusals_of_sessions_name_the_request() {
    let pairs = open().await;
    let client = Client::of(Era::Legacy, pairs.gateway.address).await;
    let session = client.session().unwrap();
    let body = r#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#;
    let cases = [
        (vec![JSON, ACCEPT], 400),
        (vec![JSON, ACCEPT, ("mcp-session-id", "nobody's")], 404),
        (vec![JSON, ACCEPT, ("mcp-session-id", session), ("mcp-protocol-version", "1999-01-01")], 400),
    ];
    for (headers, expected) in cases {
        let (status, _, answer) = post(&pairs.gateway, &headers, body).await;
        assert_eq!((status, &answer["id"]), (expected, &json!("mine")), "{answer}");
    }
}
