//! The experimental tasks of revision 2025-11-25, for clients and from servers.

use crate::ledger::LedgerGateway;
use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use toolbooth_testkit::fixture::{LEGACY, TestEra};
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::scripted_server::{ScriptedAnswer, ScriptedServer};
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, TestClient, Transcript, poll};

const RELATED: &str = "io.modelcontextprotocol/related-task";
const TASK_METHODS: [&str; 3] = ["tasks/get", "tasks/result", "tasks/cancel"];

/// A gateway with a fixture of this era as its server `srv`.
async fn gateway(era: &str) -> (Home, Gateway) {
    let home = Home::new(&[("srv", fixture_on_stdio(era))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    (home, gateway)
}

async fn start(client: &TestClient, tool: &str, arguments: Value) -> Transcript {
    let params = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60_000 } });
    client.start("tools/call", params).await.finish().await
}

/// Calls a tool as a task, and returns the task's id.
async fn started(client: &TestClient, tool: &str, arguments: Value) -> String {
    let told = start(client, tool, arguments).await;
    let task = &told.result()["task"];
    assert_eq!(task["status"], "working", "{}", told.answer);
    for member in ["createdAt", "lastUpdatedAt"] {
        assert!(task[member].as_str().is_some_and(|time| time.ends_with('Z')), "{member}: {task}");
    }
    assert!(task["ttl"].as_u64() > Some(0) && task["pollInterval"].as_u64() > Some(0), "{task}");
    assert_eq!(told.result().get("content"), None, "{}", told.answer);
    task["taskId"].as_str().expect("an id").to_owned()
}

async fn about(client: &TestClient, method: &str, id: &str) -> Transcript {
    client.start(method, json!({ "taskId": id })).await.finish().await
}

/// Waits until a task is in this state.
async fn reached(client: &TestClient, id: &str, state: &str) {
    let found = poll(TEST_TIMEOUT, || async {
        (about(client, "tasks/get", id).await.result()["status"] == state).then_some(())
    });
    assert!(found.await.is_some(), "task {id} is never {state}");
}

#[tokio::test]
async fn call_with_a_task_is_answered_at_once_and_its_result_later() {
    for era in ["modern", "legacy"] {
        let (_home, gateway) = gateway(era).await;
        let client = TestClient::of(TestEra::Legacy, gateway.address).await;
        let id = started(&client, "srv_slow_compute", json!({ "seconds": 1, "label": "x" })).await;
        let task = about(&client, "tasks/get", &id).await.result().clone();
        assert_eq!((&task["taskId"], &task["status"]), (&json!(id), &json!("working")), "{task}");
        // Waits for the end.
        let told = about(&client, "tasks/result", &id).await;
        assert_eq!(told.text(), "Computed \"x\" for 1 s.", "{era}");
        assert_eq!(told.result()["_meta"][RELATED], json!({ "taskId": id }), "{}", told.answer);
        assert_eq!(told.result().get("resultType"), None, "{}", told.answer);
        assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "completed");
        // A result can be read again.
        assert_eq!(about(&client, "tasks/result", &id).await.text(), "Computed \"x\" for 1 s.");
        // The record of the call has the id of the task.
        let record = gateway.http().get_json(&format!("/calls/{id}")).await;
        assert_eq!(record["tool"], "slow_compute", "{record}");
    }
}

#[tokio::test]
async fn task_ends_as_its_call_does() {
    let (_home, gateway) = gateway("modern").await;
    let client = TestClient::of(TestEra::Legacy, gateway.address).await;
    let id = started(&client, "srv_failing_job", json!({})).await;
    let told = about(&client, "tasks/result", &id).await;
    assert_eq!((told.is_error(), told.text()), (true, "The job failed, as it always does."));
    let task = about(&client, "tasks/get", &id).await.result().clone();
    let message = json!("The job failed, as it always does.");
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("failed"), &message), "{task}");
    let id = started(&client, "srv_protocol_error_job", json!({})).await;
    let told = about(&client, "tasks/result", &id).await;
    assert_eq!(told.code(), Some(-32603), "{}", told.answer);
    assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "failed");
    let told = start(&client, "srv_no_such_tool", json!({})).await;
    assert_eq!(told.code(), Some(-32602), "an unknown tool has no task: {}", told.answer);
    let params = json!({ "name": "srv_greet", "arguments": {}, "task": 7 });
    let told = client.start("tools/call", params).await.finish().await;
    assert_eq!(told.code(), Some(-32602), "{}", told.answer);
}

#[tokio::test]
async fn questions_of_a_task_are_asked_with_its_result() {
    for era in ["modern", "legacy"] {
        let (_home, gateway) = gateway(era).await;
        let accepts = |_: &str, _: &Value| json!({ "action": "accept", "content": { "confirm": true } });
        let client = TestClient::of(TestEra::Legacy, gateway.address).await.answering(accepts);
        let id = started(&client, "srv_confirm_delete", json!({ "filename": "a" })).await;
        reached(&client, &id, "input_required").await;
        let told = about(&client, "tasks/result", &id).await;
        assert_eq!(told.text(), "\"a\" was deleted.", "{era}");
        assert_eq!(told.questions.len(), 1, "{:?}", told.questions);
        let asked = &told.questions[0];
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(asked["params"]["_meta"][RELATED], json!({ "taskId": id }), "{asked}");
    }
}

#[tokio::test]
async fn cancelled_task_ends_its_call_once() {
    for era in ["modern", "legacy"] {
        let (_home, gateway) = gateway(era).await;
        let client = TestClient::of(TestEra::Legacy, gateway.address).await;
        let id = started(&client, "srv_slow_compute", json!({ "seconds": 60 })).await;
        let told = about(&client, "tasks/cancel", &id).await;
        assert_eq!((&told.result()["taskId"], &told.result()["status"]), (&json!(id), &json!("cancelled")));
        let told = about(&client, "tasks/cancel", &id).await;
        assert_eq!(told.code(), Some(-32602), "a task ends once: {}", told.answer);
        assert!(about(&client, "tasks/result", &id).await.code().is_some(), "it has no result");
        let http = gateway.http();
        let record = poll(TEST_TIMEOUT, || async {
            let record = http.get_json(&format!("/calls/{id}")).await;
            record["outcome"].as_str().map(str::to_owned)
        });
        assert_eq!(record.await.as_deref(), Some("cancelled"), "the call itself has ended");
    }
}

#[tokio::test]
async fn user_lists_their_own_tasks_page_by_page() {
    let settings = json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } });
    let home = Home::with_settings(settings, &[("srv", fixture_on_stdio("legacy"))]);
    let gateway = home.start().await;
    let (ann, bob) = (make_token(&home, None, "ann", &[]).0, make_token(&home, None, "bob", &[]).0);
    let client = async |token: &str| {
        TestClient::with_revision(LEGACY, gateway.address, "/mcp", &bearer(token), json!({})).await
    };
    let (hers, his) = (client(&ann).await, client(&bob).await);
    let mut made = Vec::new();
    for _ in 0..21 {
        made.push(started(&hers, "srv_greet", json!({ "name": "Ann" })).await);
    }
    let list = async |client: &TestClient, params: Value| {
        client.start("tasks/list", params).await.finish().await.result().clone()
    };
    let first = list(&hers, json!({})).await;
    let second = list(&hers, json!({ "cursor": first["nextCursor"] })).await;
    let ids = |page: &Value| -> Vec<String> {
        let tasks = page["tasks"].as_array().expect("a list").iter();
        tasks.map(|task| task["taskId"].as_str().expect("an id").to_owned()).collect()
    };
    let listed = [ids(&first), ids(&second)].concat();
    made.reverse();
    assert_eq!(listed, made, "newest first");
    assert_eq!(second.get("nextCursor"), None, "{second}");
    assert_eq!(list(&his, json!({})).await, json!({ "tasks": [] }));
    for cursor in ["none", made[0].as_str()] {
        let told = his.start("tasks/list", json!({ "cursor": cursor })).await.finish().await;
        assert_eq!(told.code(), Some(-32602), "{}", told.answer);
    }
    for method in TASK_METHODS {
        let (foreign, missing) = (about(&his, method, &made[0]).await, about(&his, method, "none").await);
        assert_eq!(foreign.code(), Some(-32602), "{}", foreign.answer);
        assert_eq!(foreign.answer["error"], missing.answer["error"], "both look the same");
    }
}

#[tokio::test]
async fn task_is_unknown_to_a_persona_that_may_not_use_its_tool() {
    let settings = json!({ "personas": { "greeter": { "allowed_tools": ["srv_greet"] } } });
    let home = Home::with_settings(settings, &[("srv", fixture_on_stdio("modern"))]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::of(TestEra::Legacy, gateway.address).await;
    let id = started(&client, "srv_slow_compute", json!({ "seconds": 60 })).await;
    let header = [("x-toolbooth-persona".to_owned(), "greeter".to_owned())];
    let greeter = TestClient::with_headers(TestEra::Legacy, gateway.address, "/mcp", &header).await;
    for method in TASK_METHODS {
        let (hidden, missing) = (about(&greeter, method, &id).await, about(&greeter, method, "none").await);
        assert_eq!(hidden.code(), Some(-32602), "{}", hidden.answer);
        assert_eq!(hidden.answer["error"], missing.answer["error"], "both look the same");
    }
    let told = greeter.start("tasks/list", json!({})).await.finish().await;
    assert_eq!(*told.result(), json!({ "tasks": [] }));
    assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "working", "it was not cancelled");
}

#[tokio::test]
async fn tasks_are_the_same_in_both_eras() {
    let (_home, gateway) = gateway("legacy").await;
    let legacy = TestClient::of(TestEra::Legacy, gateway.address).await;
    let extension = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let modern = TestClient::with_capabilities(TestEra::Modern, gateway.address, extension).await;
    let id = started(&legacy, "srv_greet", json!({ "name": "Ann" })).await;
    about(&legacy, "tasks/result", &id).await;
    let task = about(&modern, "tasks/get", &id).await.result().clone();
    let result = &task["result"];
    assert_eq!((&task["status"], &result["resultType"]), (&json!("completed"), &json!("complete")), "{task}");
    assert_eq!(result["content"][0]["text"], "Hello, Ann!", "{task}");
    let told = modern.call("srv_slow_compute", json!({ "seconds": 1, "label": "x" })).await;
    let id = told.result()["taskId"].as_str().expect("a task").to_owned();
    let told = about(&legacy, "tasks/result", &id).await;
    assert_eq!(told.text(), "Computed \"x\" for 1 s.");
    assert_eq!(told.result().get("resultType"), None, "{}", told.answer);
}

#[tokio::test]
async fn older_revisions_have_no_tasks() {
    let (_home, gateway) = gateway("legacy").await;
    let older = TestClient::legacy(gateway.address, "2025-06-18", json!({})).await;
    let told = start(&older, "srv_greet", json!({ "name": "Ann" })).await;
    assert_eq!(told.text(), "Hello, Ann!", "`task` is ignored");
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        assert_eq!(about(&older, method, "none").await.code(), Some(-32601), "{method}");
    }
}

#[tokio::test]
async fn tools_are_listed_with_tasks_for_clients_that_know_tasks() {
    let (_home, gateway) = gateway("legacy").await;
    let supports = async |capabilities: Value| {
        let client = TestClient::with_capabilities(TestEra::Legacy, gateway.address, capabilities).await;
        let listed = client.ask("tools/list", json!({})).await.result()["tools"].clone();
        let tools = listed.as_array().expect("a list").clone();
        tools.iter().map(|tool| tool["execution"]["taskSupport"].clone()).collect::<Vec<Value>>()
    };
    let told = supports(json!({ "tasks": {} })).await;
    assert!(told.len() > 5 && told.iter().all(|support| support == "optional"), "{told:?}");
    let untold = supports(json!({})).await;
    assert!(untold.len() == told.len() && untold.iter().all(Value::is_null), "{untold:?}");
}

#[tokio::test]
async fn call_that_waits_for_approval_is_a_task() {
    let settings = json!({ "approval": { "default": "writes", "wait_seconds": 1 } });
    let ledger = LedgerGateway::start(settings).await.ready().await;
    let client =
        TestClient::with_capabilities(TestEra::Legacy, ledger.gateway.address, json!({ "tasks": {} })).await;
    let id = started(&client, "led_write_entry", json!({ "text": "once" })).await;
    let http = ledger.gateway.http();
    let held = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        listed["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    let held = held.await.expect("the call is held");
    assert_eq!(about(&client, "tasks/get", &id).await.result()["status"], "working");
    assert!(ledger.entries().is_empty());
    assert!(ledger.run(&["approvals", "approve", &held]).status.success());
    assert_eq!(about(&client, "tasks/result", &id).await.text(), "wrote once");
    assert_eq!(ledger.entries().len(), 1);
}

/// A server whose only tool runs as a task.
async fn task_server() -> ScriptedServer {
    let server = ScriptedServer::start(TestEra::Legacy).await;
    server.declare(json!({ "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } } }));
    server
        .list(r#"[{"name":"take","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]"#);
    let task = json!({ "taskId": "task-of-server", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": 50 });
    server.answer(ScriptedAnswer::result(&json!({ "task": task }).to_string()));
    server.answer_method("tasks/get", task.clone());
    let mut cancelled = task;
    cancelled["status"] = json!("cancelled");
    server.answer_method("tasks/cancel", cancelled);
    server
}

#[tokio::test]
async fn tool_that_a_legacy_server_runs_only_as_a_task_is_an_ordinary_tool() {
    let server = task_server().await;
    let related = json!({ RELATED: { "taskId": "task-of-server" } });
    let result = json!({ "content": [{ "type": "text", "text": "taken" }], "_meta": related });
    server.answer_method("tasks/result", result);
    let home = Home::new(&[("srv", server.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    for era in [TestEra::Modern, TestEra::Legacy] {
        let client = TestClient::with_capabilities(era, gateway.address, json!({})).await;
        let told = client.call("srv_take", json!({})).await;
        assert_eq!(told.text(), "taken", "{}", told.answer);
        assert!(
            !told.answer.to_string().contains("task-of-server"),
            "the id of the task stays here: {}",
            told.answer
        );
    }
    let calls = server.seen("tools/call");
    assert!(calls.iter().all(|call| call.body.contains(r#""task":{}"#)), "{calls:?}");
    let client = TestClient::with_capabilities(TestEra::Legacy, gateway.address, json!({})).await;
    let listed = client.ask("tools/list", json!({})).await;
    let tools = listed.result()["tools"].as_array().expect("a list");
    let take = tools.iter().find(|tool| tool["name"] == "srv_take").expect("the tool");
    assert_eq!(take["execution"]["taskSupport"], "optional", "ordinary calls work, too: {take}");
}

#[tokio::test]
async fn task_of_a_legacy_server_is_cancelled_with_its_call() {
    let server = task_server().await;
    server.answer_method("tasks/result", Value::Null);
    let home = Home::new(&[("srv", server.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::with_capabilities(TestEra::Legacy, gateway.address, json!({})).await;
    let id = started(&client, "srv_take", json!({})).await;
    // The gateway waits for the result and asks for the state.
    let asked = poll(TEST_TIMEOUT, || async { (server.seen("tasks/get").len() > 1).then_some(()) });
    assert!(asked.await.is_some() && !server.seen("tasks/result").is_empty());
    assert_eq!(about(&client, "tasks/cancel", &id).await.result()["status"], "cancelled");
    let ended = poll(TEST_TIMEOUT, || async { server.seen("tasks/cancel").pop() }).await;
    assert!(ended.expect("the task is cancelled at the server").body.contains("task-of-server"));
}
