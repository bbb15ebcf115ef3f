//! The checks of each feature in a cell of the matrix.

use crate::eras::{Cell, CellTransport};
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::{OWN_TOOL, all_capabilities};
use toolbooth_testkit::world::{TEST_TIMEOUT, TestClient, Transcript, poll, token};

/// Members that only modern results have.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const WATCHED: &str = "test://watched-resource";

impl Cell {
    async fn call(&self, tool: &str, arguments: Value) -> Transcript {
        self.client.call(&format!("srv_{tool}"), arguments).await
    }

    /// Checks that a result has the members of the client's era, regardless of the server's era.
    fn check_members(&self, result: &Value, cacheable: ResultCaching) {
        let found: Vec<&str> = MODERN_MEMBERS.into_iter().filter(|key| result.get(*key).is_some()).collect();
        let expected: &[&str] = match (self.client_era, cacheable) {
            (TestEra::Legacy, _) => &[],
            (TestEra::Modern, ResultCaching::No) => &MODERN_MEMBERS[..1],
            (TestEra::Modern, ResultCaching::Yes) => &MODERN_MEMBERS,
        };
        assert_eq!(found, expected, "{result}");
        if self.client_era == TestEra::Modern {
            assert_eq!(result["resultType"], "complete");
        }
        if found.len() == 3 {
            assert!(result["ttlMs"].as_u64().is_some(), "{result}");
            assert_eq!(result["cacheScope"], "private", "results are private to a caller: {result}");
        }
    }
}

#[derive(Clone, Copy)]
enum ResultCaching {
    Yes,
    No,
}

pub async fn tools_are_listed(cell: Cell) {
    let reply = cell.client.ask("tools/list", json!({})).await;
    let result = reply.result();
    cell.check_members(result, ResultCaching::Yes);
    let whose = &result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    let expected = if cell.client_era == TestEra::Modern { json!("toolbooth") } else { Value::Null };
    assert_eq!(*whose, expected, "the list is the gateway's own");
    let tools = result["tools"].as_array().unwrap();
    let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
    assert!(tools.len() > 30);
    assert!(tools.iter().map(name).all(|name| name.starts_with("srv_") || name == OWN_TOOL));
    let add = tools.iter().find(|tool| tool["name"] == "srv_add").unwrap();
    assert_eq!(add["outputSchema"]["required"], json!(["sum"]));
    assert_eq!(add["annotations"], json!({ "title": "Add", "readOnlyHint": true, "idempotentHint": true }));
    assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]));
}

pub async fn tool_is_called(cell: Cell) {
    let reply = cell.call("add", json!({ "a": 19, "b": 23 })).await;
    assert_eq!((reply.status, reply.text()), (200, "42"));
    assert_eq!(reply.result()["structuredContent"], json!({ "sum": 42 }));
    cell.check_members(reply.result(), ResultCaching::No);
    let whose = &reply.result()["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    if (cell.client_era, cell.server_era) == (TestEra::Modern, TestEra::Legacy) {
        assert_eq!(*whose, "toolbooth", "for a legacy server the gateway is named as the source");
    }
    // Every form of the name resolves to the same tool.
    for name in ["mcp_srv_add", "srv__add", "mcp.srv.add", "add"] {
        assert_eq!(cell.client.call(name, json!({ "a": 1, "b": 1 })).await.text(), "2", "{name}");
    }
}

pub async fn tool_error_is_returned(cell: Cell) {
    let reply = cell.call("fail", json!({ "message": "out of paper" })).await;
    assert_eq!((reply.status, reply.text(), reply.is_error()), (200, "out of paper", true));
    assert_eq!(reply.fault(), "", "it is the tool's own error, not the gateway's");
    cell.check_members(reply.result(), ResultCaching::No);
}

pub async fn unknown_tool_is_refused(cell: Cell) {
    let reply = cell.call("nonsense", json!({})).await;
    let status = if cell.client_era == TestEra::Modern { 400 } else { 200 };
    assert_eq!((reply.code(), reply.status), (Some(-32602), status), "{}", reply.answer);
}

pub async fn user_is_asked(cell: Cell) {
    let reply = cell.call("ask_name", json!({})).await;
    assert_eq!(reply.text(), "Hello, Ann!");
    assert_eq!(reply.questions.len(), 1);
    assert_eq!(reply.questions[0]["method"], "elicitation/create");
    assert_eq!(reply.questions[0]["params"]["message"], "Server `srv` asks: What is your name?");
    assert_eq!(reply.questions[0]["params"]["requestedSchema"]["required"], json!(["name"]));
    cell.check_members(reply.result(), ResultCaching::No);
}

pub async fn user_declines(cell: Cell) {
    let client = cell.client.clone().answering(|_, _| json!({ "action": "decline" }));
    let reply = client.call("srv_ask_name", json!({})).await;
    assert_eq!(reply.text(), "No name was given: decline.");
}

pub async fn model_is_sampled(cell: Cell) {
    let reply = cell.call("sample_poem", json!({ "topic": "booths" })).await;
    assert_eq!(reply.text(), "Roses are red.");
    assert_eq!(reply.questions[0]["method"], "sampling/createMessage");
    let asked = &reply.questions[0]["params"];
    assert_eq!(asked["messages"][0]["content"]["text"], "Write a short poem about booths");
    assert_eq!(asked["maxTokens"], 200);
}

pub async fn roots_are_listed(cell: Cell) {
    let reply = cell.call("list_my_roots", json!({})).await;
    assert_eq!(reply.questions[0]["method"], "roots/list");
    let roots = &reply.result()["structuredContent"]["answers"]["roots"]["roots"];
    assert_eq!(*roots, json!([{ "uri": "file:///home/ann", "name": "home" }]));
}

pub async fn several_questions_are_asked_at_once(cell: Cell) {
    let reply = cell.call("test_input_required_result_multiple_inputs", json!({})).await;
    let mut asked: Vec<&str> =
        reply.questions.iter().filter_map(|question| question["method"].as_str()).collect();
    asked.sort_unstable();
    assert_eq!(asked, ["elicitation/create", "roots/list", "sampling/createMessage"]);
    let answers = &reply.result()["structuredContent"]["answers"];
    assert_eq!(answers["user_name"]["content"]["name"], "Ann", "{answers}");
    assert_eq!(answers["greeting"]["content"]["text"], "Roses are red.");
    assert_eq!(answers["client_roots"]["roots"][0]["name"], "home");
}

pub async fn questions_are_asked_in_rounds(cell: Cell) {
    let reply = cell.call("test_input_required_result_multi_round", json!({})).await;
    assert_eq!((reply.text(), reply.questions.len()), ("Ann likes blue.", 2));
}

pub async fn prompt_asks_a_question(cell: Cell) {
    let params = json!({ "name": "srv_test_input_required_result_prompt" });
    let reply = cell.client.ask("prompts/get", params).await;
    let text = &reply.result()["messages"][0]["content"]["text"];
    assert_eq!((text, reply.questions.len()), (&json!("The context is \"a test\"."), 1));
}

pub async fn clients_without_capabilities_are_not_asked(cell: Cell) {
    let client = TestClient::with_capabilities(cell.client_era, cell.address, json!({})).await;
    let reply = client.call("srv_ask_name", json!({})).await;
    assert_eq!(reply.questions, Vec::<Value>::new());
    // One process of a legacy server serves all clients of its user, so it may ask and is refused.
    if (cell.server_era, cell.transport) == (TestEra::Legacy, CellTransport::Stdio) {
        assert!(reply.is_error() && reply.text().contains("refused"), "{}", reply.answer);
        return;
    }
    // Otherwise the server knows the capabilities. The fixture then fails, with a code that legacy clients do not know.
    match cell.client_era {
        TestEra::Modern => assert_eq!((reply.code(), reply.status), (Some(-32021), 400), "{}", reply.answer),
        TestEra::Legacy => assert!(matches!(reply.code(), Some(-32600 | -32602)), "{}", reply.answer),
    }
}

/// All client capabilities, including URL elicitation.
fn with_pages() -> Value {
    let mut all = all_capabilities();
    all["elicitation"] = json!({ "form": {}, "url": {} });
    all
}

pub async fn user_is_sent_to_a_url(cell: Cell) {
    let client = TestClient::with_capabilities(cell.client_era, cell.address, with_pages()).await;
    let reply = client.call("srv_visit_page", json!({})).await;
    assert_eq!((reply.text(), reply.questions.len()), ("The page was opened: accept.", 1));
    let asked = &reply.questions[0]["params"];
    assert_eq!((&asked["mode"], &asked["url"]), (&json!("url"), &json!("https://example.org/page")));
    let over = reply.notices("notifications/elicitation/complete");
    match cell.client_era {
        TestEra::Legacy => {
            assert!(asked["elicitationId"].is_string(), "{asked}");
            let ids: Vec<&Value> = over.iter().map(|params| &params["elicitationId"]).collect();
            assert_eq!(ids, [&asked["elicitationId"]], "only its own elicitation is completed");
        }
        TestEra::Modern => assert_eq!((asked.get("elicitationId"), over.len()), (None, 0)),
    }
    // A client that supports only forms gets no URL, nor does one of a revision without URL elicitation.
    let mut others = vec![cell.client.clone()];
    if cell.client_era == TestEra::Legacy {
        others.push(TestClient::legacy(cell.address, "2025-06-18", with_pages()).await);
    }
    for client in others {
        let reply = client.call("srv_visit_page", json!({})).await;
        assert_eq!(reply.questions, Vec::<Value>::new());
        assert!(reply.code().is_some() || reply.is_error(), "{}", reply.answer);
    }
}

pub async fn url_elicitation_error_is_handled(cell: Cell) {
    let client = TestClient::with_capabilities(cell.client_era, cell.address, with_pages()).await;
    let account = token("account");
    let call = json!({ "account": account });
    let mut reply = client.call("srv_link_account", call.clone()).await;
    if (cell.client_era, cell.server_era) == (TestEra::Legacy, TestEra::Legacy) {
        assert_eq!(reply.code(), Some(-32042), "{}", reply.answer);
        let page = &reply.answer["error"]["data"]["elicitations"][0];
        assert_eq!(page["elicitationId"], "visit-account", "{}", reply.answer);
        reply = client.call("srv_link_account", call).await;
        assert_eq!(reply.text(), format!("{account} is linked."));
        return;
    }
    assert_eq!(reply.text(), format!("{account} is linked."));
    assert_eq!(reply.questions.len(), 1, "{:?}", reply.questions);
    let asked = &reply.questions[0]["params"];
    assert_eq!((&asked["mode"], &asked["url"]), (&json!("url"), &json!("https://example.org/account")));
    assert_eq!(asked["elicitationId"].is_string(), cell.client_era == TestEra::Legacy, "{asked}");
    cell.check_members(reply.result(), ResultCaching::No);
    if cell.client_era == TestEra::Modern {
        let reply = cell.call("link_account", json!({ "account": token("account") })).await;
        assert_eq!((reply.code(), reply.status), (Some(-32021), 400), "{}", reply.answer);
        assert_eq!(reply.questions, Vec::<Value>::new());
    }
}

pub async fn progress_is_reported(cell: Cell) {
    let params = json!({ "name": "srv_slow", "arguments": { "ms": 90, "steps": 3 },
        "_meta": { "progressToken": "mine" } });
    let reply = cell.client.ask("tools/call", params).await;
    assert_eq!(reply.text(), "Done in 3 steps.");
    let heard: Vec<(&Value, &Value, &Value)> = reply
        .notices("notifications/progress")
        .into_iter()
        .map(|params| (&params["progressToken"], &params["progress"], &params["message"]))
        .collect();
    let mine = json!("mine");
    let expected: Vec<(Value, Value)> =
        (1..=3).map(|step| (json!(f64::from(step)), json!(format!("Step {step} of 3")))).collect();
    let expected: Vec<(&Value, &Value, &Value)> = expected.iter().map(|(p, m)| (&mine, p, m)).collect();
    assert_eq!(heard, expected);
}

pub async fn progress_needs_a_token(cell: Cell) {
    let reply = cell.call("slow", json!({ "ms": 30, "steps": 3 })).await;
    assert_eq!((reply.text(), reply.before.len()), ("Done in 3 steps.", 0), "{:?}", reply.before);
}

pub async fn call_is_cancelled(cell: Cell) {
    let cancelled = |reply: &Transcript| {
        let names = reply.result()["structuredContent"]["names"].as_array().unwrap().clone();
        names.iter().filter(|name| **name == "slow").count()
    };
    let before = cancelled(&cell.call("cancelled_calls", json!({})).await);
    // The first progress shows that the call has reached the server.
    let params = json!({ "name": "srv_slow", "arguments": { "ms": 60_000, "steps": 2000 },
        "_meta": { "progressToken": 7 } });
    let exchange = cell.client.start("tools/call", params).await;
    let (id, mut events) = exchange.into_events();
    let first = events.next_within(TEST_TIMEOUT).await.unwrap();
    assert_eq!(first["method"], "notifications/progress");
    match cell.client_era {
        TestEra::Legacy => {
            let params = json!({ "requestId": id, "reason": "the test has seen enough" });
            assert_eq!(cell.client.notify("notifications/cancelled", params).await, 202);
            // Progress already sent may still arrive, but no answer.
            let end = tokio::time::timeout(TEST_TIMEOUT, async {
                while let Some(message) = events.next().await {
                    assert_eq!(message["method"], "notifications/progress", "{message}");
                }
            });
            end.await.expect("the stream of a cancelled call ends");
        }
        TestEra::Modern => drop(events),
    }
    let observed = poll(Duration::from_secs(10), || async {
        let now = cancelled(&cell.call("cancelled_calls", json!({})).await);
        (now > before).then_some(now)
    });
    assert_eq!(observed.await, Some(before + 1), "the server was notified");
}

pub async fn log_lines_are_delivered(cell: Cell) {
    let lines = |reply: &Transcript| -> Vec<Value> {
        let heard = reply.notices("notifications/message");
        heard
            .iter()
            .map(|params| json!([params["level"], params["logger"], params["data"]["line"]]))
            .collect()
    };
    let two = |level: &str| vec![json!([level, "fixture", 1]), json!([level, "fixture", 2])];
    match cell.client_era {
        TestEra::Modern => {
            let reply = cell.call("log_lines", json!({ "lines": 2, "level": "error" })).await;
            assert_eq!(lines(&reply), Vec::<Value>::new(), "log lines were not requested");
            let client = cell.client.clone().with_log_level("warning");
            let reply = client.call("srv_log_lines", json!({ "lines": 2, "level": "error" })).await;
            assert_eq!(lines(&reply), two("error"));
            let reply = client.call("srv_log_lines", json!({ "lines": 2, "level": "info" })).await;
            assert_eq!(lines(&reply), Vec::<Value>::new(), "below the level");
        }
        TestEra::Legacy => {
            let reply = cell.client.ask("logging/setLevel", json!({ "level": "warning" })).await;
            assert_eq!(*reply.result(), json!({}));
            let reply = cell.call("log_lines", json!({ "lines": 2, "level": "warning" })).await;
            assert_eq!(lines(&reply), two("warning"));
            let reply = cell.call("log_lines", json!({ "lines": 2, "level": "info" })).await;
            assert_eq!(lines(&reply), Vec::<Value>::new(), "below the level");
            let reply = cell.client.ask("logging/setLevel", json!({ "level": "loud" })).await;
            assert_eq!(reply.code(), Some(-32602));
        }
    }
}

pub async fn tool_list_changes(cell: Cell) {
    let client = &cell.client;
    let extra = token("extra").replace('-', "_");
    let mut changes = client.listen(&[]).await;
    for presence in [true, false] {
        let reply = client.call("srv_change_tools", json!({ "tool": extra })).await;
        assert_eq!(reply.result()["structuredContent"]["present"], presence);
        changes.wait_for("notifications/tools/list_changed", TEST_TIMEOUT).await.expect("a notification");
        let names = client.names("tools/list", "tools").await;
        assert_eq!(
            names.contains(&format!("srv_{extra}")),
            presence,
            "the list has changed after the notification"
        );
    }
}

pub async fn prompt_list_changes(cell: Cell) {
    let client = &cell.client;
    let mut changes = client.listen(&[]).await;
    for _ in 0..2 {
        let reply = client.call("srv_test_trigger_prompt_change", json!({})).await;
        let presence = reply.result()["structuredContent"]["present"].as_bool().unwrap();
        changes.wait_for("notifications/prompts/list_changed", TEST_TIMEOUT).await.expect("a notification");
        let names = client.names("prompts/list", "prompts").await;
        assert_eq!(names.contains(&"srv_test_dynamic_prompt".to_owned()), presence);
    }
}

pub async fn resources_are_listed_and_read(cell: Cell) {
    let reply = cell.client.ask("resources/list", json!({})).await;
    cell.check_members(reply.result(), ResultCaching::Yes);
    let resources = reply.result()["resources"].as_array().unwrap();
    let uris: Vec<&str> = resources.iter().filter_map(|resource| resource["uri"].as_str()).collect();
    assert_eq!(uris, ["test://static-binary", "test://static-text", WATCHED]);
    let read = cell.client.ask("resources/read", json!({ "uri": "test://static-text" })).await;
    cell.check_members(read.result(), ResultCaching::Yes);
    let expected = json!([{ "uri": "test://static-text", "mimeType": "text/plain",
        "text": "This is the content of the static text resource." }]);
    assert_eq!(read.result()["contents"], expected);
    let read = cell.client.ask("resources/read", json!({ "uri": "test://static-binary" })).await;
    assert!(read.result()["contents"][0]["blob"].as_str().unwrap().starts_with("iVBORw0KGgo"));
}

pub async fn templates_are_listed_and_read(cell: Cell) {
    let reply = cell.client.ask("resources/templates/list", json!({})).await;
    cell.check_members(reply.result(), ResultCaching::Yes);
    assert_eq!(reply.result()["resourceTemplates"][0]["uriTemplate"], "test://template/{id}/data");
    let read = cell.client.ask("resources/read", json!({ "uri": "test://template/17/data" })).await;
    let text = read.result()["contents"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["id"], "17");
}

pub async fn missing_resource_is_not_found(cell: Cell) {
    let reply = cell.client.ask("resources/read", json!({ "uri": "test://nowhere" })).await;
    let expected = match cell.client_era {
        TestEra::Modern => (Some(-32602), 400),
        TestEra::Legacy => (Some(-32002), 200),
    };
    assert_eq!((reply.code(), reply.status), expected, "{}", reply.answer);
    // A legacy server has its own code for missing resources, so this code is passed through.
    let reply = cell.client.ask("resources/read", json!({ "uri": "test://unreadable" })).await;
    let expected = match (cell.client_era, cell.server_era) {
        (TestEra::Legacy, TestEra::Modern) => -32002,
        _ => -32602,
    };
    assert_eq!(reply.code(), Some(expected), "{}", reply.answer);
    // An invalid request gets the same code in both eras.
    assert_eq!(cell.client.ask("resources/read", json!({})).await.code(), Some(-32602));
}

pub async fn resource_updates_are_delivered(cell: Cell) {
    let client = &cell.client;
    let mut changes = client.listen(&[WATCHED]).await;
    // The gateway subscribes to a modern server on a separate stream, which may open after the client's.
    let mut heard = None;
    for _ in 0..20 {
        client.call("srv_touch_resource", json!({ "uri": WATCHED })).await;
        heard = changes.wait_for("notifications/resources/updated", Duration::from_millis(500)).await;
        if heard.is_some() {
            break;
        }
    }
    assert_eq!(heard.expect("a notification")["uri"], WATCHED);
    client.call("srv_touch_resource", json!({ "uri": "test://static-text" })).await;
    if cell.client_era == TestEra::Legacy {
        let reply = client.ask("resources/unsubscribe", json!({ "uri": WATCHED })).await;
        assert_eq!(*reply.result(), json!({}));
        drop(changes.gather(Duration::from_millis(100)).await);
        client.call("srv_touch_resource", json!({ "uri": WATCHED })).await;
    }
    let rest = changes.gather(Duration::from_millis(250)).await;
    let foreign =
        |message: &&Value| message["params"]["uri"] != WATCHED || cell.client_era == TestEra::Legacy;
    assert_eq!(rest.iter().find(foreign), None, "only requested notifications are sent");
}

pub async fn prompts_are_listed_and_read(cell: Cell) {
    let reply = cell.client.ask("prompts/list", json!({})).await;
    cell.check_members(reply.result(), ResultCaching::Yes);
    let prompts = reply.result()["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|prompt| prompt["name"] == "srv_test_prompt_with_arguments").unwrap();
    assert_eq!(prompt["arguments"][0]["required"], true);
    let params =
        json!({ "name": "srv_test_prompt_with_arguments", "arguments": { "arg1": "a", "arg2": "é" } });
    let reply = cell.client.ask("prompts/get", params).await;
    cell.check_members(reply.result(), ResultCaching::No);
    let text = &reply.result()["messages"][0]["content"]["text"];
    assert_eq!(*text, "Prompt with arguments: arg1='a', arg2='é'");
    let reply = cell.client.ask("prompts/get", json!({ "name": "srv_nothing" })).await;
    assert_eq!(reply.code(), Some(-32602));
}

pub async fn arguments_are_completed(cell: Cell) {
    let cases = [
        (
            json!({ "type": "ref/prompt", "name": "srv_test_prompt_with_arguments" }),
            "arg1",
            "par",
            &["paris", "park", "party"][..],
        ),
        (json!({ "type": "ref/resource", "uri": "test://template/{id}/data" }), "id", "12", &["12", "123"]),
    ];
    for (reference, argument, typed, expected) in cases {
        let params = json!({ "ref": reference, "argument": { "name": argument, "value": typed } });
        let reply = cell.client.ask("completion/complete", params).await;
        assert_eq!(reply.result()["completion"]["values"], json!(expected), "{reference}");
        cell.check_members(reply.result(), ResultCaching::No);
    }
}

pub async fn server_receives_client_info_and_no_secret(cell: Cell) {
    let client = TestClient::of(cell.client_era, cell.address).await;
    let client =
        client.sending("authorization", "Bearer of-the-client").sending("cookie", "crumb=of-the-client");
    let reply = client.call("srv_whoami_headers", json!({})).await;
    let seen = &reply.result()["structuredContent"];
    let era = if cell.server_era == TestEra::Modern { "modern" } else { "legacy" };
    assert_eq!(seen["era"], era);
    for capability in ["elicitation", "sampling", "roots"] {
        assert!(seen["capabilities"][capability].is_object(), "{capability}: {seen}");
    }
    if cell.server_era == TestEra::Modern {
        assert_eq!(seen["clientInfo"]["name"], "world", "a modern server receives the client info");
    }
    let text = seen.to_string();
    assert!(!text.contains("of-the-client"), "a credential reached the server: {text}");
    if let Some(session) = client.session() {
        assert!(!text.contains(session), "the client's session id reached the server: {text}");
    }
    if cell.transport == CellTransport::Http && cell.server_era == TestEra::Modern {
        assert_eq!(
            seen["headers"]["mcp-name"], "whoami_headers",
            "the name is the server's name of the tool: {seen}"
        );
        assert_eq!(seen["headers"]["mcp-method"], "tools/call");
    }
}

pub async fn unknown_meta_is_passed_on(cell: Cell) {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let params = json!({ "name": "srv_whoami_headers", "arguments": {},
        "_meta": { "traceparent": trace, "example.org/unknown": { "n": 12_345_678_901_234_567_890_u64 } } });
    let reply = cell.client.ask("tools/call", params).await;
    let meta = &reply.result()["structuredContent"]["_meta"];
    assert_eq!(meta["example.org/unknown"]["n"].as_u64(), Some(12_345_678_901_234_567_890), "{meta}");
    // The gateway may add its own span to the trace, but not start a new trace.
    assert!(meta["traceparent"].as_str().unwrap().starts_with(&trace[..35]), "{meta}");
}
