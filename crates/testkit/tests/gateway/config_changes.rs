//! Configuration changes while the gateway runs: applied as a whole, rules first, and reported.

use crate::token_users::{bearer, make_token, run};
use ::http::Method;
use serde_json::{Value, json};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{hostile, shell};
use toolbooth_testkit::world::{Gateway, Home, Http, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

async fn client(gateway: &Gateway) -> TestClient {
    TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await
}

async fn reload(gateway: &Gateway) -> (u16, Value) {
    gateway.http().post_json("/servers/reload", "").await
}

/// Waits until `/ready` gives this code as the reason why the last reload was refused; null when it was not.
async fn reload_error(gateway: &Gateway, code: Value) {
    let shown = poll(TEST_TIMEOUT, || async {
        let ready = gateway.http().get_json("/ready").await;
        (ready["config"].is_object() && ready["config"]["reload_error"]["code"] == code).then_some(())
    });
    assert!(shown.await.is_some(), "no {code}: {}", gateway.log());
}

async fn assert_closed(gateway: &Gateway) {
    let reply = Http::new(gateway.address).send(Method::GET, "/me", &[], "").await;
    assert_eq!(reply.status, 401, "a request without a token is not refused: {}", gateway.log());
}

/// Otherwise anonymous callers would stay administrators until the next start.
#[tokio::test]
async fn added_auth_mode_takes_effect_at_once() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = client(&gateway).await;
    assert!(!client.call("good_ok", json!({})).await.is_error());

    home.configure(json!({ "auth": { "mode": "token" } }), &servers);
    let closed = poll(TEST_TIMEOUT, || async {
        (gateway.http().get_json("/tools").await["code"] == "auth.required").then_some(())
    });
    closed.await.expect("requests without a token are refused");
    let (status, _) = reload(&gateway).await;
    assert_eq!(status, 401);
    let (status, text) = client.call_text("good_ok", "{}").await;
    assert_eq!(status, 401, "{text}");

    // Audit A2: the way back to `local` is a restart, for every cause of a reload.
    home.configure(json!({}), &servers);
    let refused =
        poll(TEST_TIMEOUT, || async { gateway.log().contains("config.reload-loosens-auth").then_some(()) });
    refused.await.expect("the watcher's reload is refused");
    let output = run(&home, &["reload"], None);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("config.reload-loosens-auth"), "{output:?}");
    assert!(text.contains("restart the gateway"), "{text}");
    assert_closed(&gateway).await;
    drop(gateway);
    let gateway = home.start().await;
    assert!(gateway.http().get_json("/tools").await["tools"].is_array(), "{}", gateway.log());
}

/// Audit A2: a token gateway whose file was moved away became `local`, with every caller as its administrator.
#[tokio::test]
async fn missing_configuration_file_does_not_disable_auth() {
    let places: [(&str, &[&str]); 2] =
        [(".config/toolbooth/toolbooth.toml", &[]), ("rules/toolbooth.toml", &["--config-dir", "rules"])];
    for (place, arguments) in places {
        let home = Home::new(&[("good", hostile(&["echo"]))]);
        let (file, away) = (home.path(place), home.path("away.toml"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "[auth]\nmode = \"token\"\n").unwrap();
        let (root, _) = make_token(&home, None, "root", &["--groups", "admin"]);
        let mut command = home.command("serve");
        command.args(arguments);
        let mut gateway = Gateway::start(command, &home.path("gateway.log")).await;
        gateway.headers = bearer(&root);
        gateway.connected(&["good"]).await;
        assert_closed(&gateway).await;
        std::fs::copy(&file, &away).unwrap();
        for left in [None, Some("# [auth]\n# mode = \"token\"\n")] {
            match left {
                None => std::fs::remove_file(&file).unwrap(),
                Some(comments) => std::fs::write(&file, comments).unwrap(),
            }
            reload_error(&gateway, json!("config.file-lost")).await;
            assert_closed(&gateway).await;
            // An explicit reload is refused too.
            let (status, problem) = reload(&gateway).await;
            assert_eq!(
                (status, &problem["code"]),
                (400, &json!("config.reload-loosens-auth")),
                "{place} {left:?}: {problem}"
            );
            assert_closed(&gateway).await;
            // After it is restored, it is read again.
            std::fs::copy(&away, &file).unwrap();
            reload_error(&gateway, Value::Null).await;
            assert_closed(&gateway).await;
        }
        let (status, report) = reload(&gateway).await;
        assert_eq!(status, 200, "{place}: {report}");
    }
}

/// Audit A2: the rules of a deleted file stay in force until an explicit reload.
#[tokio::test]
async fn removed_file_takes_effect_with_an_explicit_reload() {
    let home = Home::new(&[("good", hostile(&["echo"]))]);
    let file = home.path(".config/toolbooth/toolbooth.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "deny_tools: [mcp.good.ok]\n").unwrap();
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = client(&gateway).await;
    std::fs::remove_file(&file).unwrap();
    reload_error(&gateway, json!("config.file-lost")).await;
    // The log follows a moment later.
    let logged =
        poll(TEST_TIMEOUT, || async { gateway.log().contains("toolbooth.yaml` is missing").then_some(()) });
    assert!(logged.await.is_some(), "{}", gateway.log());
    assert_eq!(client.call("good_ok", json!({})).await.code(), Some(-32602), "it is still denied");
    // A client of a folder makes the gateway read its files again, but not without the lost one.
    let visitor = TestClient::of(TestEra::Modern, gateway.address).await;
    let visitor = visitor.sending("toolbooth-folder", home.path("").to_str().unwrap());
    visitor.names("tools/list", "tools").await;
    assert_eq!(client.call("good_ok", json!({})).await.code(), Some(-32602), "it is still denied");
    let (status, report) = reload(&gateway).await;
    assert_eq!(status, 200, "{report}");
    assert!(report["settings"].as_array().unwrap().contains(&json!("deny_tools")), "{report}");
    assert!(!client.call("good_ok", json!({})).await.is_error());
    reload_error(&gateway, Value::Null).await;
}

/// Settings that are read only at the start are named.
#[tokio::test]
async fn settings_that_need_a_restart_are_reported() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    home.configure(json!({ "naming": { "style": "tool" }, "allowed_hosts": ["x.example"] }), &servers);
    let (status, report) = reload(&gateway).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(report["restart_needed"], json!(["naming", "allowed_hosts"]), "{report}");
    let output = run(&home, &["reload"], None);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Restart needed: naming, allowed_hosts"), "{text}");
    assert!(!text.contains("Nothing changed"), "{text}");
    // Two reloads, and perhaps a third one by the watcher of files, report one change once.
    assert_eq!(gateway.log().matches("restart needed").count(), 1, "{}", gateway.log());
    let recent = gateway.http().get_json("/events/recent?types=config.error").await;
    assert!(recent.to_string().contains("config.restart-needed"), "{recent}");
    let output = run(&home, &["doctor"], None);
    assert!(String::from_utf8_lossy(&output.stdout).contains("restart needed"), "{output:?}");
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, ["good_echo", "good_ok"]);
}

/// Parity: settings of `files` silently needed a restart.
#[tokio::test]
async fn file_settings_take_effect_on_reload() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let upload = async |name: &str| {
        let path = format!("/files?name={name}");
        gateway.http().send(Method::POST, &path, &[("content-type", "text/plain")], "0123456789").await.status
    };
    assert_eq!(upload("a.txt").await, 201);
    home.configure(json!({ "files": { "max_upload_bytes": 5 } }), &servers);
    let (status, report) = reload(&gateway).await;
    assert_eq!((status, &report["settings"]), (200, &json!(["files"])), "{report}");
    assert_eq!(report["restart_needed"], json!([]), "{report}");
    assert_eq!(upload("b.txt").await, 413);
    home.configure(json!({}), &servers);
    assert_eq!(reload(&gateway).await.0, 200);
    assert_eq!(upload("c.txt").await, 201);
}

/// Audit H1: allow and deny lists apply from the next reload.
#[tokio::test]
async fn newly_denied_tool_is_removed_at_once() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = client(&gateway).await;
    let mut changes = client.listen(&[]).await;
    home.configure(json!({ "deny_tools": ["mcp.good.ok"] }), &servers);
    let (status, report) = reload(&gateway).await;
    assert_eq!((status, &report["settings"]), (200, &json!(["deny_tools"])), "{report}");
    assert_eq!(report["applied"]["restarted"], json!([]), "{report}");
    assert_eq!(client.call("good_ok", json!({})).await.code(), Some(-32602));
    assert_eq!(client.names("tools/list", "tools").await, ["good_echo"]);
    changes.wait_for("notifications/tools/list_changed", TEST_TIMEOUT).await.expect("clients are notified");
    home.configure(json!({}), &servers);
    let (status, _) = reload(&gateway).await;
    assert_eq!(status, 200);
    assert!(!client.call("good_ok", json!({})).await.is_error());
}

/// Unusable files removed every server and started the bundled ones.
#[tokio::test]
async fn invalid_file_keeps_the_last_good_configuration() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = client(&gateway).await;
    let entry = hostile(&["echo"]);
    let twice = format!(r#"{{"servers": {{"a": {entry}, "b": {entry}, "a": {entry}}}}}"#);
    for text in ["null", "", "  \n", "[]", "7", &twice] {
        // Written in place, without renaming.
        std::fs::write(home.config(), text).unwrap();
        let (status, problem) = reload(&gateway).await;
        assert!(status >= 400, "{text:?}: {problem}");
        let listed = gateway.http().get_json("/servers").await;
        let names: Vec<&str> = listed["servers"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|server| server["name"].as_str())
            .collect();
        assert_eq!(names, ["good"], "{text:?}");
        assert_eq!(client.call("good_ok", json!({})).await.text(), "ok", "{text:?}");
    }
    // An empty server list is valid: it does not start the bundled servers.
    home.write_config(r#"{"servers": {}}"#);
    let (status, report) = reload(&gateway).await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(gateway.http().get_json("/servers").await["servers"], json!([]), "{report}");
    // Without a list, an explicit reload does, as a start would.
    home.configure(json!({}), &[]);
    let (status, report) = reload(&gateway).await;
    assert_eq!(status, 200, "{report}");
    gateway.connected(&["demo"]).await;
    // Once servers are configured again, a save that loses them does not start the bundled ones either.
    home.configure(json!({}), &servers);
    let (status, report) = reload(&gateway).await;
    assert_eq!(status, 200, "{report}");
    gateway.connected(&["good"]).await;
    home.configure(json!({}), &[]);
    let listed = poll(TEST_TIMEOUT, || async {
        let listed = gateway.http().get_json("/servers").await;
        (!listed.to_string().contains("\"good\"")).then_some(listed)
    });
    let listed = listed.await.expect("the changed file is read");
    assert_eq!(listed["servers"], json!([]), "{listed}");
}

/// A save that empties the file first and fills it later made calls fail.
#[tokio::test]
async fn file_saved_in_two_steps_is_read_once_complete() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let client = client(&gateway).await;
    home.configure(json!({ "lint": { "min_score": 10 } }), &servers);
    let text = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(home.config(), "").unwrap();
    let mut calls = 0;
    let until = std::time::Instant::now() + std::time::Duration::from_millis(600);
    while std::time::Instant::now() < until {
        assert_eq!(client.call("good_ok", json!({})).await.text(), "ok");
        calls += 1;
    }
    std::fs::write(home.config(), text.replace("10", "11")).unwrap();
    let taken = poll(TEST_TIMEOUT, || async {
        assert_eq!(client.call("good_ok", json!({})).await.text(), "ok");
        (gateway.http().get_json("/lint").await["min_score"] == 11).then_some(())
    });
    taken.await.expect("the saved file is applied");
    assert!(calls > 0 && !gateway.log().contains("the last good one stays"), "{}", gateway.log());
}

#[tokio::test]
async fn reused_server_name_does_not_show_old_tools() {
    let old = ScriptedServer::start(TestEra::Modern).await;
    let home = Home::new(&[("s", old.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["s"]).await;
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, ["s_take"]);
    // While it runs.
    home.configure(json!({}), &[("s", hostile(&["silent"]))]);
    let (status, report) = reload(&gateway).await;
    assert_eq!((status, &report["applied"]["restarted"]), (200, &json!(["s"])), "{report}");
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, Vec::<String>::new());
    drop(gateway);
    // After a restart too: the tools of the first server are no longer cached.
    let gateway = home.start().await;
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, Vec::<String>::new());
    drop(gateway);
    // The same server with other settings is served from the cache.
    let mut entry = old.entry();
    home.configure(json!({}), &[("s", entry.clone())]);
    let gateway = home.start().await;
    gateway.connected(&["s"]).await;
    drop(gateway);
    entry["timeout"] = json!(7);
    entry["auto_connect"] = json!(false);
    home.configure(json!({}), &[("s", entry)]);
    let gateway = home.start().await;
    assert_eq!(client(&gateway).await.names("tools/list", "tools").await, ["s_take"]);
}

/// It must not look like a connected server without tools.
#[tokio::test]
async fn server_that_cannot_list_its_tools_is_in_error() {
    let script = r#"while read -r line; do
        id=$(printf %s "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
        case "$line" in
            *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}\n' "$id";;
            *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the database is gone"}}\n' "$id";;
            *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id";;
        esac
    done"#;
    let home = Home::new(&[("broken", shell(script))]);
    let gateway = home.start().await;
    gateway.wait_for_state("broken", "error").await;
    let shown = gateway.server("broken").await;
    assert!(
        shown["reason"].as_str().is_some_and(|reason| reason.contains("the database is gone")),
        "{shown}"
    );
}
