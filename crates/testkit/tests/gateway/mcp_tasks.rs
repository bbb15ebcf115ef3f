//! The tasks extension: long calls become tasks for clients that follow them, and the gateway follows the tasks of
//! servers for all others.

use crate::ledger::LedgerGateway;
use crate::shared_store::SharedDatabase;
use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use std::net::SocketAddr;
use toolbooth_testkit::fixture::{MODERN, TestEra};
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, TestClient, Transcript, poll};

fn with_tasks(more: Value) -> Value {
    let mut capabilities = more;
    capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    capabilities
}

/// A modern client that follows tasks and answers forms.
async fn following(address: SocketAddr) -> TestClient {
    TestClient::with_capabilities(TestEra::Modern, address, with_tasks(json!({ "elicitation": {} }))).await
}

/// A gateway with a fixture of this era as its server `srv`.
async fn gateway(era: &str) -> (Home, Gateway) {
    let home = Home::new(&[("srv", fixture_on_stdio(era))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    (home, gateway)
}

async fn start(client: &TestClient, tool: &str, arguments: Value) -> Transcript {
    let params = json!({ "name": tool, "arguments": arguments });
    client.start("tools/call", params).await.finish().await
}

/// Calls a tool that becomes a task, and returns the task's id.
async fn started(client: &TestClient, tool: &str, arguments: Value) -> String {
    let transcript = start(client, tool, arguments).await;
    let task = transcript.result();
    assert_eq!(task["resultType"], "task", "{}", transcript.answer);
    assert!(matches!(task["status"].as_str(), Some("working" | "input_required")), "{task}");
    for member in ["createdAt", "lastUpdatedAt"] {
        assert!(task[member].as_str().is_some_and(|time| time.ends_with('Z')), "{member}: {task}");
    }
    assert!(task["ttlMs"].as_u64() > Some(0) && task["pollIntervalMs"].as_u64() > Some(0), "{task}");
    for member in ["result", "error", "inputRequests", "requestState"] {
        assert_eq!(task.get(member), None, "{member} is not part of a new task");
    }
    task["taskId"].as_str().expect("an id").to_owned()
}

async fn about(client: &TestClient, method: &str, id: &str) -> Transcript {
    client.start(method, json!({ "taskId": id })).await.finish().await
}

/// Waits until a task is in one of these states.
async fn reached(client: &TestClient, id: &str, states: &[&str]) -> Value {
    let found = poll(TEST_TIMEOUT, || async {
        let task = about(client, "tasks/get", id).await.result().clone();
        states.contains(&task["status"].as_str().unwrap_or_default()).then_some(task)
    });
    found.await.unwrap_or_else(|| panic!("task {id} is never {states:?}"))
}

/// Waits until a call is held, and returns its id. The task may be announced before its call is held.
async fn held_call(http: &Http) -> String {
    let found = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        listed["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    found.await.expect("the call is held")
}

const ENDED: [&str; 3] = ["completed", "failed", "cancelled"];

#[tokio::test]
async fn long_call_becomes_a_task_and_a_short_one_does_not() {
    for era in ["modern", "legacy"] {
        let (_home, gateway) = gateway(era).await;
        let client = following(gateway.address).await;
        let id = started(&client, "srv_slow_compute", json!({ "seconds": 1, "label": "x" })).await;
        let task = reached(&client, &id, &ENDED).await;
        assert_eq!(
            (&task["status"], &task["resultType"]),
            (&json!("completed"), &json!("complete")),
            "{task}"
        );
        assert_eq!(task["result"]["content"][0]["text"], "Computed \"x\" for 1 s.", "{era}");
        // The record of the call has the id of the task.
        let record = gateway.http().get_json(&format!("/calls/{id}")).await;
        assert_eq!(
            (&record["tool"], &record["outcome"]),
            (&json!("slow_compute"), &json!("done")),
            "{record}"
        );

        let transcript = client.call("srv_greet", json!({ "name": "Ann" })).await;
        assert_eq!(
            (transcript.text(), &transcript.result()["resultType"]),
            ("Hello, Ann!", &json!("complete"))
        );
        let waiting = TestClient::of(TestEra::Modern, gateway.address).await;
        let transcript = waiting.call("srv_slow_compute", json!({ "seconds": 0.8, "label": "y" })).await;
        assert_eq!(transcript.text(), "Computed \"y\" for 0.8 s.", "a client without tasks waits");
    }
}

#[tokio::test]
async fn task_ends_as_its_call_does() {
    let (_home, gateway) = gateway("modern").await;
    let client = following(gateway.address).await;
    let id = started(&client, "srv_failing_job", json!({})).await;
    let task = reached(&client, &id, &ENDED).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
    let id = started(&client, "srv_protocol_error_job", json!({})).await;
    let task = reached(&client, &id, &ENDED).await;
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)), "{task}");
    assert_eq!(task.get("result"), None);
}

#[tokio::test]
async fn questions_of_a_task_are_answered_one_by_one() {
    let (_home, gateway) = gateway("modern").await;
    let client = following(gateway.address).await;
    let id = started(&client, "srv_multi_input", json!({})).await;
    let task = reached(&client, &id, &["input_required"]).await;
    let keys: Vec<String> = task["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 2, "{task}");
    for (key, name) in keys.iter().zip(["Ann", "Bob"]) {
        let answer = json!({ "action": "accept", "content": { "name": name } });
        let params = json!({ "taskId": id, "inputResponses": { key: answer, "unknown": {} } });
        let transcript = client.start("tasks/update", params).await.finish().await;
        assert_eq!(*transcript.result(), json!({ "resultType": "complete" }), "{}", transcript.answer);
        let task = about(&client, "tasks/get", &id).await.result().clone();
        assert_eq!(task["inputRequests"].get(key), None, "the question was answered: {task}");
    }
    let task = reached(&client, &id, &ENDED).await;
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Ann") && text.contains("Bob"), "{text}");
}

#[tokio::test]
async fn cancelled_task_ends_its_call() {
    for era in ["modern", "legacy"] {
        let (_home, gateway) = gateway(era).await;
        let client = following(gateway.address).await;
        let id = started(&client, "srv_slow_compute", json!({ "seconds": 60 })).await;
        for _ in 0..2 {
            let transcript = about(&client, "tasks/cancel", &id).await;
            assert_eq!(*transcript.result(), json!({ "resultType": "complete" }), "{}", transcript.answer);
            assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "cancelled");
        }
        let http = gateway.http();
        let record = poll(TEST_TIMEOUT, || async {
            let record = http.get_json(&format!("/calls/{id}")).await;
            record["outcome"].as_str().map(str::to_owned)
        });
        assert_eq!(record.await.as_deref(), Some("cancelled"), "the call itself has ended");
    }
}

#[tokio::test]
async fn task_is_unknown_to_other_users_and_needs_the_extension() {
    let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } });
    let home = Home::with_settings(settings, &[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    let (ann, bob) = (make_token(&home, None, "ann", &[]).0, make_token(&home, None, "bob", &[]).0);
    let client = async |token: &str, capabilities: Value| {
        TestClient::with_revision(MODERN, gateway.address, "/mcp", &bearer(token), capabilities).await
    };
    let hers = client(&ann, with_tasks(json!({}))).await;
    let id = started(&hers, "srv_slow_compute", json!({ "seconds": 60 })).await;
    let his = client(&bob, with_tasks(json!({}))).await;
    let plain = client(&ann, json!({})).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": id, "inputResponses": {} });
        let foreign = his.start(method, params.clone()).await.finish().await;
        let missing =
            his.start(method, json!({ "taskId": "none", "inputResponses": {} })).await.finish().await;
        assert_eq!((foreign.status, foreign.code()), (400, Some(-32602)), "{}", foreign.answer);
        assert_eq!(foreign.answer["error"], missing.answer["error"], "both look the same");
        let undeclared = plain.start(method, params).await.finish().await;
        assert_eq!(undeclared.code(), Some(-32021), "{}", undeclared.answer);
        let needed = &undeclared.answer["error"]["data"]["requiredCapabilities"]["extensions"];
        assert!(needed["io.modelcontextprotocol/tasks"].is_object(), "{}", undeclared.answer);
    }
    assert_eq!(about(&hers, "tasks/get", &id).await.result()["status"], "working", "it was not cancelled");
}

#[tokio::test]
async fn task_is_unknown_to_a_persona_that_may_not_use_its_tool() {
    let settings = json!({ "personas": { "greeter": { "allowed_tools": ["srv_greet"] } } });
    let home = Home::with_settings(settings, &[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = following(gateway.address).await;
    let id = started(&client, "srv_slow_compute", json!({ "seconds": 60 })).await;
    let greeter = following(gateway.address).await.sending("x-toolbooth-persona", "greeter");
    assert_eq!(greeter.call("srv_greet", json!({ "name": "Ann" })).await.text(), "Hello, Ann!");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = |id: &str| json!({ "taskId": id, "inputResponses": {} });
        let hidden = greeter.start(method, params(&id)).await.finish().await;
        let missing = greeter.start(method, params("none")).await.finish().await;
        assert_eq!(hidden.code(), Some(-32602), "{}", hidden.answer);
        assert_eq!(hidden.answer["error"], missing.answer["error"], "both look the same");
    }
    assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "working", "it was not cancelled");
}

#[tokio::test]
async fn tasks_survive_a_kill_or_fail() {
    let (home, gateway) = gateway("modern").await;
    let client = following(gateway.address).await;
    let done = started(&client, "srv_slow_compute", json!({ "seconds": 0.6, "label": "x" })).await;
    reached(&client, &done, &["completed"]).await;
    let lost = started(&client, "srv_slow_compute", json!({ "seconds": 60 })).await;
    gateway.kill().await;
    let gateway = home.start().await;
    let client = following(gateway.address).await;
    let task = about(&client, "tasks/get", &done).await.result().clone();
    assert_eq!(task["result"]["content"][0]["text"], "Computed \"x\" for 0.6 s.", "{task}");
    let task = about(&client, "tasks/get", &lost).await.result().clone();
    assert_eq!(task["status"], "failed", "{task}");
    assert_eq!(task["error"]["data"]["toolbooth"]["code"], "call.outcome-unknown", "{task}");
    let transcript = about(&client, "tasks/cancel", &lost).await;
    assert_eq!(
        transcript.result()["resultType"],
        "complete",
        "an ended task can be cancelled: {}",
        transcript.answer
    );
}

#[tokio::test]
async fn call_that_waits_for_approval_is_a_task() {
    let settings = json!({ "approval": { "default": "writes", "wait_seconds": 1 } });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let address = ledger.gateway.address;
    let client = TestClient::with_capabilities(TestEra::Modern, address, with_tasks(json!({}))).await;
    let id = started(&client, "led_write_entry", json!({ "text": "once" })).await;
    assert!(ledger.entries().is_empty());
    let held = held_call(&ledger.gateway.http()).await;
    assert!(ledger.run(&["approvals", "approve", &held]).status.success());
    let task = reached(&client, &id, &ENDED).await;
    assert_eq!(task["result"]["content"][0]["text"], "wrote once", "{task}");
    assert_eq!(ledger.entries().len(), 1);
}

#[tokio::test]
async fn held_call_is_withdrawn_when_its_task_is_cancelled() {
    let settings = json!({ "approval": { "default": "writes", "wait_seconds": 1 } });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let (address, http) = (ledger.gateway.address, ledger.gateway.http());
    let client = TestClient::with_capabilities(TestEra::Modern, address, with_tasks(json!({}))).await;
    let id = started(&client, "led_write_entry", json!({ "text": "never" })).await;
    let held = held_call(&http).await;
    let transcript = about(&client, "tasks/cancel", &id).await;
    assert_eq!(*transcript.result(), json!({ "resultType": "complete" }), "{}", transcript.answer);
    assert_eq!(http.get_json("/approvals?state=pending").await["approvals"], json!([]));
    assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "cancelled");
    let (status, late) = http.post_json(&format!("/approvals/{held}/approve"), "").await;
    assert_eq!((status, &late["code"]), (409, &json!("call.already-decided")), "{late}");
    assert!(ledger.entries().is_empty());
}

#[tokio::test]
async fn held_call_of_a_task_is_withdrawn_at_another_gateway() {
    let Some(database) = SharedDatabase::create().await else { return };
    let rules = json!([{ "tools": "srv_slow_compute", "effect": "ask" }]);
    let settings = json!({ "store": { "url": database.url }, "policy": { "rules": rules } });
    let home = || Home::with_settings(settings.clone(), &[("srv", fixture_on_stdio("modern"))]);
    let homes = [home(), home()];
    let (first, second) = tokio::join!(homes[0].start(), homes[1].start());
    first.connected(&["srv"]).await;
    let client = async |address: SocketAddr| {
        TestClient::with_capabilities(TestEra::Modern, address, with_tasks(json!({}))).await
    };
    let (here, there) = (client(first.address).await, client(second.address).await);
    let id = started(&here, "srv_slow_compute", json!({ "seconds": 0 })).await;
    let http = second.http();
    let held = held_call(&http).await;
    let transcript = about(&there, "tasks/cancel", &id).await;
    assert_eq!(transcript.result()["resultType"], "complete", "{}", transcript.answer);
    assert_eq!(http.get_json("/approvals?state=pending").await["approvals"], json!([]));
    let (status, late) = first.http().post_json(&format!("/approvals/{held}/approve"), "").await;
    assert_eq!((status, &late["code"]), (409, &json!("call.already-decided")), "{late}");
    reached(&here, &id, &["cancelled"]).await;
}

#[tokio::test]
async fn task_of_a_server_is_a_slow_call_for_clients_without_tasks() {
    let (_home, gateway) = gateway("modern").await;
    let legacy = TestClient::of(TestEra::Legacy, gateway.address).await;
    // The server runs this tool only as a task.
    let transcript = legacy.call("srv_failing_job", json!({})).await;
    assert_eq!(
        (transcript.is_error(), transcript.text()),
        (true, "The job failed, as it always does."),
        "{}",
        transcript.answer
    );
    let transcript = legacy.call("srv_slow_compute", json!({ "seconds": 0, "label": "z" })).await;
    assert_eq!(transcript.text(), "Computed \"z\" for 0 s.");
    let accepts = |_: &str, _: &Value| json!({ "action": "accept", "content": { "confirm": true } });
    let transcript =
        legacy.clone().answering(accepts).call("srv_confirm_delete", json!({ "filename": "a" })).await;
    assert_eq!(
        (transcript.text(), transcript.questions.len()),
        ("\"a\" was deleted.", 1),
        "{}",
        transcript.answer
    );
    let (status, answer) =
        gateway.http().post_json("/tools/srv_failing_job/call", r#"{"arguments":{}}"#).await;
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!((status, text), (200, &json!("The job failed, as it always does.")), "{answer}");
}

#[tokio::test]
async fn task_of_another_gateway_is_seen_and_cancelled() {
    let Some(database) = SharedDatabase::create().await else { return };
    let settings = json!({ "store": { "url": database.url } });
    let home = || Home::with_settings(settings.clone(), &[("srv", fixture_on_stdio("modern"))]);
    let homes = [home(), home()];
    let (first, second) = tokio::join!(homes[0].start(), homes[1].start());
    first.connected(&["srv"]).await;
    let (here, there) = (following(first.address).await, following(second.address).await);
    let id = started(&here, "srv_slow_compute", json!({ "seconds": 60 })).await;
    assert_eq!(about(&there, "tasks/get", &id).await.result()["status"], "working");
    let transcript = about(&there, "tasks/cancel", &id).await;
    assert_eq!(transcript.result()["resultType"], "complete", "{}", transcript.answer);
    reached(&here, &id, &["cancelled"]).await;
    let id = started(&here, "srv_slow_compute", json!({ "seconds": 0.6, "label": "x" })).await;
    let task = reached(&there, &id, &ENDED).await;
    assert_eq!(task["result"]["content"][0]["text"], "Computed \"x\" for 0.6 s.", "{task}");
}
