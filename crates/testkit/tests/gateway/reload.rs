//! Reload: only what changed starts anew, and a slip of the pen changes nothing.

use crate::known::{bearer, make_token, run};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Client, Gateway, Home, Http, PATIENCE, eyes, poll, token};

/// A server that can be found by its token.
fn server(token: &str) -> Value {
    hostile(&["echo", token])
}

async fn works(gateway: &Gateway, name: &str) {
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let told = client.call(&format!("{name}_ok"), json!({})).await;
    assert_eq!(told.text(), "ok", "{name}");
}

#[tokio::test]
async fn an_edit_restarts_only_what_it_changed() {
    let [kept, changed, new, third] = ["kept", "changed", "new", "third"].map(token);
    let home = Home::new(&[("kept", server(&kept)), ("changed", server(&changed))]);
    let gateway = home.start().await;
    gateway.connected(&["kept", "changed"]).await;
    let (before, old) = (eyes::marked(&kept), eyes::marked(&changed));
    assert!(!before.is_empty() && !old.is_empty());
    let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
    let mut changes = client.listen(&[]).await;

    // The file is watched: nobody has to say anything.
    home.configure(
        json!({}),
        &[("kept", server(&kept)), ("changed", server(&new)), ("third", server(&third))],
    );
    eyes::marked_reach(&new, 2).await;
    eyes::marked_vanish(&changed, Duration::from_secs(10)).await;
    gateway.connected(&["kept", "changed", "third"]).await;
    assert_eq!(eyes::marked(&kept), before, "what did not change keeps its process");
    changes.wait_for("notifications/tools/list_changed", PATIENCE).await.expect("a notice of the third");
    for name in ["kept", "changed", "third"] {
        works(&gateway, name).await;
    }

    // The same entry in other words is the same entry.
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
    assert_eq!(eyes::marked(&kept), before);

    // A server that is taken out is gone, its tools with it.
    home.configure(json!({}), &[("kept", server(&kept))]);
    eyes::marked_vanish(&new, Duration::from_secs(10)).await;
    eyes::marked_vanish(&third, Duration::from_secs(10)).await;
    assert_eq!(eyes::marked(&kept), before);
    let names = poll(PATIENCE, || async {
        let names = client.names("tools/list", "tools").await;
        (names == ["kept_echo", "kept_ok"]).then_some(names)
    });
    assert!(names.await.is_some(), "{:?}", client.names("tools/list", "tools").await);
    let told = client.call("third_ok", json!({})).await;
    assert_eq!(told.code(), Some(-32602), "{}", told.answer);
}

#[tokio::test]
async fn a_typo_keeps_the_last_good_configuration() {
    let [one, two, three] = ["one", "two", "three"].map(token);
    let good = [("one", server(&one)), ("two", server(&two))];
    let home = Home::new(&good);
    let gateway = home.start().await;
    gateway.connected(&["one", "two"]).await;
    let before = (eyes::marked(&one), eyes::marked(&two));

    home.write_config("{ \"servers\": { \"one\": { \"command\": \"sh\" ");
    let (status, problem) = gateway.http().post_json("/servers/reload", "").await;
    assert!(status >= 400, "{problem}");
    assert!(problem["title"].as_str().unwrap().len() > 10 && problem["code"].is_string(), "{problem}");
    let logged = poll(PATIENCE, || async { gateway.log().contains("the last good one stays").then_some(()) });
    assert!(logged.await.is_some(), "the watcher saw it too: {}", gateway.log());
    assert_eq!((eyes::marked(&one), eyes::marked(&two)), before);
    works(&gateway, "one").await;
    works(&gateway, "two").await;

    // One entry with a slip harms only itself.
    let mut slipped = server(&two);
    slipped["comand"] = json!("x");
    home.configure(json!({}), &[("one", server(&one)), ("two", slipped), ("three", server(&three))]);
    gateway.connected(&["three"]).await;
    gateway.reaches("two", "config_error").await;
    let shown = gateway.server("two").await;
    assert!(shown["reason"].as_str().unwrap().contains("comand"), "{shown}");
    assert_eq!(eyes::marked(&one), before.0);
    works(&gateway, "one").await;

    home.configure(json!({}), &good);
    gateway.connected(&["one", "two"]).await;
    assert_eq!(eyes::marked(&one), before.0);
    works(&gateway, "two").await;
}

/// Names of the tools that the gateway offers over REST, without its own.
async fn offered(http: &Http) -> Vec<String> {
    let listed = http.get_json("/tools").await;
    let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("good_") || name.starts_with("other_")).collect()
}

// Audit: rules were in force though the servers of the same configuration could not be applied.
#[tokio::test]
async fn a_reload_that_the_store_refuses_changes_nothing() {
    let home = Home::new(&[("good", hostile(&["echo"])), ("other", hostile(&["echo"]))]);
    // The log is not kept: no file may grow during the test.
    let command = home.serve_through("bash", &["-c", "exec \"$0\" \"$@\" 2>/dev/null"]);
    let gateway = Gateway::start(command, &home.path("gateway.log")).await;
    gateway.connected(&["good", "other"]).await;
    let http = gateway.http();
    let before = offered(&http).await;
    assert!(before.iter().any(|name| name == "good_ok"), "{before:?}");
    let let_files_grow = |limit: &str| {
        let pid = gateway.pid().to_string();
        let limited = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={limit}:")]).status();
        assert!(limited.is_ok_and(|status| status.success()), "the limit on files is set");
    };
    let_files_grow("0");
    // Another server of a known name: what the store keeps of the earlier one is to be forgotten, and cannot be.
    let servers = [("good", hostile(&["echo"])), ("other", hostile(&["silent"]))];
    home.configure(json!({ "deny_tools": ["mcp.good.ok"] }), &servers);
    let (status, problem) = http.post_json("/servers/reload", "").await;
    assert!(status >= 500 && problem["code"].as_str().unwrap().starts_with("store."), "{status} {problem}");
    assert_eq!(offered(&http).await, before, "neither rules nor servers are others");

    let_files_grow("unlimited");
    let (status, report) = http.post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    assert_eq!(offered(&http).await, ["good_echo"]);
}

// Audit: a reload let every user of the machine in, each as the owner.
#[tokio::test]
async fn only_a_start_lets_every_user_of_the_machine_in() {
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
    // A start takes it, and a reload may take it back.
    let gateway = home.start().await;
    gateway.connected(&["good"]).await;
    home.configure(json!({}), &servers);
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!((status, &report["restart_needed"]), (200, &json!([])), "{report}");
    works(&gateway, "good").await;
}

// Audit: what users share was decided at the start, when there was only one.
#[tokio::test]
async fn users_share_no_process_after_a_change_to_tokens() {
    let mark = token("kept");
    let servers = [("kept", server(&mark))];
    let home = Home::new(&servers);
    let gateway = home.start().await;
    gateway.connected(&["kept"]).await;
    let of_one = eyes::marked(&mark).len();
    works(&gateway, "kept").await;
    let before = eyes::marked(&mark).len();
    let [ann, bob] = ["ann", "bob"].map(|user| make_token(&home, None, user, &[]).0);
    home.configure(json!({ "auth": { "mode": "token" }, "policy": { "consent": "client" } }), &servers);
    let output = run(&home, &["reload"], None);
    assert!(output.status.success(), "{output:?}");
    for user in [&ann, &bob, &ann] {
        let http = Http::new(gateway.address).sending(&bearer(user));
        let (status, answer) = http.post_json("/tools/kept_ok/call", "{}").await;
        assert_eq!(status, 200, "{answer}");
    }
    // The gateway's own are not used by ann and bob, who have one each.
    let expected = before + 2 * of_one;
    assert_eq!(eyes::marked_reach(&mark, expected).await.len(), expected);
}
