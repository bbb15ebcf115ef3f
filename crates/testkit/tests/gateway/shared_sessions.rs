//! Clients, events, allowances and sign-ins of two gateways on one PostgreSQL database. Skipped without
//! `TOOLBOOTH_TEST_POSTGRES`.

use crate::shared_store::{SharedDatabase, unique};
use crate::sign_in::{call as call_guarded, login, servers as servers_command};
use hyper::Method;
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::{LEGACY, MODERN, TestEra};
use toolbooth_testkit::world::client::all_capabilities;
use toolbooth_testkit::world::{FixtureServer, Gateway, Home, OAuthServer, TEST_TIMEOUT, TestClient, poll};

const WATCHED: &str = "test://watched-resource";

/// Two gateways with the same configuration, in `local` mode.
struct LocalPair {
    homes: [Home; 2],
    gateways: [Gateway; 2],
    database: SharedDatabase,
}

impl LocalPair {
    async fn start(more: Value, servers: &[(&str, Value)]) -> Option<Self> {
        let database = SharedDatabase::create().await?;
        let mut settings = json!({ "store": { "url": database.url } });
        for (key, value) in more.as_object().into_iter().flatten() {
            settings[key] = value.clone();
        }
        let homes = [0, 1].map(|_| Home::with_settings(settings.clone(), servers));
        let (a, b) = tokio::join!(homes[0].start(), homes[1].start());
        Some(Self { homes, gateways: [a, b], database })
    }

    async fn with_fixture(era: &str) -> Option<(Self, FixtureServer)> {
        let fixture = FixtureServer::start(era).await;
        let pair = Self::start(json!({}), &[("srv", fixture.entry())]).await?;
        for gateway in &pair.gateways {
            gateway.connected(&["srv"]).await;
        }
        Some((pair, fixture))
    }

    async fn client(&self, gateway: usize, revision: &str) -> TestClient {
        let address = self.gateways[gateway].address;
        TestClient::with_revision(revision, address, "/mcp", &[], all_capabilities()).await
    }
}

#[tokio::test]
async fn a_legacy_session_moves_between_gateways() {
    let Some((pair, _fixture)) = LocalPair::with_fixture("modern").await else { return };
    let [a, b] = pair.gateways.each_ref().map(|gateway| gateway.address);
    let client = pair.client(0, LEGACY).await;
    let moved = client.moved_to(b);
    assert_eq!(moved.names("tools/list", "tools").await, client.names("tools/list", "tools").await);
    assert_eq!(moved.call("srv_ask_name", json!({})).await.questions.len(), 1);

    // Its stream is at one gateway, and it subscribes at the other.
    let mut changes = moved.listen(&[]).await;
    let subscribed = client.ask("resources/subscribe", json!({ "uri": WATCHED })).await;
    assert_eq!(*subscribed.result(), json!({}));
    let mut heard = None;
    for _ in 0..20 {
        client.call("srv_touch_resource", json!({ "uri": WATCHED })).await;
        heard = changes.wait_for("notifications/resources/updated", Duration::from_millis(500)).await;
        if heard.is_some() {
            break;
        }
    }
    assert_eq!(heard.expect("an update")["uri"], WATCHED);

    // A session that ends at one gateway ends at the other.
    let ended = pair.client(1, LEGACY).await;
    let there = ended.moved_to(a);
    assert_eq!(there.ask("ping", json!({})).await.status, 200);
    assert_eq!(ended.end().await, 200);
    assert_eq!(ended.start("ping", json!({})).await.status(), 404);
    let gone =
        poll(TEST_TIMEOUT, || async { (there.start("ping", json!({})).await.status() == 404).then_some(()) });
    gone.await.expect("the session has ended");

    // Sessions outlive the gateway that opened them.
    let LocalPair { gateways: [first, _second], .. } = pair;
    first.kill().await;
    assert_eq!(moved.call("srv_ask_name", json!({})).await.questions.len(), 1);
    let unknown = moved.with_session(&format!("{:032x}", unique()));
    assert_eq!(unknown.start("ping", json!({})).await.status(), 404);
}

#[tokio::test]
async fn a_legacy_client_answers_and_cancels_at_the_other_gateway() {
    let Some((pair, _fixture)) = LocalPair::with_fixture("legacy").await else { return };
    let client = pair.client(0, LEGACY).await;
    let moved = client.moved_to(pair.gateways[1].address);
    let params = json!({ "name": "srv_ask_name", "arguments": {} });
    let answer = json!({ "action": "accept", "content": { "name": "Bo" } });
    let (_, mut stream) = client.start("tools/call", params.clone()).await.into_events();
    let question = stream.next_within(TEST_TIMEOUT).await.expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(moved.reply(&question["id"], answer.clone()).await, 202);
    let done = stream.next_within(TEST_TIMEOUT).await.expect("the result");
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Bo!", "{done}");

    // A call is cancelled at its own gateway.
    let (id, mut stream) = client.start("tools/call", params.clone()).await.into_events();
    stream.next_within(TEST_TIMEOUT).await.expect("a question");
    assert_eq!(moved.notify("notifications/cancelled", json!({ "requestId": id })).await, 202);
    let end = tokio::time::timeout(TEST_TIMEOUT, stream.next()).await.expect("the stream ends");
    assert_eq!(end, None);

    // The gateway that asked has ended.
    let (_, mut stream) = client.start("tools/call", params).await.into_events();
    let question = stream.next_within(TEST_TIMEOUT).await.expect("a question");
    let LocalPair { gateways: [first, _second], database, .. } = pair;
    first.kill().await;
    database.expire_leases().await;
    let body = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
    let reply = moved.post(&body.to_string(), &[]).await;
    assert_eq!(reply.status, 400);
    let problem = reply.json().await;
    assert_eq!(problem["error"]["data"]["toolbooth"]["code"], "call.gateway-ended", "{problem}");
}

#[tokio::test]
async fn a_call_that_waits_for_its_client_continues_from_the_other_gateway() {
    // A legacy server asks during the call, so the call waits at the gateway that made it.
    let Some((pair, _fixture)) = LocalPair::with_fixture("legacy").await else { return };
    let [first, second] = [pair.client(0, MODERN).await, pair.client(1, MODERN).await];
    for (tool, rounds) in [("srv_ask_name", 1), ("srv_test_input_required_result_multi_round", 2)] {
        let mut params = json!({ "name": tool, "arguments": {} });
        let mut response = first.start("tools/call", params.clone()).await.finish().await;
        for _ in 0..rounds {
            assert_eq!(response.result()["resultType"], "input_required", "{}", response.answer);
            params = answering(&second, params, response.result());
            response = second.start("tools/call", params.clone()).await.finish().await;
        }
        assert_ne!(response.result()["resultType"], "input_required", "{}", response.answer);
        assert!(!response.is_error(), "{}", response.answer);
        // The answers count once, on both gateways.
        for client in [&first, &second] {
            let again = client.start("tools/call", params.clone()).await.finish().await;
            assert_eq!(again.code(), Some(-32602), "{}", again.answer);
        }
    }

    let params = json!({ "name": "srv_ask_name", "arguments": {} });
    let response = first.start("tools/call", params.clone()).await.finish().await;
    let params = answering(&second, params, response.result());
    let LocalPair { gateways: [ended, _second], database, .. } = pair;
    ended.kill().await;
    database.expire_leases().await;
    let response = second.start("tools/call", params).await.finish().await;
    assert_eq!(response.fault(), "call.gateway-ended", "{}", response.answer);
}

/// The request with the client's answers to the questions of this result.
fn answering(client: &TestClient, mut params: Value, asked: &Value) -> Value {
    let requests = asked["inputRequests"].as_object().expect("questions");
    let answer =
        |asked: &Value| client.answer(asked["method"].as_str().unwrap_or_default(), &asked["params"]);
    let answers: serde_json::Map<String, Value> =
        requests.iter().map(|(key, asked)| (key.clone(), answer(asked))).collect();
    params["inputResponses"] = answers.into();
    params["requestState"] = asked["requestState"].clone();
    params
}

#[tokio::test]
async fn calls_of_one_gateway_are_events_at_the_other_and_share_an_allowance() {
    let fixture = FixtureServer::start("modern").await;
    let limits = json!({ "limits": { "calls_per_minute": 6 } });
    let Some(pair) = LocalPair::start(limits, &[("srv", fixture.entry())]).await else { return };
    let [a, b] = &pair.gateways;
    for gateway in [a, b] {
        gateway.connected(&["srv"]).await;
        let counted = poll(TEST_TIMEOUT, || async {
            let page = gateway.http().send(Method::GET, "/metrics", &[], "").await.bytes().await;
            String::from_utf8_lossy(&page).contains("toolbooth_gateways 2").then_some(())
        });
        counted.await.expect("both gateways are counted");
    }
    let call = async |gateway: &Gateway| {
        let body = json!({ "arguments": {} }).to_string();
        gateway.http().post_json("/tools/srv_test_simple_text/call", &body).await
    };
    for gateway in [a, b] {
        for _ in 0..3 {
            let (status, answer) = call(gateway).await;
            assert_eq!(status, 200, "{answer}");
        }
        let (status, problem) = call(gateway).await;
        assert_eq!((status, &problem["code"]), (429, &json!("call.over-rate")), "{problem}");
    }
    for gateway in [a, b] {
        let of_the_other = poll(TEST_TIMEOUT, || async {
            let recent = gateway.http().get_json("/events/recent?types=tool.result&limit=100").await;
            let events = recent["events"].as_array()?;
            let marked = events.iter().filter(|event| event["data"]["origin"] == "another gateway");
            let done =
                marked.filter(|event| event["outcome"] == "done" && event["tool"] == "test_simple_text");
            (done.count() == 3).then_some(events.len())
        });
        let all = of_the_other.await.expect("the events of the other gateway");
        // Three results and a refusal of each: nothing is sent back and forth.
        assert!(all <= 8, "{all} events");
    }
}

#[tokio::test]
async fn a_sign_in_is_used_by_both_gateways_and_a_token_is_renewed_once() {
    let oauth = OAuthServer::start(TestEra::Modern).await;
    let Some(pair) = LocalPair::start(json!({}), &[("guarded", oauth.entry())]).await else { return };
    let [a, b] = &pair.gateways;
    for gateway in [a, b] {
        gateway.wait_for_state("guarded", "needs_auth").await;
    }
    let done = login(&pair.homes[0]).await;
    assert!(done.status.success(), "{done:?}");
    b.wait_for_state("guarded", "connected").await;
    assert_eq!((call_guarded(a).await.0, call_guarded(b).await.0), (200, 200));
    assert_eq!(oauth.counts().logins, 1);
    assert!(!pair.homes[0].data().join("oauth/guarded.sealed").exists(), "the tokens are in the store");

    // Each refresh token can be used once.
    oauth.expire();
    let (first, second) = tokio::join!(call_guarded(a), call_guarded(b));
    assert_eq!((first.0, second.0), (200, 200), "{first:?} {second:?}");
    assert_eq!(oauth.counts().renewals, 1);

    let gone =
        tokio::process::Command::from(servers_command(&pair.homes[1], "logout")).output().await.unwrap();
    assert!(gone.status.success(), "{gone:?}");
    a.wait_for_state("guarded", "needs_auth").await;
    assert_eq!(oauth.counts().logins, 1);
}
