//! Exposure modes: the tool list of each mode, and that every tool can be called in every mode.

use crate::callers::ERAS;
use serde_json::{Value, json};
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::client::OWN_TOOL;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient};

const META: [&str; 4] = ["mcp_tool_call", "mcp_tool_describe", "mcp_tool_list", "mcp_tool_search"];

/// Generates `count` tools with long definitions.
fn tools(count: usize) -> String {
    let tools: Vec<Value> = (0..count)
        .map(|number| {
            json!({ "name": format!("tool_{number:04}"),
                "description": format!("Does the thing number {number}. {}", "It does it well. ".repeat(20)),
                "inputSchema": { "type": "object",
                    "properties": { "what": { "type": "string", "description": "What to do it to. ".repeat(10) } },
                    "required": ["what"] } })
        })
        .collect();
    Value::Array(tools).to_string()
}

async fn many(settings: Value, count: usize) -> (ScriptedServer, Home, Gateway) {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(tools(count));
    upstream.answer(ScriptedAnswer::Echo);
    let home = Home::with_settings(settings, &[("srv", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    (upstream, home, gateway)
}

async fn listed(client: &TestClient) -> Vec<Value> {
    let reply = client.ask("tools/list", json!({})).await;
    reply.result()["tools"].as_array().cloned().unwrap_or_default()
}

fn names(tools: &[Value]) -> Vec<&str> {
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    names.filter(|name| *name != OWN_TOOL).collect()
}

#[tokio::test]
async fn auto_mode_depends_on_the_client_and_the_catalog_size() {
    let auto = json!({ "exposure": { "mode": "auto", "clients": { "picky": "search" } } });
    // Few enough for full definitions, enough for summaries, too many for both.
    for (count, mode) in [(5, "full"), (120, "summary"), (1_000, "search")] {
        let (_upstream, home, gateway) = many(auto.clone(), count).await;
        let explained =
            home.command("exposure").args(["explain", "--client", "some-client", "--json"]).output();
        let explained: Value = serde_json::from_slice(&explained.unwrap().stdout).unwrap();
        assert_eq!(explained["mode"], mode, "{explained}");
        assert_eq!(explained["tools"], count, "{explained}");
        assert!(explained["reason"].as_str().unwrap().contains("exposure.tool_tokens"), "{explained}");
        if mode == "summary" {
            // The name of the Python SDK, for programs that set none.
            let explained = gateway.http().get_json("/exposure?client=mcp").await;
            assert_eq!(explained["mode"], "full", "{explained}");
            assert!(explained["reason"].as_str().unwrap().contains("exposure.sdk_tokens"), "{explained}");
        }
        for era in ERAS {
            let tools = listed(&TestClient::named("some-client", era, gateway.address).await).await;
            let schema = &tools.iter().find(|tool| tool["name"] == "srv_tool_0003");
            match mode {
                "full" => assert!(schema.unwrap()["inputSchema"]["properties"]["what"].is_object()),
                "summary" => {
                    let tool = schema.unwrap();
                    assert_eq!(tool["inputSchema"], json!({ "type": "object" }));
                    let description = tool["description"].as_str().unwrap();
                    assert!(
                        description.chars().count() <= 100 && description.ends_with('…'),
                        "{description}"
                    );
                    assert_eq!(names(&tools).len(), count, "all tools are listed, and no meta tool");
                }
                _ => assert_eq!(names(&tools), META),
            }
            let tools = listed(&TestClient::named("claude-code", era, gateway.address).await).await;
            assert_eq!(names(&tools).len(), count, "a client that defers tools itself gets all");
            assert!(tools.iter().all(|tool| !META.contains(&tool["name"].as_str().unwrap())));
            let tools = listed(&TestClient::named("Picky", era, gateway.address).await).await;
            assert_eq!(names(&tools), META, "as configured");
        }
    }
}

#[tokio::test]
async fn every_tool_is_callable_in_every_mode() {
    for mode in ["full", "summary", "search"] {
        let (_upstream, _home, gateway) = many(json!({ "exposure": { "mode": mode } }), 3).await;
        for era in ERAS {
            let client = TestClient::of(era, gateway.address).await;
            let reply = client.call("srv_tool_0001", json!({ "what": "x" })).await;
            assert!(reply.text().contains("tool_0001"), "{mode}: {}", reply.answer);
            let inner = json!({ "name": "srv_tool_0001", "arguments": { "what": "y" } });
            let reply = client.call("mcp_tool_call", inner).await;
            assert!(
                reply.text().contains("tool_0001") && reply.text().contains('y'),
                "{mode}: {}",
                reply.answer
            );

            let reply = client.call("srv_tool_0001", json!({ "what": 7 })).await;
            assert_eq!(reply.fault(), "call.invalid-arguments", "{}", reply.answer);
            let has_schema = reply.text().contains(r#""required":["what"]"#);
            assert_eq!(
                has_schema,
                mode != "full",
                "the error includes the schema if the client has not seen it: {}",
                reply.text()
            );
            let inner = json!({ "name": "mcp_tool_call", "arguments": { "name": "srv_tool_0001" } });
            assert!(client.call("mcp_tool_call", inner).await.is_error(), "meta calls cannot be nested");
            let reply = client.call("mcp_tool_call", json!({})).await;
            assert_eq!(reply.fault(), "call.invalid-arguments", "{}", reply.answer);

            let reply = client.call("mcp_tool_describe", json!({ "name": "mcp.srv.tool_0002" })).await;
            assert!(reply.text().contains(r#""required":["what"]"#), "{}", reply.answer);
            assert!(client.call("mcp_tool_describe", json!({ "name": "missing" })).await.is_error());
            let reply = client.call("mcp_tool_list", json!({ "server": "srv" })).await;
            assert!(reply.text().contains("srv_tool_0000: Does the thing number 0."), "{}", reply.text());
            assert!(reply.text().contains("3 tools; this is the end"), "{}", reply.text());
        }
    }
}

#[tokio::test]
async fn tool_rules_apply_through_the_meta_tool() {
    let settings = json!({ "exposure": { "mode": "search" }, "policy": { "rules": [
        { "tools": "srv_tool_0001", "effect": "deny", "reason": "not that one" },
        { "tools": "srv_tool_0002", "effect": "hide" } ] } });
    let (upstream, home, gateway) = many(settings, 4).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let call = |name: &str| {
        let (client, name) = (client.clone(), name.to_owned());
        async move { client.call("mcp_tool_call", json!({ "name": name, "arguments": { "what": "x" } })).await }
    };
    assert_eq!(call("srv_tool_0001").await.fault(), "call.refused");
    let hidden = call("srv_tool_0002").await;
    let unknown = call("srv_tool_9999").await;
    assert_eq!(
        hidden.answer["error"].to_string().replace("0002", "9999"),
        unknown.answer["error"].to_string(),
        "a hidden tool is unknown"
    );
    let reply = client.call("mcp_tool_describe", json!({ "name": "srv_tool_0002" })).await;
    assert!(reply.is_error(), "{}", reply.answer);
    let listed = client.call("mcp_tool_list", json!({})).await;
    assert!(!listed.text().contains("0002") && listed.text().contains("0003"), "{}", listed.text());
    call("srv_tool_0003").await;
    assert_eq!(upstream.seen("tools/call").len(), 1, "one call was sent");
    let audit = home.command("audit").arg("--json").output().unwrap();
    let audit: Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert_eq!(audit["rows"][0]["tool"], "tool_0003", "the row names the inner tool: {audit}");
    assert_eq!(audit["rows"][0]["server"], "srv");
}

#[tokio::test]
async fn legacy_session_loads_tools_it_described() {
    let settings = json!({ "exposure": { "mode": "search", "always_load_tools": ["*_0004"] } });
    let (_upstream, _home, gateway) = many(settings, 6).await;
    let client = TestClient::of(TestEra::Legacy, gateway.address).await;
    let other = TestClient::of(TestEra::Legacy, gateway.address).await;
    let modern = TestClient::of(TestEra::Modern, gateway.address).await;
    let mut changes = client.listen(&[]).await;
    let mut others = other.listen(&[]).await;
    let mut pinned: Vec<&str> = META.to_vec();
    pinned.push("srv_tool_0004");
    assert_eq!(names(&listed(&client).await), pinned);
    for asker in [&client, &modern] {
        asker.call("mcp_tool_describe", json!({ "name": "srv_tool_0002" })).await;
    }
    changes
        .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
        .await
        .expect("the session is notified");
    let tools = listed(&client).await;
    let loaded: Vec<&str> = META.iter().copied().chain(["srv_tool_0002", "srv_tool_0004"]).collect();
    assert_eq!(names(&tools), loaded);
    assert!(
        tools
            .iter()
            .all(|tool| tool["name"] != "srv_tool_0002" || tool["inputSchema"]["required"].is_array())
    );
    client.call("mcp_tool_describe", json!({ "name": "srv_tool_0002" })).await;
    for changes in [&mut changes, &mut others] {
        assert_eq!(
            changes.gather(Duration::from_millis(300)).await,
            Vec::<Value>::new(),
            "no other session is notified, and only once"
        );
    }
    assert_eq!(names(&listed(&other).await), pinned);
    assert_eq!(names(&listed(&modern).await), pinned, "a modern list does not depend on described tools");
}

#[tokio::test]
async fn clients_get_names_and_schemas_within_their_limits() {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    let long = "a_very_long_name_that_goes_on_and_on_and_on_for_ever";
    let either = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "anyOf": [{ "properties": { "a": { "type": "string" } }, "required": ["a"] },
            { "properties": { "b": { "type": "string" } }, "required": ["b"] }] });
    upstream.list(json!([{ "name": long, "inputSchema": either }]).to_string());
    upstream.answer(ScriptedAnswer::Echo);
    let home = Home::new(&[("srv", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    for era in ERAS {
        let plain = listed(&TestClient::of(era, gateway.address).await).await;
        assert_eq!(names(&plain), [format!("srv_{long}")]);
        let cursor = TestClient::named("cursor-vscode", era, gateway.address).await;
        let tools = listed(&cursor).await;
        let name = names(&tools)[0].to_owned();
        assert_eq!(name.len(), 48, "{name}");
        let tool = tools.iter().find(|tool| tool["name"] == name.as_str()).unwrap();
        assert_eq!(
            tool["inputSchema"],
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } } })
        );
        let reply = cursor.call(&name, json!({ "a": "x" })).await;
        assert!(reply.text().contains(long), "the short name resolves to the tool: {}", reply.answer);
        assert_eq!(
            cursor.call(&name, json!({})).await.fault(),
            "call.invalid-arguments",
            "arguments are checked against the original schema"
        );
    }
}

#[tokio::test]
async fn search_results_are_short_and_loaded() {
    let settings = json!({ "exposure": { "mode": "search" } });
    let (upstream, _home, gateway) = many(settings, 0).await;
    let mut all: Vec<Value> = serde_json::from_str(&tools(300)).unwrap();
    let about = json!({ "type": "string", "description": "A long story about what this takes. ".repeat(12) });
    all.push(
        json!({ "name": "send_mail", "description": format!("Sends an e-mail. {}", "To any user. ".repeat(60)),
        "inputSchema": { "type": "object", "required": ["to"],
            "properties": { "to": about, "subject": about, "body": about } } }),
    );
    all.push(json!({ "name": "read_mailbox", "description": "Reads mail from a mailbox.",
        "inputSchema": { "type": "object", "properties": { "folder": { "enum": ["inbox", "sent"] } } } }));
    for (name, about) in [("draft", "Drafts"), ("forward", "Forwards"), ("delete", "Deletes")] {
        all.push(json!({ "name": format!("{name}_mail"), "description": format!("{about} an e-mail."),
            "inputSchema": { "type": "object" } }));
    }
    upstream.list(Value::Array(all).to_string());
    gateway.act("srv", "refresh").await;
    for era in ERAS {
        let client = TestClient::of(era, gateway.address).await;
        let reply = client.call("mcp_tool_search", json!({ "query": "send an email to a colleague" })).await;
        let text = reply.text();
        assert!(text.starts_with("srv_send_mail(to: string, subject?: string, body?: string) ["), "{text}");
        assert!(toolbooth_core::weigh::tokens(text) <= 500, "{text}");
        let hits = reply.result()["_meta"]["toolbooth/search"]["hits"].as_array().cloned().unwrap();
        assert!((5..=10).contains(&hits.len()), "as many as fit: {text}");
        let mut found = names(&hits[..5]);
        found.sort_unstable();
        let mail =
            ["srv_delete_mail", "srv_draft_mail", "srv_forward_mail", "srv_read_mailbox", "srv_send_mail"];
        assert_eq!(found, mail, "{}", reply.answer);
        let reply = client.call("mcp_tool_search", json!({ "query": "read mailbox", "limit": 1 })).await;
        assert!(reply.text().contains(r#"]: {"name":"srv_read_mailbox","#), "in full: {}", reply.text());
        let reply = client.call("mcp_tool_search", json!({ "query": "srv_tool_0123" })).await;
        let first = &reply.result()["_meta"]["toolbooth/search"]["hits"][0];
        assert_eq!(
            (&first["name"], &first["score"]),
            (&json!("srv_tool_0123"), &json!(1.0)),
            "{}",
            reply.text()
        );
        let reply = client.call("mcp_tool_search", json!({ "regex": "mail(box", "query": "mail" })).await;
        assert!(reply.is_error() && reply.text().contains("at character"), "{}", reply.answer);
        for blank in [json!({}), json!({ "query": "  " }), json!({ "regex": true })] {
            assert!(client.call("mcp_tool_search", blank).await.is_error());
        }
        let reply =
            client.call("mcp_tool_search", json!({ "query": "(draft|forward)_mail", "regex": true })).await;
        let hits = reply.result()["_meta"]["toolbooth/search"]["hits"].as_array().cloned().unwrap();
        let mut found = names(&hits);
        found.sort_unstable();
        assert_eq!(found, ["srv_draft_mail", "srv_forward_mail"], "{}", reply.text());
        let reply = client.call("mcp_context_stats", json!({})).await;
        let stats: Value = serde_json::from_str(reply.text()).unwrap();
        let full = gateway.http().get_json("/stats").await;
        let known: Vec<&String> = stats.as_object().unwrap().keys().collect();
        assert!(known.iter().all(|key| full.get(key.as_str()).is_some()), "{stats} {full}");
        assert_eq!((&stats["full"], &stats["summary"]), (&full["full"], &full["summary"]));
        let tools = listed(&client).await;
        let is_loaded = names(&tools).contains(&"srv_send_mail");
        assert_eq!(is_loaded, era == TestEra::Legacy, "{:?}", names(&tools));
    }
    let events =
        gateway.http().get_json("/events/recent?types=tool.search,tool.dynamicLoad").await.to_string();
    assert!(events.contains("tool.search") && events.contains("tool.dynamicLoad"), "{events}");
}
