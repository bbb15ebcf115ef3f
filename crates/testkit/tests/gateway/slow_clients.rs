//! Slow clients: users who never answer, clients that do not read or that disconnect.

use crate::scene::{BRISK, Scene};
use ::http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile};
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, TestClient, processes};

async fn bad_is_brisk(scene: &Scene, tool: &str, arguments: Value, expected: &str) {
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(scene.client.call(tool, arguments.clone()).await.text(), expected);
        assert!(start.elapsed() < BRISK, "it took {:?}", start.elapsed());
    }
}

/// An open question delays neither its own server nor any other.
#[tokio::test]
async fn unanswered_questions_delay_no_other_call() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    let (modern, legacy) = (
        TestClient::of(TestEra::Modern, scene.gateway.address).await,
        TestClient::of(TestEra::Legacy, scene.gateway.address).await,
    );
    let ask = json!({ "name": "bad_ask_name", "arguments": {} });
    let response = modern.start("tools/call", ask.clone()).await.finish().await;
    assert_eq!(response.result()["resultType"], "input_required", "{}", response.answer);
    let (_, mut open) = legacy.start("tools/call", ask).await.into_events();
    let question = open.next_within(TEST_TIMEOUT).await.expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    bad_is_brisk(&scene, "bad_ok", json!({}), "ok").await;
    scene.good_is_brisk().await;
    // Both can still be answered.
    let told_late = json!({ "action": "accept", "content": { "name": "Late" } });
    legacy.reply(&question["id"], told_late.clone()).await;
    let answer = open.next_within(TEST_TIMEOUT).await.expect("an answer");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("Late"), "{answer}");
    let result = response.result();
    let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let params = json!({ "name": "bad_ask_name", "arguments": {}, "requestState": result["requestState"],
        "inputResponses": { (key): told_late } });
    let response = modern.start("tools/call", params).await.finish().await;
    assert!(response.text().contains("Late"), "{}", response.answer);
}

/// A legacy client that disconnects during a question frees the server.
#[tokio::test]
async fn disconnect_during_a_question_frees_the_server() {
    let scene = Scene::new(hostile(&["asks"])).await;
    scene.gateway.connected(&["bad"]).await;
    for _ in 0..20 {
        let legacy = TestClient::of(TestEra::Legacy, scene.gateway.address).await;
        let exchange = legacy.start("tools/call", json!({ "name": "bad_ask_name", "arguments": {} })).await;
        let (_, mut open) = exchange.into_events();
        assert_eq!(open.next_within(TEST_TIMEOUT).await.expect("a question")["method"], "elicitation/create");
        drop(open);
        bad_is_brisk(&scene, "bad_ok", json!({}), "ok").await;
    }
    let living = processes::children(scene.gateway.pid()).living.len();
    assert!(living <= 8, "{living} processes for twenty disconnected callers");
}

/// A client that does not read loses progress but not the result, and uses no memory.
#[tokio::test]
async fn client_that_does_not_read_uses_no_memory() {
    for era in ["legacy", "modern"] {
        let scene = Scene::new(fixture_on_stdio(era)).await;
        scene.gateway.connected(&["bad"]).await;
        let before = processes::resident_mib(scene.gateway.pid());
        let params = json!({ "name": "bad_slow", "arguments": { "ms": 1500, "steps": 1000 },
            "_meta": { "progressToken": "p" } });
        let exchange = scene.client.start("tools/call", params).await;
        let wait = Instant::now();
        while wait.elapsed() < Duration::from_millis(1500) {
            scene.good_is_brisk().await;
        }
        let held = processes::resident_mib(scene.gateway.pid());
        assert!(held < before + 40, "{era}: {before} MiB became {held} MiB");
        let response = exchange.finish().await;
        assert_eq!(response.text(), "Done in 1000 steps.", "{era}");
        let heard: Vec<f64> = response
            .notices("notifications/progress")
            .iter()
            .filter_map(|params| params["progress"].as_f64())
            .collect();
        assert!(heard.windows(2).all(|pair| pair[0] < pair[1]), "{era}: progress is in order");
    }
}

/// A session has one change stream: a newer one replaces it.
#[tokio::test]
async fn newer_stream_replaces_the_older_one_of_a_session() {
    let scene = Scene::new(fixture_on_stdio("modern")).await;
    scene.gateway.connected(&["bad"]).await;
    let client = TestClient::of(TestEra::Legacy, scene.gateway.address).await;
    let mut first = client.listen(&[]).await;
    let mut second = client.listen(&[]).await;
    assert_eq!(first.last(Duration::from_secs(5)).await, None, "the older stream ends");
    client.call("bad_change_tools", json!({})).await;
    second
        .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
        .await
        .expect("the newer stream is notified");
}

#[tokio::test]
async fn stream_ends_with_its_session() {
    let scene = Scene::new(hostile(&["echo"])).await;
    let client = TestClient::of(TestEra::Legacy, scene.gateway.address).await;
    let mut changes = client.listen(&[]).await;
    let session = [("mcp-session-id", client.session().unwrap())];
    assert_eq!(scene.gateway.http().send(Method::DELETE, "/mcp", &session, "").await.status, 200);
    assert_eq!(changes.last(Duration::from_secs(5)).await, None, "the stream ends");
}

/// Requests with a foreign `Host` or `Origin` are refused on every path.
#[tokio::test]
async fn every_path_checks_host_and_origin() {
    let scene = Scene::new(hostile(&["echo"])).await;
    let http = scene.gateway.http();
    let json = ("content-type", "application/json");
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        for path in ["/servers", "/tools", "/health", "/ready", "/mcp", "/nowhere"] {
            assert_eq!(http.send(Method::GET, path, &[(name, value)], "").await.status, 403, "{name} {path}");
        }
        for path in ["/tools/good_echo/call", "/servers/good/restart", "/servers/reload", "/mcp"] {
            assert_eq!(
                http.send(Method::POST, path, &[(name, value), json], "{}").await.status,
                403,
                "{name} {path}"
            );
        }
    }
    let reply = http.send(Method::GET, "/health", &[], "").await;
    assert_eq!(reply.header("access-control-allow-origin"), None, "CORS is off");
}

// The preflight of a page in `allowed_origins` must be answered, or the page could not call the gateway.
#[tokio::test]
async fn page_of_an_allowed_origin_can_call_and_read() {
    let page = "https://app.example";
    let settings = json!({ "allowed_origins": [page], "auth": { "mode": "token" } });
    let home = Home::with_settings(settings, &[]);
    let gateway = home.start().await;
    let http = gateway.http();
    let asking = [
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,mcp-method,mcp-param-region"),
    ];
    for path in ["/mcp", "/mcp/p/dev", "/tools/x/call", "/tokens"] {
        let from = |origin| [&[("origin", origin)][..], &asking].concat();
        let reply = http.send(Method::OPTIONS, path, &from(page), "").await;
        assert_eq!(reply.status, 204, "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(page));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert_eq!(reply.header("vary"), Some("origin"));
        assert!(reply.header("access-control-allow-methods").unwrap().contains("DELETE"));
        let allowed = reply.header("access-control-allow-headers").unwrap();
        for name in
            ["authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-param-region"]
        {
            assert!(allowed.split(", ").any(|known| known == name), "{name}: {allowed}");
        }
        // The page may read the answer, including a 401.
        let json = ("content-type", "application/json");
        let reply = http.send(Method::POST, path, &[("origin", page), json], "{}").await;
        assert_eq!(reply.status, 401, "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), Some(page), "{path}");
        assert!(reply.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));

        for origin in ["https://evil.example", "null", "http://app.example"] {
            let reply = http.send(Method::OPTIONS, path, &from(origin), "").await;
            assert_eq!(reply.status, 403, "{path} {origin}");
            assert_eq!(reply.header("access-control-allow-origin"), None, "{path} {origin}");
        }
    }
    // Without a preflight header, OPTIONS is an ordinary method.
    assert_ne!(http.send(Method::OPTIONS, "/health", &[("origin", page)], "").await.status, 204);
}
