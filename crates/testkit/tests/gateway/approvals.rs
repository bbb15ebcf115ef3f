//! Approvals over every interface: a held call runs at most once.

use crate::callers::ERAS;
use crate::ledger::{LedgerGateway, held_write, over, said};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

fn asks_for_writes() -> Value {
    json!({ "approval": { "default": "writes", "wait_seconds": 1 } })
}

fn answer(content: Value) -> impl Fn(&str, &Value) -> Value + Send + Sync + 'static {
    move |_, _| json!({ "action": "accept", "content": content })
}

#[tokio::test]
async fn client_with_elicitation_is_asked_for_approval() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let user = ledger.user().await;
    for era in ERAS {
        let text = format!("{era:?}");
        let client = TestClient::of(era, ledger.gateway.address).await;
        let yes = client.clone().answering(answer(json!({ "decision": "approve" })));
        let transcript = yes.call("led_write_entry", json!({ "text": text })).await;
        assert_eq!(transcript.text(), format!("wrote {text}"), "{era:?}");
        assert_eq!(transcript.questions.len(), 1);
        let asked = &transcript.questions[0];
        assert_eq!(asked["method"], "elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("led_write_entry") && message.contains(&text), "{message}");
        assert!(!asked.to_string().contains("username"), "injected arguments are not shown: {asked}");
        assert!(transcript.result()["_meta"]["toolbooth/warnings"].is_null(), "an approval is not an edit");

        let no = client.clone().answering(answer(json!({ "decision": "reject", "reason": "not now" })));
        let transcript = no.call("led_write_entry", json!({ "text": "no" })).await;
        assert_eq!(
            (transcript.is_error(), transcript.text()),
            (true, format!("rejected by {user}: not now").as_str())
        );
        assert_eq!(transcript.fault(), "call.rejected");
        let declines = client.clone().answering(|_, _| json!({ "action": "decline" }));
        let transcript = declines.call("led_write_entry", json!({ "text": "no" })).await;
        assert_eq!(
            (transcript.is_error(), transcript.text()),
            (true, format!("rejected by {user}").as_str())
        );
        let transcript = client.call("led_read_entries", json!({})).await;
        assert!(transcript.questions.is_empty() && !transcript.is_error(), "reads need no approval");
    }
    assert_eq!(ledger.entries(), [format!("Legacy by {user}"), format!("Modern by {user}")]);
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

#[tokio::test]
async fn call_of_a_client_without_elicitation_is_approved_over_rest_or_cli() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let user = ledger.user().await;
    for era in ERAS {
        let text = format!("{era:?}");
        let client = TestClient::with_capabilities(era, ledger.gateway.address, json!({})).await;
        let transcript = client.call("led_write_entry", json!({ "text": text })).await;
        assert!(transcript.is_error(), "the model must see that the call did not run: {}", transcript.answer);
        let id = transcript.result()["_meta"]["toolbooth/held"]["id"].as_str().unwrap().to_owned();
        assert!(transcript.text().contains(&id), "{}", transcript.text());
        let listed = ledger.json(&["approvals"]);
        assert_eq!(listed["approvals"].as_array().unwrap().len(), 1);
        assert_eq!(listed["approvals"][0]["id"], *id);
        assert_eq!(listed["approvals"][0]["arguments"], json!({ "text": text }));
        let approved = ledger.run(&["approvals", "approve", &id[id.len() - 6..]]);
        assert!(approved.status.success(), "{approved:?}");
        let shown = ledger.json(&["approvals", "show", &id]);
        assert_eq!(shown["state"], "done");
        assert_eq!(shown["outcome"]["result"]["content"][0]["text"], format!("wrote {text}"));
        // The first answer wins.
        let again = ledger.run(&["approvals", "reject", &id, "--json"]);
        assert_eq!(again.status.code(), Some(1));
        let error = crate::token_users::read(&again)["error"].clone();
        assert_eq!(error["code"], "call.already-decided");
        assert_eq!(error["message"], format!("held call {id} was already approved by {user}"));
    }
    assert_eq!(ledger.entries().len(), 2);
    let none = ledger.run(&["approvals", "show", "ffffffff", "--json"]);
    assert_eq!(crate::token_users::read(&none)["error"]["code"], "approval.unknown");
    assert_eq!(ledger.run(&["approvals", "show", "fff"]).status.code(), Some(2));
}

#[tokio::test]
async fn held_call_is_withdrawn_when_its_call_is_cancelled() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let user = ledger.user().await;
    let http = ledger.gateway.http();
    let call = tokio::spawn({
        let http = http.clone();
        let body = json!({ "arguments": { "text": "never" }, "wait": 600 }).to_string();
        async move { http.post_json("/tools/led_write_entry/call", &body).await }
    });
    let found = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        listed["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    let held = found.await.expect("the call is held");
    let running = http.get_json("/calls/running").await;
    let path = format!("/calls/{}/cancel", running["calls"][0]["id"].as_str().expect("an id"));
    assert_eq!(http.post_json(&path, "").await.0, 202);
    assert_eq!(http.get_json("/approvals?state=pending").await["approvals"], json!([]));
    let (status, problem) = call.await.unwrap();
    assert_eq!((status, &problem["code"]), (409, &json!("call.cancelled")), "{problem}");

    let ledger = ledger.survive().await.ready().await;
    let http = ledger.gateway.http();
    let (status, late) = http.post_json(&format!("/approvals/{held}/approve"), "").await;
    assert_eq!((status, &late["code"]), (409, &json!("call.already-decided")), "{late}");
    let ended = http.get_json(&format!("/approvals/{held}")).await;
    assert_eq!((&ended["state"], &ended["decided_by"]), (&json!("rejected"), &json!(user)), "{ended}");
    assert_eq!(ended["decision_note"], "withdrawn: the call was cancelled");
    let rows = http.get_json("/audit?kind=decision").await;
    let row = &rows["rows"][0];
    assert_eq!((&row["outcome"], &row["by"]), (&json!("withdrawn"), &json!(user)), "{rows}");
    assert!(ledger.entries().is_empty());
}

#[tokio::test]
async fn waiting_call_returns_its_result_or_the_reason() {
    let ledger = LedgerGateway::start(asks_for_writes()).await.ready().await;
    let user = ledger.user().await;
    let http = ledger.gateway.http();
    let waiting = |text: &'static str| {
        let http = http.clone();
        let body = json!({ "arguments": { "text": text }, "wait": 600 }).to_string();
        tokio::spawn(async move { http.post_json("/tools/led_write_entry/call", &body).await })
    };
    let pending = || async {
        let found = poll(TEST_TIMEOUT, || async {
            let listed = http.get_json("/approvals?state=pending").await;
            listed["approvals"][0]["id"].as_str().map(str::to_owned)
        });
        found.await.expect("the call is held")
    };

    let call = waiting("first");
    let id = pending().await;
    let path = format!("/approvals/{id}/approve");
    let (status, problem) = http.post_json(&path, r#"{"arguments":{"text":5}}"#).await;
    assert_eq!((status, &problem["code"]), (400, &json!("call.invalid-arguments")), "{problem}");
    let undeclared = r#"{"arguments":{"text":"x","nonsense":1}}"#;
    let (status, problem) = http.post_json(&path, undeclared).await;
    assert_eq!((status, problem["title"].to_string().contains("was dropped")), (400, false), "{problem}");
    for bad in [r#"{"remember":"forever"}"#, r#"{"argument":{}}"#, r#"{"arguments":{},"arguments":{}}"#, "["]
    {
        let (status, problem) = http.post_json(&path, bad).await;
        assert_eq!((status, &problem["code"]), (400, &json!("request.bad-body")), "{bad}: {problem}");
    }
    assert_eq!(http.get_json(&format!("/approvals/{id}")).await["state"], "pending");
    // The gateway supplies `username` again, so the one in the edit does not count.
    let edit = r#"{"text":"second","username":"root"}"#;
    let edited = ledger.run(&["approvals", "approve", &id, "--args", edit]);
    assert!(edited.status.success(), "{edited:?}");
    let (status, answer) = call.await.unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "wrote second");
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("second") && !warnings.contains("username") && !warnings.contains(&user));

    let call = waiting("third");
    let id = pending().await;
    // The same arguments in another notation are not an edit.
    let same = r#"{"arguments": { "text" : "thir\u0064" } }"#;
    assert_eq!(http.post_json(&format!("/approvals/{id}/approve"), same).await.0, 200);
    let (_, answer) = call.await.unwrap();
    assert_eq!(
        (&answer["warnings"], &answer["result"]["content"][0]["text"]),
        (&Value::Null, &json!("wrote third"))
    );

    let call = waiting("fourth");
    let id = pending().await;
    assert!(ledger.run(&["approvals", "reject", &id, "--reason", "too late"]).status.success());
    let (status, problem) = call.await.unwrap();
    assert_eq!(status, 403);
    assert_eq!(problem["title"], format!("rejected by {user}: too late"));
    assert_eq!(ledger.entries(), [format!("second by {user}"), format!("third by {user}")]);

    let audit = ledger.json(&["audit", "--kind", "decision"]).to_string();
    assert!(audit.contains("too late") && audit.contains("\"edited\""), "{audit}");
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

#[tokio::test]
async fn held_call_expires() {
    let settings = json!({ "approval": { "default": "writes", "expires_seconds": 1 } });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let http = ledger.gateway.http();
    let body = json!({ "arguments": { "text": "late" } }).to_string();
    let (status, problem) = http.post_json("/tools/led_write_entry/call", &body).await;
    assert_eq!((status, &problem["code"]), (403, &json!("call.approval-timeout")));
    assert_eq!(problem["title"], "approval timed out after 1 s");
    let id = http.get_json("/approvals").await["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(over(&http, &id).await["state"], "expired");
    let (status, problem) = http.post_json(&format!("/approvals/{id}/approve"), "").await;
    assert_eq!((status, &problem["code"]), (409, &json!("call.answer-too-late")));
    assert!(ledger.entries().is_empty());
}

#[tokio::test]
async fn cli_call_exits_when_held_or_approves_with_yes() {
    let settings = json!({
        "approval": { "default": "writes" },
        "policy": { "rules": [{ "tools": "led_delete_entry", "effect": "deny", "reason": "nothing goes" }] },
    });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let held = ledger.run(&["call", "led_write_entry", "text=one"]);
    assert_eq!(held.status.code(), Some(4));
    let id = said(&held);
    assert_eq!(ledger.json(&["approvals", "show", &id])["state"], "pending");
    let json = ledger.run(&["call", "led_write_entry", "text=one", "--json"]);
    assert_eq!(json.status.code(), Some(4));
    assert_eq!(crate::token_users::read(&json)["held"], *id, "the same call is held once");
    let yes = ledger.run(&["call", "led_write_entry", "text=two", "--yes"]);
    assert_eq!((yes.status.code(), said(&yes).as_str()), (Some(0), "wrote two"));
    let refused = ledger.run(&["call", "led_delete_entry", "text=one", "--json"]);
    assert_eq!(refused.status.code(), Some(3));
    assert_eq!(crate::token_users::read(&refused)["error"]["code"], "call.refused");
    // Without a running gateway the command runs only the calls that it approves.
    let (home, gateway) = (ledger.home, ledger.gateway);
    gateway.stop().await;
    let run = |words: &[&str]| crate::token_users::run(&home, words, None);
    let operator = |output: std::process::Output| {
        assert!(output.status.success(), "{output:?}");
        said(&output)
    };
    assert!(operator(run(&["approvals"])).contains("led_write_entry"));
    let entries = || std::fs::read_to_string(home.path("ledger.txt")).unwrap().lines().count();
    assert_eq!(entries(), 1);
    let three = run(&["call", "led_write_entry", "text=three"]);
    assert_eq!(three.status.code(), Some(4));
    operator(run(&["approvals", "approve", &said(&three)]));
    assert_eq!(entries(), 2);
    let four = run(&["call", "led_write_entry", "text=four", "--yes"]);
    assert_eq!(operator(four), "wrote four");
    // A remembered approval also satisfies `approval.default`.
    let five = run(&["call", "led_write_entry", "text=five"]);
    operator(run(&["approvals", "approve", &said(&five), "--remember", "always"]));
    assert_eq!(operator(run(&["call", "led_write_entry", "text=six"])), "wrote six");
    operator(run(&["audit", "verify"]));
}

#[tokio::test]
async fn remembered_approval_ends_when_the_tool_changes() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let mut entry = upstream.entry();
    entry["requires_consent"] = true.into();
    let settings = json!({ "policy": { "consent": "gateway" } });
    let home = Home::with_settings(settings, &[("up", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    let http = gateway.http();
    let call = || async { http.post_json("/tools/up_take/call", r#"{"wait":0}"#).await };
    let run = |words: &[&str]| crate::token_users::run(&home, words, None);
    let (status, answer) = call().await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["held"].as_str().unwrap().to_owned();
    assert!(run(&["approvals", "approve", &id, "--remember", "always"]).status.success());
    assert_eq!(call().await.0, 200);
    // It survives a restart.
    gateway.kill().await;
    let gateway = home.start().await;
    gateway.connected(&["up"]).await;
    let http = gateway.http();
    let call = || async { http.post_json("/tools/up_take/call", r#"{"wait":0}"#).await };
    assert_eq!(call().await.0, 200);
    assert_eq!(upstream.seen("tools/call").len(), 3);

    upstream.list(r#"[{"name":"take","description":"Takes everything.","inputSchema":{"type":"object"}}]"#);
    gateway.act("up", "refresh").await;
    let asked = poll(TEST_TIMEOUT, || async { (call().await.0 == 202).then_some(()) }).await;
    assert!(asked.is_some(), "a changed tool needs a new approval");
    let waiting = http.get_json("/approvals?state=pending").await;
    let id = waiting["approvals"][0]["id"].as_str().unwrap().to_owned();
    assert!(run(&["approvals", "approve", &id, "--remember", "always"]).status.success());
    assert_eq!(call().await.0, 200);
    let consents = crate::token_users::read(&run(&["approvals", "consents", "--json"]));
    let consents = consents["consents"].as_array().unwrap();
    assert_eq!(consents.len(), 1, "the newer consent replaces the older one");
    let end = consents[0]["id"].as_str().unwrap().rsplit('-').next().unwrap().to_owned();
    assert!(run(&["approvals", "revoke", &end]).status.success());
    assert_eq!(call().await.0, 202);
    // An approval for a session is valid in that session only.
    let in_session = |session: &str| {
        let (http, body) = (http.clone(), json!({ "wait": 0, "session": session }).to_string());
        async move { http.post_json("/tools/up_take/call", &body).await }
    };
    let (_, answer) = in_session("s1").await;
    let id = answer["held"].as_str().unwrap().to_owned();
    let (status, _) = http.post_json(&format!("/approvals/{id}/approve"), r#"{"remember":"session"}"#).await;
    assert_eq!(status, 200);
    over(&http, &id).await;
    assert_eq!((in_session("s1").await.0, in_session("s2").await.0), (200, 202));
}

#[tokio::test]
async fn held_call_survives_a_restart() {
    let settings = json!({ "approval": { "default": "writes" } });
    let mut ledger = LedgerGateway::start(settings).await.ready().await;
    let id = held_write(&ledger.gateway.http(), "later").await;
    ledger = ledger.survive().await;
    let http = ledger.gateway.http();
    assert_eq!(http.get_json(&format!("/approvals/{id}")).await["state"], "pending");
    let (status, _) = http.post_json(&format!("/approvals/{id}/approve"), "").await;
    assert_eq!(status, 200);
    let held = over(&http, &id).await;
    assert_eq!(held["outcome"]["result"]["content"][0]["text"], "wrote later", "{held}");
    ledger = ledger.survive().await;
    assert_eq!(ledger.entries().len(), 1);
    assert!(ledger.run(&["audit", "verify"]).status.success());
}

#[tokio::test]
async fn multi_line_arguments_are_one_message() {
    let ledger = LedgerGateway::start(json!({})).await.ready().await;
    let smuggled = json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call",
        "params": { "name": "write_entry", "arguments": { "text": "smuggled" } } });
    let http = ledger.gateway.http();
    // Written so that the middle line would be a separate message.
    let body = format!("{{\"arguments\":{{\"a\":\n{smuggled}\n}}}}");
    let (status, answer) = http.post_json("/tools/led_ok/call", &body).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("ok")), "{answer}");
    let body = "{\"arguments\":{\r\n  \"text\": \"pretty\"\r\n}}";
    let (status, answer) = http.post_json("/tools/led_write_entry/call", body).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("wrote pretty")), "{answer}");
    for era in ERAS {
        let client = TestClient::of(era, ledger.gateway.address).await;
        let (_, answer) = client.call_text("led_ok", &format!("{{\"a\":\n{smuggled}\n}}")).await;
        assert!(answer.contains("ok"), "{answer}");
    }
    assert_eq!(ledger.entries().len(), 1, "{:?}", ledger.entries());
}
