//! `toolbooth up`: the servers of a client move behind the gateway, and the client calls them through its new entry.

use serde_json::{Value, json};
use std::process::{Output, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use toolbooth_testkit::world::home::fixture_on_stdio;
use toolbooth_testkit::world::{Home, TEST_TIMEOUT};

async fn up(home: &Home, arguments: &[&str]) -> Output {
    let mut command = Command::from(home.command("up"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap()
}

/// Starts the program of a client's entry, calls a tool, and returns the answer.
async fn call(home: &Home, entry: &Value, tool: &str, arguments: Value) -> Value {
    let like = home.command("stdio");
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().filter_map(Value::as_str)).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let opening = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "cursor", "version": "1" },
    });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": tool, "arguments": arguments } }),
    ];
    for message in messages {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    loop {
        let line = tokio::time::timeout(TEST_TIMEOUT, lines.next_line()).await.expect("an answer in time");
        let message: Value = serde_json::from_str(&line.unwrap().expect("an answer")).unwrap();
        if message["id"] == 2 {
            return message;
        }
    }
}

#[tokio::test]
async fn a_tool_is_called_through_the_entry_that_up_wrote() {
    let home = Home::with_settings(json!({ "listen": "127.0.0.1:0" }), &[]);
    let file = home.path(".cursor/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let before = json!({ "mcpServers": { "fixture": fixture_on_stdio("legacy") } }).to_string();
    std::fs::write(&file, &before).unwrap();
    let done = up(&home, &["--yes", "--json"]).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["clients"]["connected"], json!(["cursor"]));
    assert_eq!(report["servers"][0]["state"], "connected", "{report}");
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(written["mcpServers"].as_object().unwrap().len(), 1, "{written}");
    let answer =
        call(&home, &written["mcpServers"]["toolbooth"], "fixture_add", json!({ "a": 1, "b": 2 })).await;
    assert!(
        answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains('3')),
        "{answer}"
    );
    let undone = up(&home, &["--undo"]).await;
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    assert!(!home.data().join("gateway.json").exists());
}
