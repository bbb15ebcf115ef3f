//! Negotiation between client and gateway: revisions, batches, and the request state of later rounds.

use crate::invalid_requests::{ACCEPT, JSON, open, post};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::{LEGACY, MODERN, TestEra};
use toolbooth_testkit::world::client::all_capabilities;
use toolbooth_testkit::world::{Gateway, TEST_TIMEOUT, TestClient};

#[tokio::test]
async fn batches_are_accepted_in_one_revision_only() {
    let (_home, gateway) = open().await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": "a", "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        { "jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": { "name": "srv_add", "arguments": { "a": 1, "b": 2 } } },
        { "jsonrpc": "2.0", "id": "c", "method": "tools/dance" },
    ])
    .to_string();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
        let client = TestClient::legacy(gateway.address, revision, json!({})).await;
        let reply = client.post(&batch, &[]).await;
        let status = reply.status;
        let answer = reply.json().await;
        if revision != "2025-03-26" {
            assert_eq!(
                (status, answer["error"]["code"].as_i64()),
                (400, Some(-32600)),
                "{revision}: {answer}"
            );
            continue;
        }
        assert_eq!(status, 200, "{answer}");
        let by_id = |id: &str| answer.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
        assert_eq!(answer.as_array().unwrap().len(), 3);
        assert_eq!(by_id("a")["result"], json!({}));
        assert_eq!(by_id("b")["result"]["content"][0]["text"], "3");
        assert_eq!(by_id("c")["error"]["code"], -32601);
        let only_notices = r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
        assert_eq!(client.post(only_notices, &[]).await.status, 202);
    }
}

/// The answers of a batch are sent together, so a question in the middle would deadlock: it is refused at once.
#[tokio::test]
async fn questions_inside_a_batch_are_refused() {
    let (_home, gateway) = open().await;
    let client = TestClient::legacy(gateway.address, "2025-03-26", all_capabilities()).await;
    let call = |id: &str, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": {} } });
    let batch = json!([call("modern", "srv_ask_name"), call("legacy", "old_ask_name")]).to_string();
    let reply =
        tokio::time::timeout(TEST_TIMEOUT, client.post(&batch, &[])).await.expect("an answer in time");
    let answers = reply.json().await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert!(
        answers[0].get("error").is_some(),
        "a modern server knows that the client cannot be asked: {}",
        answers[0]
    );
    let response = answers[1]["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(response.contains("-32601"), "a legacy server is refused: {}", answers[1]);
    // Outside of a batch the same question is asked.
    assert_eq!(client.call("old_ask_name", json!({})).await.questions.len(), 1);
}

/// A request state is valid once, for its caller and its request.
#[tokio::test]
async fn request_state_is_valid_once_and_for_its_request_only() {
    let (_home, gateway) = open().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ann" } } });
    // One server is stateless between rounds, the other waits inside its call: the same rules apply to both.
    for (tool, other) in
        [("srv_ask_name", "srv_test_input_required_result_elicitation"), ("old_ask_name", "old_sample")]
    {
        let ask = async |tool: &str, arguments: Value, state: Option<&Value>, answers: &Value| {
            let mut params = json!({ "name": tool, "arguments": arguments });
            if let Some(state) = state {
                params["requestState"] = state.clone();
                params["inputResponses"] = answers.clone();
            }
            client.start("tools/call", params).await.finish().await
        };
        let first = ask(tool, json!({}), None, &answers).await;
        let result = first.result();
        assert_eq!(result["resultType"], "input_required", "{tool}: {}", first.answer);
        let requests = result["inputRequests"].as_object().unwrap();
        let key = requests.keys().next().unwrap();
        let answers = json!({ (key): answers["name"] });
        let state = &result["requestState"];
        let mut tampered = state.as_str().unwrap().to_owned().into_bytes();
        let middle = tampered.len() / 2;
        tampered[middle] = if tampered[middle] == b'A' { b'B' } else { b'A' };
        let tampered = json!(String::from_utf8(tampered).unwrap());
        let refused = [
            ("altered", tool, json!({}), tampered),
            ("cut", tool, json!({}), json!(state.as_str().unwrap()[..20].to_owned())),
            ("made up", tool, json!({}), json!("c3RhdGU")),
            ("no text", tool, json!({}), json!(7)),
            ("of another tool", other, json!({}), state.clone()),
            ("of other arguments", tool, json!({ "x": 1 }), state.clone()),
        ];
        for (what, tool, arguments, state) in refused {
            let response = ask(tool, arguments, Some(&state), &answers).await;
            assert_eq!(
                (response.status, response.code()),
                (400, Some(-32602)),
                "{tool}, {what}: {}",
                response.answer
            );
        }
        let response = ask(tool, json!({}), Some(state), &answers).await;
        assert!(response.text().contains("Ann"), "{tool}: {}", response.answer);
        let again = ask(tool, json!({}), Some(state), &answers).await;
        assert_eq!(
            (again.status, again.code()),
            (400, Some(-32602)),
            "{tool}, used before: {}",
            again.answer
        );
    }
}

// M9
#[tokio::test]
async fn used_request_state_is_refused_after_a_restart() {
    let (home, gateway) = open().await;
    let ask = async |gateway: &Gateway, state: Option<&Value>| {
        let mut params = json!({ "name": "srv_ask_name", "arguments": {} });
        if let Some(state) = state {
            params["requestState"] = state["requestState"].clone();
            let key = state["inputRequests"].as_object().unwrap().keys().next().unwrap();
            params["inputResponses"] = json!({ (key): { "action": "accept", "content": { "name": "Ann" } } });
        }
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        client.start("tools/call", params).await.finish().await
    };
    let (used, unused) = (ask(&gateway, None).await, ask(&gateway, None).await);
    let response = ask(&gateway, Some(used.result())).await;
    assert!(response.text().contains("Ann"), "{}", response.answer);
    gateway.kill().await;
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let again = ask(&gateway, Some(used.result())).await;
    assert_eq!((again.status, again.code()), (400, Some(-32602)), "used before: {}", again.answer);
    let first = ask(&gateway, Some(unused.result())).await;
    assert!(first.text().contains("Ann"), "an unused request state is still valid: {}", first.answer);
}

/// `initialize` answers with the requested revision, or with the newest one that the gateway knows.
#[tokio::test]
async fn newest_common_revision_is_negotiated() {
    let (_home, gateway) = open().await;
    for (asked, given) in
        [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", LEGACY), (MODERN, LEGACY)]
    {
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
        let (status, code, answer) = post(&gateway, &[JSON, ACCEPT], body).await;
        assert_eq!((status, code), (200, 0), "{answer}");
        assert_eq!(answer["result"]["protocolVersion"], given, "requested {asked}");
    }
    let (status, code, answer) =
        post(&gateway, &[JSON, ACCEPT], r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#)
            .await;
    assert_eq!((status, code), (400, -32602), "{answer}");
}
