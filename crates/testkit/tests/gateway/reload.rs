//! Reload: only changed servers restart, and an invalid file changes nothing.

use crate::token_users::{bearer, make_token, run};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, TestClient, poll, processes, token};

/// A server that can be found by a token in its command line.
fn server(token: &str) -> Value {
    hostile(&["echo", token])
}

async fn works(gateway: &Gateway, name: &str) {
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let reply = client.call(&format!("{name}_ok"), json!({})).await;
    assert_eq!(reply.text(), "ok", "{name}");
}

#[tokio::test]
async fn edit_restarts_only_changed_servers() {
    let [kept, changed, new, third] = ["kept", "changed", "new", "third"].map(token);
    let home = Home::new(&[("kept", server(&kept)), ("changed", server(&changed))]);
    let gateway = home.start().await;
    gateway.connected(&["kept", "changed"]).await;
    let (before, old) = (processes::marked(&kept), processes::marked(&changed));
    assert!(!before.is_empty() && !old.is_empty());
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    let mut changes = client.listen(&[]).await;

    // The file is watched: no explicit reload is needed.
    home.configure(
        json!({}),
        &[("kept", server(&kept)), ("changed", server(&new)), ("third", server(&third))],
    );
    processes::wait_for_marked(&new, 2).await;
    processes::wait_until_gone(&changed, Duration::from_secs(10)).await;
    gateway.connected(&["kept", "changed", "third"]).await;
    assert_eq!(processes::marked(&kept), before, "an unchanged server keeps its process");
    changes
        .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
        .await
        .expect("a notification for the third server");
    for name in ["kept", "changed", "third"] {
        works(&gateway, name).await;
    }

    // The same entry in another notation is unchanged.
    let spelled = format!(
        r#"// a comment
        {{ "mcpServers": {{
            "third": {third}, "changed": {changed},
            "kept": {kept},
        }} }}"#,
        third = server(&third),
        changed = server(&new),
        kept = server(&kept),
    );
    home.write_config(&spelled);
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(report["applied"]["restarted"], json!([]), "{report}");
    assert_eq!(processes::marked(&kept), before);

    // A removed server and its tools are gone.
    home.configure(json!({}), &[("kept", server(&kept))]);
    processes::wait_until_gone(&new, Duration::from_secs(10)).await;
    processes::wait_until_gone(&third, Duration::from_secs(10)).await;
    assert_eq!(processes::marked(&kept), before);
    let names = poll(TEST_TIMEOUT, || async {
        let names = client.names("tools/list", "tools").await;
        (names == ["kept_echo", "kept_ok"]).then_some(names)
    });
    assert!(names.await.is_some(), "{:?}", client.names("tools/list", "tools").await);
    let reply = client.call("third_ok", json!({})).await;
    assert_eq!(reply.code(), Some(-32602), "{}", reply.answer);
}

#[tokio::test]
async fn typo_keeps_the_last_good_configuration() {
    let [one, two, three] = ["one", "two", "three"].map(token);
    let good = [("one", server(&one)), ("two", server(&two))];
    let home = Home::new(&good);
    let gateway = home.start().await;
    gateway.connected(&["one", "two"]).await;
    let before = (processes::marked(&one), processes::marked(&two));

    home.write_config("{ \"servers\": { \"one\": { \"command\": \"sh\" ");
    let (status, problem) = gateway.http().post_json("/servers/reload", "").await;
    assert!(status >= 400, "{problem}");
    assert!(problem["title"].as_str().unwrap().len() > 10 && problem["code"].is_string(), "{problem}");
    let logged =
        poll(TEST_TIMEOUT, || async { gateway.log().contains("the last good one stays").then_some(()) });
    assert!(logged.await.is_some(), "the watcher reported it too: {}", gateway.log());
    assert_eq!((processes::marked(&one), processes::marked(&two)), before);
    works(&gateway, "one").await;
    works(&gateway, "two").await;

    // An entry with a typo affects only itself.
    let mut slipped = server(&two);
    slipped["comand"] = json!("x");
    home.configure(json!({}), &[("one", server(&one)), ("two", slipped), ("three", server(&three))]);
    gateway.connected(&["three"]).await;
    gateway.wait_for_state("two", "config_error").await;
    let shown = gateway.server("two").await;
    assert!(shown["reason"].as_str().unwrap().contains("comand"), "{shown}");
    assert_eq!(processes::marked(&one), before.0);
    works(&gateway, "one").await;

    home.configure(json!({}), &good);
    gateway.connected(&["one", "two"]).await;
    assert_eq!(processes::marked(&one), before.0);
    works(&gateway, "two").await;
}

/// Names of the tools that the gateway offers over REST, without its own.
async fn offered(http: &Http) -> Vec<String> {
    let listed = http.get_json("/tools").await;
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("good_") || name.starts_with("other_")).collect()
}

// Rules must not be applied if the servers of the same configuration cannot be.
#[tokio::test]
async fn reload_that_the_store_refuses_changes_nothing() {
    let home = Home::new(&[("good", hostile(&["echo"])), ("other", hostile(&["echo"]))]);
    // Without a log file: no file may grow during the test.
    let command = home.serve_through("bash", &["-c", "exec \"$0\" \"$@\" 2>/dev/null"]);
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["good", "other"]).await;
    let http = gateway.http();
    let before = offered(&http).await;
    assert!(before.iter().any(|name| name == "good_ok"), "{before:?}");
    let let_files_grow = |limit: &str| {
        let pid = gateway.pid().to_string();
        let limited = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}:")]).status();
        assert!(limited.is_ok_and(|status| status.success()), "the file size limit is set");
    };
    let_files_grow("0");
    // Another server with a known name: the stored discovery of the earlier one must be deleted, and cannot be.
    let servers = [("good", hostile(&["echo"])), ("other", hostile(&["silent"]))];
    home.configure(json!({ "deny_tools": ["mcp.good.ok"] }), &servers);
    let (status, problem) = http.post_json("/servers/reload", "").await;
    assert!(status >= 500 && problem["code"].as_str().unwrap().starts_with("store."), "{status} {problem}");
    assert_eq!(offered(&http).await, before, "neither rules nor servers changed");

    let_files_grow("unlimited");
    let (status, report) = http.post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(offered(&http).await, ["good_echo"]);
}

#[tokio::test]
async fn only_a_restart_can_admit_every_local_user() {
    let servers = [("good", hostile(&["echo"]))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    let any = json!({ "auth": { "local_users": "any" }, "deny_tools": ["mcp.good.ok"] });
    home.configure(any, &servers);
    let (status, problem) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!((status, &problem["code"]), (400, &json!("config.reload-loosens-auth")), "{problem}");
    assert!(problem.to_string().contains("auth.local_users"), "{problem}");
    works(&gateway, "good").await;
    drop(gateway);
    // A start accepts the setting, and a reload can remove it.
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    home.configure(json!({}), &servers);
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!((status, &report["restart_needed"]), (200, &json!([])), "{report}");
    works(&gateway, "good").await;
}

// Whether processes are shared is decided again when the users change.
#[tokio::test]
async fn users_do_not_share_processes_after_a_change_to_tokens() {
    let mark = token("kept");
    let servers = [("kept", server(&mark))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["kept"]).await;
    let of_one = processes::marked(&mark).len();
    works(&gateway, "kept").await;
    let before = processes::marked(&mark).len();
    let [ann, bob] = ["ann", "bob"].map(|user| make_token(&home, None, user, &[]).0);
    home.configure(json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } }), &servers);
    let output = run(&home, &["reload"], None);
    assert!(output.status.success(), "{output:?}");
    for user in [&ann, &bob, &ann] {
        let http = Http::new(gateway.address).sending(&bearer(user));
        let (status, answer) = http.post_json("/tools/kept_ok/call", "{}").await;
        assert_eq!(status, 200, "{answer}");
    }
    // ann and bob have one process each, besides the gateway's own.
    let expected = before + 2 * of_one;
    assert_eq!(processes::wait_for_marked(&mark, expected).await.len(), expected);
}
