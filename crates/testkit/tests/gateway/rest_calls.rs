//! Calls over REST: questions of servers, batches, deadlines, and the record of calls.

use crate::callers::http_as;
use crate::token_users::TokenUsers;
use ::http::Method;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, TestClient, poll};

async fn gateway(era: &str) -> (Home, Gateway) {
    let home = Home::with_settings(json!({}), &[("srv", fixture_on_stdio(era))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    (home, gateway)
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn question_of_a_server_is_asked_and_answered_over_rest() {
    for era in ["legacy", "modern"] {
        let (_home, gateway) = gateway(era).await;
        let http = gateway.http();
        let (status, asked) = http.post_json("/tools/srv_ask_name/call", "{}").await;
        assert_eq!((status, &asked["kind"]), (202, &json!("question")), "{era}: {asked}");
        let question = &asked["question"];
        assert_eq!(
            (&question["server"], &question["message"]),
            (&json!("srv"), &json!("What is your name?"))
        );
        assert_eq!(question["schema"]["required"], json!(["name"]));
        let path = format!("/calls/{}/answer", asked["call"].as_str().expect("an id"));
        let (status, wrong) = http.post_json(&path, r#"{"action":"accept","content":{"name":7}}"#).await;
        assert_eq!((status, &wrong["code"]), (400, &json!("call.bad-answer")), "{era}: {wrong}");
        assert!(wrong["title"].as_str().is_some_and(|title| title.contains("/name")), "{wrong}");
        let (status, done) = http.post_json(&path, r#"{"action":"accept","content":{"name":"Ann"}}"#).await;
        assert_eq!((status, text_of(&done)), (200, "Hello, Ann!"), "{era}");
        let (status, gone) = http.post_json(&path, r#"{"action":"decline"}"#).await;
        assert_eq!((status, &gone["code"]), (404, &json!("call.no-question")), "{era}");
    }
}

#[tokio::test]
async fn batch_keeps_the_order_and_isolates_failures() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let add = |a: u32| json!({ "tool": "srv_add", "arguments": { "a": a, "b": 1 } });
    let calls = json!([add(1), { "tool": "nonsense" }, { "tool": "srv_ask_name" }, add(2)]);
    let (status, answer) = http.post_json("/calls/batch", &json!({ "calls": calls }).to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().expect("results");
    assert_eq!((text_of(&results[0]), text_of(&results[3])), ("2", "3"));
    assert_eq!(results[1]["problem"]["code"], "call.unknown-tool");
    assert!(results[2]["question"].is_null(), "a batch asks no questions: {}", results[2]);
    let many = json!({ "calls": vec![add(1); 101] }).to_string();
    let (status, refused) = http.post_json("/calls/batch", &many).await;
    assert_eq!((status, &refused["code"]), (400, &json!("request.bad-body")));
}

#[tokio::test]
async fn invalid_call_rejects_the_batch_before_any_call_is_made() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let valid = json!({ "tool": "srv_add", "arguments": { "a": 1, "b": 1 } });
    let invalid = [
        json!({ "timeout_ms": 0 }),
        json!({ "wait": 601 }),
        json!({ "session": "" }),
        json!({ "arguments": [1] }),
    ];
    for mut call in invalid {
        call["tool"] = json!("srv_add");
        let (status, refused) =
            http.post_json("/calls/batch", &json!({ "calls": [valid, call] }).to_string()).await;
        assert_eq!((status, &refused["code"]), (400, &json!("request.bad-body")), "{call}");
        assert!(refused["title"].as_str().is_some_and(|title| title.contains("`calls[1]`")), "{refused}");
    }
    assert_eq!(http.get_json("/calls").await["calls"], json!([]));
}

#[tokio::test]
async fn callers_deadline_ends_a_call_and_is_recorded() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let body = r#"{"arguments":{"ms":20000},"timeout_ms":300}"#;
    let (status, problem) = http.post_json("/tools/srv_slow/call", body).await;
    assert_eq!((status, &problem["code"]), (504, &json!("call.timeout")), "{problem}");
    let newest = &http.get_json("/calls?limit=1").await["calls"][0];
    assert_eq!((&newest["tool"], &newest["outcome"]), (&json!("slow"), &json!("timeout")), "{newest}");
    assert_eq!(newest["attempts"].as_array().map(Vec::len), Some(1), "{newest}");
    let (status, wrong) = http.post_json("/tools/srv_slow/call", r#"{"timeout_ms":0}"#).await;
    assert_eq!((status, &wrong["code"]), (400, &json!("request.bad-body")));
}

#[tokio::test]
async fn record_of_a_call_is_for_its_user_and_administrators() {
    let known = TokenUsers::start().await;
    let ann = http_as(&known.gateway, &known.ann.0);
    let (status, answer) = ann.post_json("/tools/open_ok/call", "{}").await;
    assert_eq!(status, 200, "{answer}");
    let path = format!("/calls/{}", answer["call"].as_str().expect("an id"));
    let cases = [(&known.ann.0, 200), (&known.root, 200), (&known.cat, 404)];
    for (token, expected) in cases {
        let reply = http_as(&known.gateway, token).send(Method::GET, &path, &[], "").await;
        assert_eq!(reply.status, expected);
        let record = reply.json().await;
        match expected {
            200 => {
                assert_eq!((&record["user"], &record["tool"]), (&json!("ann"), &json!("ok")), "{record}");
                let is_own = token == &known.ann.0;
                assert_eq!(record["result"].is_object(), is_own, "the result is for its user: {record}");
            }
            _ => assert_eq!(record["code"], "call.unknown"),
        }
    }
    let (_, _) = http_as(&known.gateway, &known.cat).post_json("/tools/open_ok/call", "{}").await;
    let users = |page: &Value| -> Vec<String> {
        let calls = page["calls"].as_array().unwrap_or_else(|| panic!("{page}"));
        calls.iter().map(|call| call["user"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(users(&ann.get_json("/calls?user=cat").await), ["ann"], "the filter cannot widen the list");
    let root = http_as(&known.gateway, &known.root);
    assert_eq!(users(&root.get_json("/calls").await), ["cat", "ann"]);
    let first = root.get_json("/calls?limit=1").await;
    let next = format!("/calls?limit=1&before={}", first["next_before"]);
    assert_eq!(users(&root.get_json(&next).await), ["ann"]);
    assert_eq!(users(&root.get_json("/calls?outcome=done").await), ["cat", "ann"]);
    let reply = root.send(Method::GET, "/calls?outcome=sideways", &[], "").await;
    assert_eq!(reply.status, 400);
    let refused = reply.json().await;
    assert_eq!(refused["code"], "request.bad-query");
    assert!(refused["title"].as_str().is_some_and(|title| title.contains("`tool_error`")), "{refused}");
}

/// The names, the time that `dispatch` took in milliseconds, and whether each stage begins where the one before it ends.
fn stages(record: &Value) -> (Vec<&str>, u64, bool) {
    let list: &[Value] = record["stages"].as_array().map_or(&[], Vec::as_slice);
    let number = |stage: &Value, key: &str| stage[key].as_u64().expect("a number");
    let names = list.iter().filter_map(|stage| stage["name"].as_str()).collect();
    let dispatch = list.iter().filter(|stage| stage["name"] == "dispatch");
    let dispatch_us: u64 = dispatch.map(|stage| number(stage, "duration_us")).sum();
    let joined = list.windows(2).all(|pair| {
        number(&pair[0], "start_us") + number(&pair[0], "duration_us") == number(&pair[1], "start_us")
    });
    (names, dispatch_us / 1_000, joined)
}

#[tokio::test]
async fn record_of_a_call_shows_the_time_of_each_stage() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let record_of = async |tool: &str, arguments: &str| {
        http.post_json(&format!("/tools/{tool}/call"), arguments).await;
        let id = http.get_json("/calls?limit=1").await["calls"][0]["id"].as_str().expect("an id").to_owned();
        http.get_json(&format!("/calls/{id}")).await
    };
    let record = record_of("srv_slow", r#"{"arguments":{"ms":80}}"#).await;
    let (names, dispatch_ms, joined) = stages(&record);
    let all = ["resolve", "authorise", "draft", "judge", "seal", "route", "dispatch", "shape", "record"];
    assert_eq!((names.as_slice(), joined), (&all[..], true), "{record}");
    assert!((80..10_000).contains(&dispatch_ms), "{record}");

    let record = record_of("srv_slow", r#"{"arguments":{"ms":"much"}}"#).await;
    assert_eq!(stages(&record).0, ["resolve", "authorise", "draft", "record"], "{record}");
    let record = record_of("srv_missing", "{}").await;
    assert!(record["stages"].is_null(), "an unknown tool does not show where the call ended: {record}");
}

#[tokio::test]
async fn calls_are_found_by_client_session_time_and_name() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let body = r#"{"arguments":{"a":1,"b":1},"session":"work"}"#;
    let (status, answer) = http.post_json("/tools/srv_add/call", body).await;
    assert_eq!(status, 200, "{answer}");
    let client = TestClient::named("editor", TestEra::Modern, gateway.address).await;
    client.call("srv_slow", json!({ "ms": 1 })).await;
    let found = poll(TEST_TIMEOUT, || async {
        let newest = http.get_json("/calls?client=editor").await["calls"][0].clone();
        newest.is_object().then_some(newest)
    });
    let newest = found.await.expect("the call of the client");
    assert_eq!((&newest["client"], &newest["tool"]), (&json!("editor"), &json!("slow")), "{newest}");
    let ended_ms = newest["at_ms"].as_i64().unwrap_or(0) + newest["duration_ms"].as_i64().unwrap_or(0);
    let (later, earlier) = (ended_ms + 60_000, ended_ms - 600_000);
    let cases: [(String, &[&str]); 10] = [
        (String::new(), &["slow", "add"]),
        ("?session=work".into(), &["add"]),
        ("?session=wor".into(), &[]),
        ("?q=SRV_sl".into(), &["slow"]),
        ("?q=d".into(), &["add"]),
        ("?q=nothing".into(), &[]),
        (format!("?since={earlier}&until={later}"), &["slow", "add"]),
        (format!("?since={later}"), &[]),
        (format!("?until={earlier}"), &[]),
        ("?client=editor&session=work".into(), &[]),
    ];
    for (query, expected) in cases {
        let page = http.get_json(&format!("/calls{query}")).await;
        let calls = page["calls"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
        let tools: Vec<&str> = calls.map(|call| call["tool"].as_str().unwrap_or_default()).collect();
        assert_eq!(tools, expected, "{query}");
    }
    let reply = http.send(Method::GET, "/calls?since=yesterday", &[], "").await;
    assert_eq!((reply.status, &reply.json().await["code"]), (400, &json!("request.bad-query")));
}

#[tokio::test]
async fn running_call_is_listed_and_cancelled() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    let slow = tokio::spawn({
        let http = http.clone();
        let body = r#"{"arguments":{"ms":60000},"request":"form-7"}"#;
        async move { http.post_json("/tools/srv_slow/call", body).await }
    });
    let listed = poll(TEST_TIMEOUT, || async {
        let running = http.get_json("/calls/running").await;
        running["calls"].as_array()?.first().cloned()
    });
    let call = listed.await.expect("a running call");
    assert_eq!((&call["tool"], &call["state"]), (&json!("srv_slow"), &json!("running")), "{call}");
    // A client finds its own call by the name that it chose.
    assert_eq!(call["request"], "form-7");
    let (status, refused) = http.post_json("/tools/srv_slow/call", r#"{"request":"a b"}"#).await;
    assert_eq!((status, &refused["code"]), (400, &json!("request.bad-body")), "{refused}");
    let path = format!("/calls/{}/cancel", call["id"].as_str().expect("an id"));
    let (status, cancelled) = http.post_json(&path, "").await;
    assert_eq!((status, &cancelled["state"]), (202, &json!("cancelling")));
    let (status, problem) = slow.await.expect("an answer");
    assert_eq!((status, &problem["code"]), (409, &json!("call.cancelled")), "{problem}");
    let recorded = poll(TEST_TIMEOUT, || async {
        let newest = http.get_json("/calls?limit=1").await["calls"][0].clone();
        (newest["outcome"] == "cancelled").then_some(())
    });
    assert!(recorded.await.is_some(), "the cancellation is recorded");
    let (status, gone) = http.post_json(&path, "").await;
    assert_eq!((status, &gone["code"]), (404, &json!("call.unknown")));
}

#[tokio::test]
async fn running_call_of_an_mcp_client_is_listed_and_cancelled() {
    let (_home, gateway) = gateway("both").await;
    let http = gateway.http();
    for era in [TestEra::Modern, TestEra::Legacy] {
        let client = TestClient::of(era, gateway.address).await;
        let slow = tokio::spawn(async move { client.call("srv_slow", json!({ "ms": 60_000 })).await });
        let listed = poll(TEST_TIMEOUT, || async {
            let running = http.get_json("/calls/running").await;
            running["calls"].as_array()?.first().cloned()
        });
        let call = listed.await.expect("a running call");
        assert_eq!((&call["tool"], &call["state"]), (&json!("srv_slow"), &json!("running")), "{call}");
        assert!(call["client"].is_string(), "{call}");
        let path = format!("/calls/{}/cancel", call["id"].as_str().expect("an id"));
        assert_eq!(http.post_json(&path, "").await.0, 202);
        let answer = slow.await.expect("an answer").answer;
        assert!(answer.to_string().contains("was cancelled by a person"), "{answer}");
        assert_eq!(http.post_json(&path, "").await.0, 404);
        assert_eq!(http.get_json("/calls/running").await["calls"], json!([]));
    }
}

#[tokio::test]
async fn administrator_who_cancels_a_call_of_another_user_is_in_the_audit_log() {
    let known = TokenUsers::start().await;
    let (bob, root) = (http_as(&known.gateway, &known.bob), http_as(&known.gateway, &known.root));
    let slow = tokio::spawn(async move {
        bob.post_json("/tools/vault_slow/call", r#"{"arguments":{"ms":60000}}"#).await
    });
    let listed = poll(TEST_TIMEOUT, || async {
        let running = root.get_json("/calls/running").await;
        running["calls"].as_array()?.first().cloned()
    });
    let call = listed.await.expect("a running call");
    assert_eq!(call["user"], "bob", "{call}");
    let id = call["id"].as_str().expect("an id");
    let cat = http_as(&known.gateway, &known.cat);
    assert_eq!(cat.post_json(&format!("/calls/{id}/cancel"), "").await.0, 404, "it looks unknown");
    assert_eq!(root.post_json(&format!("/calls/{id}/cancel"), "").await.0, 202);
    assert_eq!(slow.await.expect("an answer").0, 409);
    let rows = root.get_json("/audit?kind=cancellation").await;
    let row = &rows["rows"][0];
    assert_eq!((&row["by"], &row["user"]), (&json!("root"), &json!("bob")), "{rows}");
    assert_eq!(row["detail"]["call"], call["id"], "{rows}");
}

#[tokio::test]
async fn open_question_is_listed_until_its_call_is_cancelled() {
    let (_home, gateway) = gateway("legacy").await;
    let http = gateway.http();
    let (status, asked) = http.post_json("/tools/srv_ask_name/call", "{}").await;
    assert_eq!(status, 202, "{asked}");
    let running = http.get_json("/calls/running").await;
    let call = &running["calls"][0];
    assert_eq!((&call["id"], &call["state"]), (&asked["call"], &json!("asks")), "{running}");
    assert_eq!(call["question"]["schema"]["required"], json!(["name"]));
    let id = asked["call"].as_str().expect("an id");
    assert_eq!(http.post_json(&format!("/calls/{id}/cancel"), "").await.0, 202);
    let (status, gone) = http.post_json(&format!("/calls/{id}/answer"), r#"{"action":"decline"}"#).await;
    assert_eq!((status, &gone["code"]), (404, &json!("call.no-question")));
    assert_eq!(http.get_json("/calls/running").await["calls"], json!([]));
}
