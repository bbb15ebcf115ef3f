//! The servers of a folder's `.mcp.json`, for clients that work in that folder, beside the shared servers.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolbooth_testkit::fixture::{LEGACY, TestEra};
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, TestClient};

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
    let told = other.call("mine_ok", json!({})).await;
    assert_eq!(told.answer["error"]["message"], "Unknown tool: mine_ok");
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
