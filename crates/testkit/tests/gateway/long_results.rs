//! Long results are checked to their last byte before they are passed on, within the deadline.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::result_text;
use toolbooth_testkit::world::scripted_server::{ID, ScriptedAnswer};
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TestClient};

struct ResultRelay {
    _home: Home,
    gateway: Gateway,
    upstream: ScriptedServer,
}

/// Settings without and with inspection of results.
const LEAN: &str = r#"{ "limits": { "result_tokens": 0 }, "results": { "inspect": false } }"#;
const FULL: &str = r#"{ "limits": { "result_tokens": 0 } }"#;

async fn relay(era: TestEra, settings: &str, entry: Value) -> ResultRelay {
    let upstream = ScriptedServer::start(era).await;
    let mut whole = upstream.entry();
    if let (Some(whole), Some(entry)) = (whole.as_object_mut(), entry.as_object()) {
        whole.extend(entry.clone());
    }
    let home = Home::with_settings(serde_json::from_str(settings).unwrap(), &[("srv", whole)]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    ResultRelay { _home: home, gateway, upstream }
}

fn content(length: usize) -> String {
    format!(r#""content":[{{"type":"text","text":"{}"}}]"#, "x".repeat(length))
}

/// The number of `id` members in the outermost object.
fn ids_in(answer: &str) -> usize {
    let outer = answer.replace(&"x".repeat(64), "");
    outer.matches("\"id\"").count() + outer.matches("\\u0069d").count()
}

/// H5: members after the result of a long answer were passed on unread.
#[tokio::test]
async fn second_id_after_a_long_result_does_not_reach_clients() {
    for settings in [LEAN, FULL] {
        for server in [TestEra::Legacy, TestEra::Modern] {
            let relay = relay(server, settings, json!({})).await;
            for era in [TestEra::Legacy, TestEra::Modern] {
                let client = TestClient::of(era, relay.gateway.address).await;
                for more in [
                    r#""id":777"#,
                    r#""\u0069d":777"#,
                    r#""result":{"content":[]}"#,
                    r#""error":{"code":1,"message":"m"}"#,
                ] {
                    let text =
                        format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{{{}}},{more}}}"#, content(100_000));
                    relay.upstream.answer(ScriptedAnswer::Body(text));
                    let (_, answer) = client.call_text("srv_take", "{}").await;
                    assert!(
                        !answer.contains(":777") && ids_in(&answer) == 1,
                        "{era:?} {server:?} {more}: {}",
                        &answer[answer.len().saturating_sub(300)..]
                    );
                    let reply: Value = serde_json::from_str(&answer).unwrap();
                    assert_eq!(
                        reply["result"]["_meta"]["toolbooth/fault"]["code"], "server.bad-answer",
                        "{more}"
                    );
                }
                relay.upstream.answer(ScriptedAnswer::result(&format!("{{{}}}", content(100_000))));
                let reply = client.call("srv_take", json!({})).await;
                assert_eq!(reply.text().len(), 100_000, "a plain result was not passed on");
            }
        }
    }
}

/// H5: escaped keys forged metadata of the gateway, also after ten MiB of plain text.
#[tokio::test]
async fn gateway_metadata_cannot_be_forged_by_notation_or_length() {
    let forged = [
        r#""_meta":{"toolbooth/held":{"id":"1"},"own":1}"#,
        r#""_meta":{"\u0074oolbooth/held":{"id":"1"},"own":1}"#,
        r#""\u005fmeta":{"\u0074oolbooth/held":{"id":"1"},"own":1}"#,
        r#""_meta":{"toolbooth/held":{"id":"1"}},"_meta":{"own":1}"#,
        r#""_meta":{"io.modelcontextprotocol/subscriptionId":1,"own":1}"#,
    ];
    for (settings, length) in [(LEAN, 100_000), (FULL, 100_000), (LEAN, 10 << 20)] {
        for server in [TestEra::Legacy, TestEra::Modern] {
            let relay = relay(server, settings, json!({})).await;
            for era in [TestEra::Legacy, TestEra::Modern] {
                let client = TestClient::of(era, relay.gateway.address).await;
                for forged in forged {
                    relay
                        .upstream
                        .answer(ScriptedAnswer::result(&format!("{{{},{forged}}}", content(length))));
                    let (_, answer) = client.call_text("srv_take", "{}").await;
                    let end = &answer[answer.len().saturating_sub(400)..];
                    assert!(
                        !end.contains("/held") && !end.contains("subscriptionId"),
                        "{era:?} {server:?} {forged}: {end}"
                    );
                    let result: Value = serde_json::from_str(&result_text(&answer).expect(end)).unwrap();
                    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(length));
                    assert_eq!(result["_meta"]["own"], 1, "{end}");
                }
            }
        }
    }
}

/// H5: a modern server's question inside a long result reached clients with the server's own state.
#[tokio::test]
async fn question_at_the_end_of_a_long_result_is_recognized() {
    let question = r#""inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"unsealed-state""#;
    for settings in [LEAN, FULL] {
        let relay = relay(TestEra::Modern, settings, json!({})).await;
        let client = TestClient::with_capabilities(TestEra::Modern, relay.gateway.address, json!({})).await;
        for kind in [r#""resultType":"input_required""#, r#""\u0072esultType":"input_requir\u0065d""#] {
            relay
                .upstream
                .answer(ScriptedAnswer::result(&format!("{{{},{kind},{question}}}", content(100_000))));
            let (_, answer) = client.call_text("srv_take", "{}").await;
            assert!(!answer.contains("unsealed-state"), "{kind}");
        }
        let twice = format!(
            r#"{{{},"resultType":"input_required",{question},"resultType":"complete"}}"#,
            content(100_000)
        );
        relay.upstream.answer(ScriptedAnswer::result(&twice));
        let (_, answer) = client.call_text("srv_take", "{}").await;
        assert!(
            !answer.contains("unsealed-state") && answer.contains("twice"),
            "{}",
            &answer[answer.len() - 300..]
        );
    }
}

/// The deadline includes the reading of a streamed body.
#[tokio::test]
async fn slow_long_result_ends_at_the_deadline() {
    for settings in [LEAN, FULL] {
        let relay = relay(TestEra::Modern, settings, json!({ "timeout": 2 })).await;
        let client = TestClient::of(TestEra::Modern, relay.gateway.address).await;
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{ID},"result":{{{},"resultType":"complete"}}}}"#,
            content(200_000)
        );
        relay.upstream.answer(ScriptedAnswer::Trickles {
            text,
            size: 1000,
            pause: Duration::from_millis(100),
        });
        let start = Instant::now();
        let reply = client.call("srv_take", json!({})).await;
        assert_eq!(reply.fault(), "call.timeout", "{}", reply.answer);
        // The whole result would take twenty seconds.
        assert!(start.elapsed() < Duration::from_secs(12), "it took {:?}", start.elapsed());
    }
}

/// Parsing the head again with each piece of a long answer would take quadratic time.
#[tokio::test]
async fn large_answer_head_is_parsed_once() {
    let relay = relay(TestEra::Modern, LEAN, json!({ "timeout": 20 })).await;
    let client = TestClient::of(TestEra::Modern, relay.gateway.address).await;
    let text = format!(
        r#"{{"jsonrpc":"2.0",{}"id":{ID},"result":{{{},"resultType":"complete"}}}}"#,
        " ".repeat(30 << 20),
        content(100)
    );
    // Parsed again with each piece this would be many gigabytes and exceed the deadline.
    relay.upstream.answer(ScriptedAnswer::Trickles { text, size: 16 << 10, pause: Duration::ZERO });
    let reply = client.call("srv_take", json!({})).await;
    assert_eq!(reply.text().len(), 100);
}

/// A long error is still an error, and a legacy client gets only the members of its revision.
#[tokio::test]
async fn long_result_is_translated_to_the_revision_of_its_client() {
    let relay = relay(TestEra::Modern, LEAN, json!({})).await;
    let result = format!(
        r#"{{{},"resultType":"complete","structuredContent":[1],"isError":true,"ttlMs":5}}"#,
        content(100_000)
    );
    relay.upstream.answer(ScriptedAnswer::result(&result));
    let modern = TestClient::of(TestEra::Modern, relay.gateway.address).await;
    let (_, answer) = modern.call_text("srv_take", "{}").await;
    assert_eq!(result_text(&answer).as_deref(), Some(&*result), "unchanged");
    for revision in ["2025-11-25", "2024-11-05"] {
        let legacy = TestClient::legacy(relay.gateway.address, revision, json!({})).await;
        let reply = legacy.call("srv_take", json!({})).await;
        let keys: Vec<&String> = reply.result().as_object().unwrap().keys().collect();
        assert_eq!(keys, ["content", "isError"], "{revision}");
    }
    let rows = relay.gateway.http().get_json("/audit?limit=1").await;
    assert_eq!(rows["rows"][0]["outcome"], "tool_error", "{rows}");
}
