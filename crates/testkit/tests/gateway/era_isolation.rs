//! Members of one era that must not reach clients of the other era, even if a server sends them.

use crate::invalid_requests::{ACCEPT, JSON, post};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::{LEGACY, TestEra};
use toolbooth_testkit::world::client::result_text;
use toolbooth_testkit::world::scripted_server::{ID, ScriptedAnswer};
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient};

struct EraPairs {
    _home: Home,
    gateway: Gateway,
    modern: ScriptedServer,
    legacy: ScriptedServer,
}

async fn open() -> EraPairs {
    let (modern, legacy) =
        (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Legacy).await);
    // Results are passed through unparsed, so that long ones are streamed.
    let settings = json!({ "limits": { "result_tokens": 0 }, "results": { "inspect": false } });
    let home = Home::with_settings(settings, &[("modern", modern.entry()), ("legacy", legacy.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["modern", "legacy"]).await;
    EraPairs { _home: home, gateway, modern, legacy }
}

/// `input_required` in a legacy server's result is not a question, in any notation and length.
#[tokio::test]
async fn legacy_result_cannot_ask_a_modern_client() {
    let pairs = open().await;
    let client = TestClient::of(TestEra::Modern, pairs.gateway.address).await;
    let asked = r#""inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Password?"}}}"#;
    for length in [0, 100_000] {
        let content = format!(r#""content":[{{"type":"text","text":"{}"}}]"#, "x".repeat(length));
        let results = [
            format!(r#"{{"resultType":"input_required",{asked},"requestState":"s",{content}}}"#),
            format!(r#"{{{content},"resultType":"input_required",{asked},"requestState":"s"}}"#),
            format!(r#"{{{content},"resultType":"complete","\u0072esultType":"input_required",{asked}}}"#),
        ];
        for result in results {
            pairs.legacy.answer(ScriptedAnswer::result(&result));
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

/// Legacy clients support only objects: other schemas and structured content do not reach them.
#[tokio::test]
async fn legacy_clients_get_only_object_schemas_and_objects() {
    let pairs = open().await;
    pairs.modern.list(
        r#"[{"name":"take","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{}}},
            {"name":"even","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]"#,
    );
    pairs.modern.announce("notifications/tools/list_changed");
    let listed = async |client: &TestClient, name: &str| {
        let reply = client.ask("tools/list", json!({})).await;
        let tools = reply.result()["tools"].as_array().cloned().unwrap_or_default();
        tools.into_iter().find(|tool| tool["name"] == name)
    };
    let modern = TestClient::of(TestEra::Modern, pairs.gateway.address).await;
    let came = toolbooth_testkit::world::poll(toolbooth_testkit::world::TEST_TIMEOUT, || {
        listed(&modern, "modern_even")
    });
    came.await.expect("the new list");
    let schema = |tool: Option<Value>| tool.expect("the tool").get("outputSchema").cloned();
    assert_eq!(schema(listed(&modern, "modern_take").await), Some(json!({ "type": "array", "items": {} })));
    for length in [0, 100_000] {
        let content = format!(r#""content":[{{"type":"text","text":"{}"}}]"#, "x".repeat(length));
        for revision in ["2025-06-18", LEGACY] {
            let client = TestClient::legacy(pairs.gateway.address, revision, json!({})).await;
            assert_eq!(schema(listed(&client, "modern_take").await), None);
            assert_eq!(schema(listed(&client, "modern_even").await), Some(json!({ "type": "object" })));
            for result in [
                format!(r#"{{{content},"structuredContent":[1,2],"resultType":"complete"}}"#),
                format!(r#"{{"structuredContent":[1,2],{content}}}"#),
            ] {
                pairs.modern.answer(ScriptedAnswer::result(&result));
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
async fn result_that_is_not_an_object_is_a_bad_answer_in_every_pair() {
    let pairs = open().await;
    for client_era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(client_era, pairs.gateway.address).await;
        for (tool, server) in [("modern_take", &pairs.modern), ("legacy_take", &pairs.legacy)] {
            for odd in ["7", "[]", "\"text\"", "null"] {
                server.answer(ScriptedAnswer::result(odd));
                let reply = client.call(tool, json!({})).await;
                assert_eq!(
                    reply.fault(),
                    "server.bad-answer",
                    "{client_era:?}, {tool}, {odd}: {}",
                    reply.answer
                );
            }
        }
    }
}

/// A legacy server's error that sends the user to a page is never shown raw to modern clients.
#[tokio::test]
async fn invalid_url_elicitation_errors_are_server_errors() {
    let pairs = open().await;
    let urls = json!({ "elicitation": { "url": {} } });
    let client = TestClient::with_capabilities(TestEra::Modern, pairs.gateway.address, urls).await;
    for data in ["null", r#"{"elicitations":[]}"#, r#"{"elicitations":[{"url":7}]}"#] {
        pairs.legacy.answer(ScriptedAnswer::Body(format!(
            r#"{{"jsonrpc":"2.0","id":{ID},"error":{{"code":-32042,"message":"m","data":{data}}}}}"#
        )));
        let reply = client.call("legacy_take", json!({})).await;
        assert_eq!(reply.code(), Some(-31000), "{data}: {}", reply.answer);
    }
}

/// The error has the id of the request, also without a session.
#[tokio::test]
async fn session_errors_have_the_request_id() {
    let pairs = open().await;
    let client = TestClient::of(TestEra::Legacy, pairs.gateway.address).await;
    let session = client.session().unwrap();
    let body = r#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#;
    let cases = [
        (vec![JSON, ACCEPT], 400),
        (vec![JSON, ACCEPT, ("mcp-session-id", "unknown")], 404),
        (vec![JSON, ACCEPT, ("mcp-session-id", session), ("mcp-protocol-version", "1999-01-01")], 400),
    ];
    for (headers, expected) in cases {
        let (status, _, answer) = post(&pairs.gateway, &headers, body).await;
        assert_eq!((status, &answer["id"]), (expected, &json!("mine")), "{answer}");
    }
}
