//! What an operator sees and relies on: the access log, and servers whose command is missing.

use crate::token_users::{bearer, make_token};
use ::http::Method;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, Http, TestClient, binaries};

/// The lines of the access log of a gateway that has ended.
async fn lines(home: &Home, gateway: Gateway) -> Vec<Value> {
    let (status, _) = gateway.stop().await;
    assert!(status.success());
    let text = fs::read_to_string(home.data().join("access.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"))).collect()
}

#[tokio::test]
async fn access_log_has_one_line_per_request_without_secrets() {
    let settings = json!({ "auth": { "mode": "token" }, "access_log": { "path": "access.log" } });
    let home = Home::with_settings(settings, &[("srv", hostile(&["echo"]))]);
    let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
    let mut gateway = home.start().await;
    gateway.headers = bearer(&root);
    gateway.connected(&["srv"]).await;
    let client = TestClient::with_headers(TestEra::Modern, gateway.address, "/mcp", &bearer(&root)).await;
    assert_eq!(client.call("srv_ok", json!({})).await.text(), "ok");
    let http = gateway.http();
    let named = [("x-request-id", "from-the-client")];
    let reply = http.send(Method::GET, "/servers?token=hunter2", &named, "").await;
    assert_eq!(reply.header("x-request-id"), Some("from-the-client"));
    let anonymous = Http::new(gateway.address);
    let reply = anonymous.send(Method::GET, "/files/download/v1.hunter2", &[], "").await;
    assert!(reply.header("x-request-id").is_some_and(|id| id.len() == 36));
    assert_eq!(anonymous.send(Method::GET, "/tools", &[], "").await.status, 401);

    let lines = lines(&home, gateway).await;
    let find = |path: &str, status: u16| {
        let found = lines.iter().find(|line| line["path"] == path && line["status"] == status);
        found.unwrap_or_else(|| panic!("no line for {path} {status} in {lines:#?}"))
    };
    let call = find("/mcp", 200);
    assert_eq!((&call["caller"], &call["method"]), (&json!("root"), &json!("POST")));
    assert!(call["bytes"].as_u64().unwrap() > 10 && call["ms"].as_f64().unwrap() > 0.0, "{call}");
    assert!(call["time"].as_str().unwrap().ends_with('Z'), "{call}");
    assert_eq!(lines.iter().filter(|line| line["request_id"] == "from-the-client").count(), 1);
    assert_eq!(find("/tools", 401)["caller"], Value::Null);
    assert!(lines.iter().any(|line| line["path"] == "/files/download/***"), "{lines:#?}");
    let text = format!("{lines:?}");
    assert!(!text.contains("hunter2") && !text.contains(&root), "a secret is in the log: {text}");
    let mode = fs::metadata(home.data().join("access.log")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[tokio::test]
async fn access_log_is_rotated_and_counted() {
    let settings = json!({ "access_log": { "path": "access.log", "max_bytes": 65_536 } });
    let home = Home::with_settings(settings, &[]);
    let gateway = home.start().await;
    let http = gateway.http();
    for _ in 0..600 {
        http.send(Method::GET, "/health", &[], "").await.bytes().await;
    }
    let metrics = http.send(Method::GET, "/metrics", &[], "").await.bytes().await;
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    assert!(metrics.contains("\ntoolbooth_access_log_dropped_total 0\n"), "{metrics}");
    assert!(metrics.contains("\ntoolbooth_access_log_lines_total "), "{metrics}");
    lines(&home, gateway).await;
    let size = |name: &str| fs::metadata(home.data().join(name)).unwrap().len();
    assert!(size("access.log") <= 65_536 && (1..=65_536).contains(&size("access.log.1")));
}

#[tokio::test]
async fn access_log_that_cannot_be_opened_prevents_the_start() {
    let settings = json!({ "access_log": { "path": "/no/such/folder/access.log" } });
    let home = Home::with_settings(settings, &[]);
    let output = home.command("serve").args(["--listen", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("serve.access-log"), "{text}");
}

#[tokio::test]
async fn missing_command_is_found_after_its_installation() {
    let home = Home::new(&[]);
    let program = home.path("late-server");
    home.configure(json!({}), &[("late", json!({ "command": program, "args": ["echo"] }))]);
    let gateway = home.start().await;
    gateway.wait_for_state("late", "error").await;
    assert_eq!(gateway.server("late").await["code"], "server.command-not-found");
    fs::copy(binaries::hostile(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // No waiting for the backoff: an operator asks for it.
    gateway.act("late", "connect").await;
    gateway.connected(&["late"]).await;
}
