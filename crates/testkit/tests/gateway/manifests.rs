//! Tool manifests: definitions of the operator replace or add tools.

use crate::token_users::{read, run};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::scripted_server::ScriptedAnswer;
use toolbooth_testkit::world::{
    Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll, processes, token,
};

/// A manifest of a search tool, an overlay of the tool that serves it.
fn google_search() -> Value {
    json!({
        "name": "google_search",
        "version": "1.0.0",
        "side_effects": "none",
        "default_timeout": 30,
        "auth": {
            "required": true,
            "type": "api_key",
            "envs": {
                "GOOGLE_API_KEY": { "required": true },
                "GOOGLE_CSE_ID": { "required": true },
                "SERPAPI_KEY": { "optional": true }
            },
            "docs": "Set GOOGLE_API_KEY and GOOGLE_CSE_ID to use Google Programmable Search."
        },
        "allow_parallel": true,
        "description": "A Google search result API...",
        "parameters": {
            "type": "object",
            "properties": { "query": { "type": "string", "description": "The search content." } },
            "required": ["query"]
        }
    })
}

/// A manifest tool with a server's tool and a model as providers.
fn browser_lookup() -> Value {
    json!({
        "name": "browser_lookup",
        "description": "Proxy to the MCP browser tool",
        "side_effects": "network",
        "default_timeout": 45,
        "requires_consent": true,
        "allow_parallel": false,
        "providers": [
            { "name": "mcp", "priority": 0, "config": { "server": "browser-server", "tool": "browser.find" } },
            { "name": "openai", "priority": 10, "config": { "model": "gpt-4o-mini" } }
        ]
    })
}

/// Replaces a file atomically, by renaming, as editors do.
fn write(home: &Home, path: &str, text: &str) {
    let path = home.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let draft = path.with_extension("new");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

async fn tools(client: &TestClient) -> Vec<Value> {
    client.ask("tools/list", json!({})).await.result()["tools"].as_array().unwrap().clone()
}

fn find<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}: {tools:?}"))
}

async fn revision(gateway: &Gateway) -> u64 {
    gateway.http().get_json("/tools?limit=1").await["revision"].as_u64().unwrap()
}

#[tokio::test]
async fn common_example_manifests_load_and_apply() {
    let (google, browser) =
        (ScriptedServer::start(TestEra::Modern).await, ScriptedServer::start(TestEra::Modern).await);
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
    google.list(json!([{ "name": "search", "description": "Searches.", "inputSchema": schema }]).to_string());
    browser.list(
        json!([{ "name": "browser.find", "description": "Finds.", "inputSchema": schema }]).to_string(),
    );
    let home = Home::new(&[("google", google.entry()), ("browser-server", browser.entry())]);
    write(&home, "tools/google.json", &google_search().to_string());
    write(&home, "tools/wrappers.json", &json!([browser_lookup(), { "name": "not_there" }]).to_string());
    let gateway = home.start().await;
    gateway.connected(&["google", "browser-server"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let listed = tools(&client).await;

    let search = find(&listed, "google_search");
    assert_eq!(search["description"], "A Google search result API...");
    assert_eq!(search["inputSchema"]["required"], json!(["query"]));
    google.answer(ScriptedAnswer::Echo);
    let reply = client.call("google_search", json!({ "query": "x" })).await;
    assert!(reply.text().contains(r#""arguments":{"query":"x"}"#), "{}", reply.answer);
    let reply = client.call("google_search", json!({ "q": "x" })).await;
    assert!(
        reply.code() == Some(-32602) || reply.is_error(),
        "the server's schema is replaced: {}",
        reply.answer
    );

    let lookup = find(&listed, "browser_lookup");
    assert_eq!(lookup["description"], "Proxy to the MCP browser tool");
    assert_eq!(lookup["inputSchema"], schema, "the schema of its first provider");
    let shown = gateway.http().get_json("/tools/browser_lookup").await;
    assert_eq!(shown["id"], "tool.browser_lookup");
    let terms = &shown;
    assert_eq!((&terms["default_timeout"], &terms["side_effects"]), (&json!(45.0), &json!("network")));
    let ids: Vec<_> = terms["providers"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, [json!("mcp:browser-server"), json!("openai")]);

    // Only whether credentials are set is shown.
    let terms = gateway.http().get_json("/tools/google_search").await;
    assert_eq!((&terms["version"], &terms["credentials_configured"]), (&json!("1.0.0"), &json!(false)));
    assert_eq!(
        terms["auth"]["credentials"][2],
        json!({ "name": "SERPAPI_KEY", "required": false, "configured": false })
    );

    let states = gateway.http().get_json("/manifests").await;
    let states: Vec<_> =
        states["entries"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["overlay", "virtual", "waiting"]);
    let doctor = read(&run(&home, &["doctor", "--json"], None));
    let checks = doctor["checks"].as_array().unwrap();
    let waits = |check: &&Value| check["message"].as_str().unwrap().contains("`not_there` is waiting");
    assert_eq!(checks.iter().filter(waits).count(), 1, "{doctor}");
    let shown = run(&home, &["tools", "show", "google_search"], None);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for word in
        ["1.0.0", "none (none)", "30 s", "GOOGLE_API_KEY (missing)", "SERPAPI_KEY (not set, optional)"]
    {
        assert!(shown.contains(word), "{word}: {shown}");
    }
}

#[tokio::test]
async fn overlay_sets_timeout_and_consent_of_a_tool() {
    let slow = ScriptedServer::start(TestEra::Modern).await;
    slow.answer(ScriptedAnswer::Stalls { text: "{".into(), length: 100 });
    let settings = json!({ "policy": { "consent": "gateway" }, "approval": { "wait_seconds": 1 } });
    let home = Home::with_settings(settings, &[("slow", slow.entry()), ("good", hostile(&["echo"]))]);
    write(
        &home,
        "tools/a.yaml",
        "slow_take:\n  default_timeout: 1\n  requires_consent: false\nmcp.good.echo:\n  requires_consent: false\n",
    );
    let gateway = home.start().await;
    gateway.connected(&["slow", "good"]).await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let reply = client.call("slow_take", json!({})).await;
    assert_eq!(reply.fault(), "call.timeout", "{}", reply.answer);
    let reply = client.call("good_echo", json!({ "n": 1 })).await;
    assert_eq!(reply.text(), r#"{"n":1}"#);
    let reply = client.call("good_ok", json!({})).await;
    assert_ne!(reply.result()["content"][0]["text"], "ok", "this tool needs consent: {}", reply.answer);
}

#[tokio::test]
async fn persona_tools_replace_shared_tools() {
    let personas =
        json!({ "personas": { "Atlas": { "inherit": "shared" }, "Other": { "inherit": "shared" } } });
    let home = Home::with_settings(personas, &[("good", hostile(&["echo"]))]);
    let model = |text: &str| json!({ "description": text, "providers": [{ "name": "openai" }] });
    write(&home, "tools/a.json", &json!({ "ask": model("shared"), "hid": { "persona_allowlist": ["Other"], "providers": [{ "name": "openai" }] } }).to_string());
    write(&home, "personas/Atlas/tools/a.json", &json!({ "ask": model("Atlas's"), "good_echo": { "description": "Atlas's" }, "own": model("Atlas's") }).to_string());
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let cases = [
        ("/mcp", "shared", &["ask", "good_echo", "good_ok"][..]),
        ("/mcp/p/Atlas", "Atlas's", &["ask", "good_echo", "good_ok", "own"][..]),
        ("/mcp/p/Other", "shared", &["ask", "good_echo", "good_ok", "hid"][..]),
    ];
    for era in [TestEra::Legacy, TestEra::Modern] {
        for (path, text, expected) in cases {
            let client = TestClient::with_headers(era, gateway.address, path, &[]).await;
            let listed = tools(&client).await;
            let mut names = client.names("tools/list", "tools").await;
            names.sort();
            assert_eq!(names, expected, "{path}: each name is listed once");
            assert_eq!(find(&listed, "ask")["description"], text, "{path}");
            let echo = find(&listed, "good_echo")["description"] == "Atlas's";
            assert_eq!(echo, path.ends_with("Atlas"), "{path}");
            let reply = client.call("good_echo", json!({ "n": 1 })).await;
            assert_eq!(reply.text(), r#"{"n":1}"#, "{path}");
            let reply = client.call("own", json!({})).await;
            assert_eq!(reply.code() == Some(-32602), !path.ends_with("Atlas"), "{path} {}", reply.answer);
        }
    }
}

#[tokio::test]
async fn manifest_edit_notifies_only_affected_clients() {
    let mark = token("kept");
    let personas =
        json!({ "personas": { "Atlas": { "inherit": "shared" }, "Other": { "inherit": "shared" } } });
    let home = Home::with_settings(personas, &[("good", hostile(&["echo", &mark]))]);
    write(&home, "tools/a.json", r#"{"name": "good_echo", "description": "First."}"#);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let before = processes::marked(&mark);
    let clients = ["/mcp", "/mcp/p/Atlas", "/mcp/p/Other"];
    let mut streams = Vec::new();
    for path in clients {
        let client = TestClient::with_headers(TestEra::Modern, gateway.address, path, &[]).await;
        assert_eq!(find(&tools(&client).await, "good_echo")["description"], "First.");
        streams.push((client.listen(&[]).await, client));
    }
    let first = revision(&gateway).await;
    let seen = async |at: usize, text: &str| {
        let client = TestClient::with_headers(TestEra::Modern, gateway.address, clients[at], &[]).await;
        let there = poll(TEST_TIMEOUT, || async {
            (find(&tools(&client).await, "good_echo")["description"] == text).then_some(())
        });
        assert!(there.await.is_some(), "{text}: {}", gateway.log());
    };

    // A new file in a new folder, for Atlas only.
    write(&home, "personas/Atlas/tools/a.json", r#"{"name": "good_echo", "description": "Atlas's."}"#);
    let reply = streams[1].0.wait_for("notifications/tools/list_changed", TEST_TIMEOUT).await;
    assert!(reply.is_some(), "{}", gateway.log());
    seen(1, "Atlas's.").await;
    assert_eq!(revision(&gateway).await, first + 1, "one revision");
    for other in [0, 2] {
        assert_eq!(streams[other].0.gather(Duration::from_millis(300)).await, Vec::<Value>::new());
    }

    // An edit with one valid and one invalid entry: the invalid entry is set aside.
    write(
        &home,
        "tools/a.json",
        r#"[{"name": "good_echo", "description": "Second."}, {"name": "bad", "version": "x"}]"#,
    );
    seen(0, "Second.").await;
    assert_eq!(revision(&gateway).await, first + 2);
    assert!(gateway.log().contains("`x` is not a valid version"), "{}", gateway.log());

    // A change of terms that are not listed is a new revision without a notification.
    streams[0].0.gather(Duration::from_millis(300)).await;
    write(&home, "tools/a.json", r#"{"name": "good_echo", "description": "Second.", "default_timeout": 7}"#);
    let there = poll(TEST_TIMEOUT, || async {
        let shown = gateway.http().get_json("/tools/good_echo").await;
        (shown["default_timeout"] == 7.0).then_some(())
    });
    assert!(there.await.is_some());
    assert_eq!(revision(&gateway).await, first + 3);
    assert_eq!(streams[0].0.gather(Duration::from_millis(300)).await, Vec::<Value>::new());

    // A syntax error: the previous entries stay in force.
    write(&home, "tools/a.json", r#"{"name": "good_echo", "#);
    let there = poll(TEST_TIMEOUT, || async { gateway.log().contains("remains in effect").then_some(()) });
    assert!(there.await.is_some(), "{}", gateway.log());
    seen(0, "Second.").await;
    assert_eq!(gateway.http().get_json("/manifests").await["kept"].as_array().unwrap().len(), 1);

    // Without the file, the server's own description is used again.
    fs::remove_file(home.path("tools/a.json")).unwrap();
    seen(0, "Returns its arguments unchanged.").await;
    assert_eq!(processes::marked(&mark), before, "the server kept its process");
}

#[tokio::test]
async fn cli_checks_manifests_and_strict_mode_refuses_errors() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    write(&home, "tools/a.json", r#"[{"name": "good_echo"}, {"name": "bad", "side_effects": "reads"}]"#);
    let path = home.path("tools/a.json");
    let checked = run(&home, &["manifest", "check", "--json", path.to_str().unwrap()], None);
    assert_eq!(checked.status.code(), Some(1));
    let report = read(&checked);
    assert_eq!((&report["errors"], &report["entries"]), (&json!(1), &json!(1)));
    let finding = &report["findings"][0];
    assert_eq!((&finding["key"], &finding["line"]), (&json!("/1/side_effects"), &json!(1)), "{report}");
    let schema = read(&run(&home, &["manifest", "schema"], None));
    assert!(schema["$defs"]["entry"]["properties"]["providers"].is_object());
    let listed = read(&run(&home, &["manifest", "list", "--json"], None));
    assert_eq!(listed["entries"][0]["tool"], "mcp.good.echo", "{listed}");
    let refused = run(&home, &["serve", "--strict", "--listen", "127.0.0.1:0"], None);
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    write(&home, "tools/a.json", r#"[{"name": "good_echo"}]"#);
    let checked = run(&home, &["manifest", "check", path.to_str().unwrap()], None);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
}
