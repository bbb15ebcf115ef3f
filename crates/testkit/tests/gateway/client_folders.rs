//! The servers of a folder's `.mcp.json`, for clients that work in that folder, beside the shared servers.

use crate::token_users::{bearer, make_token};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolbooth_testkit::fixture::{LEGACY, TestEra};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, TestClient, poll};

/// A client of `toolbooth stdio` that works in a folder.
struct FolderClient {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl FolderClient {
    async fn start(home: &Home, folder: &Path) -> Self {
        let mut command = Command::from(home.command("stdio"));
        command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut client = Self { _child: child, stdin, lines, next_id: 0 };
        let about = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        client.ask("initialize", about).await;
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let line = tokio::time::timeout(TEST_TIMEOUT, self.lines.next_line()).await;
            let line = line.expect("a line in time").unwrap().expect("a line");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl FolderClient {
    /// The names of the tools, as soon as this one is among them: servers of a folder connect one after the other.
    async fn tools_with(&mut self, name: &str) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let tools = self.tools().await;
            if tools.iter().any(|tool| tool == name) {
                return tools;
            }
            assert!(tokio::time::Instant::now() < deadline, "{name} is not listed: {tools:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

fn project(home: &Home, name: &str, servers: Value) -> PathBuf {
    let folder = home.path(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(".mcp.json"), json!({ "mcpServers": servers }).to_string()).unwrap();
    // Processes report the real path of their folder.
    folder.canonicalize().unwrap()
}

/// Runs a command in a folder; returns its standard output.
async fn run(home: &Home, folder: &Path, word: &str, argument: &str) -> String {
    let mut command = home.command(word);
    command.arg(argument).current_dir(folder);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{word}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn clients_of_a_folder_get_its_servers_after_trust() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["echo"]).await;
    let one = project(&home, "one", json!({ "mine": hostile(&["echo"]) }));
    let two = project(&home, "two", json!({ "mine": hostile(&["echo"]) }));

    let mut untrusted = FolderClient::start(&home, &one).await;
    let tools = untrusted.tools().await;
    assert!(tools.contains(&"echo_ok".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool.starts_with("mine")), "untrusted servers do not run: {tools:?}");
    run(&home, &one, "trust", "--yes").await;
    run(&home, &two, "trust", "--yes").await;

    let mut first = FolderClient::start(&home, &one).await;
    let tools = first.tools_with("mine_ok").await;
    assert!(tools.contains(&"echo_ok".to_owned()), "{tools:?}");
    let answer = first.ask("tools/call", json!({ "name": "mine_ok", "arguments": {} })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "ok", "{answer}");

    // A taken name gets the name of the folder.
    let mut second = FolderClient::start(&home, &two).await;
    let tools = second.tools_with("mine-two_ok").await;
    assert!(tools.contains(&"echo_ok".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"mine_ok".to_owned()), "the servers of the other folder are hidden: {tools:?}");

    // For clients that work elsewhere, these servers do not exist.
    let other = TestClient::of(TestEra::Modern, gateway.address).await;
    let tools = other.names("tools/list", "tools").await;
    assert!(tools.contains(&"echo_ok".to_owned()), "{tools:?}");
    assert!(!tools.iter().any(|tool| tool.starts_with("mine") || tool.contains("-one")), "{tools:?}");
    let transcript = other.call("mine_ok", json!({})).await;
    assert_eq!(transcript.answer["error"]["message"], "Unknown tool: mine_ok");
    // The owner administers them like other servers.
    assert_eq!(gateway.server("mine").await["state"], "connected");

    // Commands in the folder use them.
    let listed = run(&home, &one, "tools", "--json").await;
    assert!(listed.contains("mine_ok") && !listed.contains("mine-two_ok"), "{listed}");
    let listed = run(&home, &home.path(""), "tools", "--json").await;
    assert!(listed.contains("echo_ok") && !listed.contains("mine"), "{listed}");
}

#[tokio::test]
async fn a_reload_keeps_the_servers_of_folders() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let one = project(&home, "one", json!({ "mine": hostile(&["echo"]) }));
    run(&home, &one, "trust", "--yes").await;
    let mut client = FolderClient::start(&home, &one).await;
    client.tools_with("mine_ok").await;
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!((status, &report["applied"]["removed"]), (200, &json!([])), "{report}");
    client.tools_with("mine_ok").await;
}

/// The id of the only call that waits for approval.
async fn pending(http: &toolbooth_testkit::world::Http) -> String {
    let found = poll(TEST_TIMEOUT, || async {
        let listed = http.get_json("/approvals?state=pending").await;
        listed["approvals"][0]["id"].as_str().map(str::to_owned)
    });
    found.await.expect("the call is held")
}

#[tokio::test]
async fn a_held_call_of_a_folder_runs_only_for_its_client() {
    // Long enough to approve the first call while its client waits, and short enough to outwait the second one.
    let settings = json!({ "approval": { "wait_seconds": 4 } });
    let home = Home::with_settings(settings, &[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let mut entry = hostile(&["echo"]);
    entry["require_approval"] = json!(["ok"]);
    let one = project(&home, "one", json!({ "mine": entry }));
    run(&home, &one, "trust", "--yes").await;
    let http = gateway.http();
    let call = json!({ "name": "mine_ok", "arguments": {} });

    let mut client = FolderClient::start(&home, &one).await;
    client.tools_with("mine_ok").await;
    let waiting = tokio::spawn(async move { client.ask("tools/call", call).await });
    let id = pending(&http).await;
    assert_eq!(http.post_json(&format!("/approvals/{id}/approve"), "").await.0, 200);
    let answer = waiting.await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "ok", "the waiting client is in the folder: {answer}");

    // Without its client, the call has no folder whose servers it may use.
    let mut client = FolderClient::start(&home, &one).await;
    client.tools_with("mine_ok").await;
    let call = json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call",
        "params": { "name": "mine_ok", "arguments": {} } });
    client.send(call).await;
    let id = pending(&http).await;
    drop(client);
    let gone = poll(TEST_TIMEOUT, || async {
        let metrics = http.send(::http::Method::GET, "/metrics", &[], "").await.bytes().await;
        String::from_utf8_lossy(&metrics).contains("\ntoolbooth_calls_in_flight 0\n").then_some(())
    });
    assert!(gone.await.is_some(), "the request of the client has ended");
    http.post_json(&format!("/approvals/{id}/approve"), "").await;
    let ended = poll(TEST_TIMEOUT, || async {
        let held = http.get_json(&format!("/approvals/{id}")).await;
        (held["state"] == "failed").then_some(held)
    });
    let held = ended.await.expect("the call fails");
    assert!(held.to_string().contains("call.rights-gone"), "{held}");
}

/// A legacy client over HTTP that declares this folder as its root.
async fn rooted(address: std::net::SocketAddr, folder: &Path) -> TestClient {
    let roots = json!({ "roots": [{ "uri": "file:///no/such/folder" }, { "uri": format!("file://{}", folder.display()) }] });
    let client = TestClient::with_capabilities(TestEra::Legacy, address, json!({ "roots": {} })).await;
    client.answering(move |_, _| roots.clone())
}

#[tokio::test]
async fn a_client_over_http_gets_the_servers_of_its_roots() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["echo"]).await;
    let one = project(&home, "one", json!({ "mine": hostile(&["echo"]) }));

    let untrusted = rooted(gateway.address, &one).await;
    let listed = untrusted.ask("tools/list", json!({})).await;
    assert_eq!(listed.questions[0]["method"], "roots/list");
    assert!(
        !listed.answer.to_string().contains("mine_ok"),
        "untrusted servers do not run: {}",
        listed.answer
    );
    let again = untrusted.ask("tools/list", json!({})).await;
    assert!(again.questions.is_empty(), "a client is asked once: {:?}", again.questions);
    run(&home, &one, "trust", "--yes").await;

    let client = rooted(gateway.address, &one).await;
    let found = poll(TEST_TIMEOUT, || async {
        let tools = client.names("tools/list", "tools").await;
        (tools.contains(&"mine_ok".to_owned()) && tools.contains(&"echo_ok".to_owned())).then_some(())
    });
    assert!(found.await.is_some(), "{:?}", client.names("tools/list", "tools").await);
    assert_eq!(client.call("mine_ok", json!({})).await.text(), "ok");

    // Other clients do not have the folder, whether or not they have roots.
    let two = project(&home, "two", json!({}));
    for other in [rooted(gateway.address, &two).await, TestClient::of(TestEra::Modern, gateway.address).await]
    {
        let tools = other.names("tools/list", "tools").await;
        assert!(tools.contains(&"echo_ok".to_owned()) && !tools.contains(&"mine_ok".to_owned()), "{tools:?}");
        let refused = other.call("mine_ok", json!({})).await.answer;
        assert_ne!(refused["result"]["content"][0]["text"], "ok", "{refused}");
    }

    // A client that moves to another folder is asked again.
    assert_eq!(untrusted.notify("notifications/roots/list_changed", json!({})).await, 202);
    let listed = untrusted.ask("tools/list", json!({})).await;
    assert_eq!(listed.questions.len(), 1);
    let found = poll(TEST_TIMEOUT, || async {
        untrusted.names("tools/list", "tools").await.contains(&"mine_ok".to_owned()).then_some(())
    });
    assert!(found.await.is_some(), "its folder is trusted now");
}

#[tokio::test]
async fn roots_do_not_count_in_other_modes() {
    let settings = json!({ "auth": { "mode": "token" } });
    let home = Home::with_settings(settings, &[("echo", hostile(&["echo"]))]);
    let one = project(&home, "one", json!({ "mine": hostile(&["echo"]) }));
    run(&home, &one, "trust", "--yes").await;
    let (token, _) = make_token(&home, None, "ann", &["--groups", "admin"]);
    let gateway = home.start().await;
    let roots = json!({ "roots": {} });
    let client = TestClient::with_revision(LEGACY, gateway.address, "/mcp", &bearer(&token), roots).await;
    let client = client.answering(move |_, _| panic!("roots are not asked for"));
    let listed = client.ask("tools/list", json!({})).await;
    assert!(
        listed.questions.is_empty() && !listed.answer.to_string().contains("mine_ok"),
        "{}",
        listed.answer
    );
}

#[tokio::test]
async fn a_client_without_a_session_names_its_folder_in_a_header() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let one = project(&home, "one", json!({ "mine": hostile(&["echo"]) }));
    run(&home, &one, "trust", "--yes").await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let client = client.sending("toolbooth-folder", one.to_str().unwrap());
    let found = poll(TEST_TIMEOUT, || async {
        client.names("tools/list", "tools").await.contains(&"mine_ok".to_owned()).then_some(())
    });
    assert!(found.await.is_some(), "{:?}", client.names("tools/list", "tools").await);
    assert_eq!(client.call("mine_ok", json!({})).await.text(), "ok");
}
