//! The first start without a cache: the first lists must not depend on timing.

use crate::scene::BRISK;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{hostile, quoted, shell};
use toolbooth_testkit::world::{Home, TEST_TIMEOUT, TestClient, binaries, poll};

/// How long the gateway waits for unknown servers, plus a margin for a loaded machine.
const LONGEST: Duration = Duration::from_secs(6);

/// A slow-starting server with tools, prompts and resources.
fn slow_fixture(era: &str) -> Value {
    shell(&format!("sleep 0.6; exec {} --stdio --era {era}", quoted(&binaries::fixture())))
}

fn cold() -> Home {
    Home::new(&[("slow", slow_fixture("legacy")), ("echo", hostile(&["echo"]))])
}

fn slow_names(names: &[String]) -> usize {
    names.iter().filter(|name| name.starts_with("slow_")).count()
}

#[tokio::test]
async fn first_lists_include_servers_that_are_still_starting() {
    let lists = [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    for era in [TestEra::Legacy, TestEra::Modern] {
        for (method, member) in lists {
            let home = cold();
            let gateway = home.start().await;
            let client = TestClient::of(era, gateway.address).await;
            let names = client.names(method, member).await;
            assert!(!names.is_empty(), "{era:?} {method}: {}", gateway.log());
            gateway.connected(&["slow", "echo"]).await;
            assert_eq!(
                client.names(method, member).await,
                names,
                "{era:?} {method}: the first list was complete"
            );
        }
    }
}

#[tokio::test]
async fn first_requests_by_name_wait_for_their_server() {
    let requests = [
        ("tools/call", json!({ "name": "slow_add", "arguments": { "a": 1, "b": 2 } })),
        ("prompts/get", json!({ "name": "slow_test_simple_prompt" })),
        ("resources/read", json!({ "uri": "test://static-text" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "slow_test_prompt_with_arguments" },
                "argument": { "name": "arg1", "value": "" } }),
        ),
    ];
    for (index, (method, params)) in requests.into_iter().enumerate() {
        let era = [TestEra::Legacy, TestEra::Modern][index % 2];
        let home = cold();
        let gateway = home.start().await;
        let client = TestClient::of(era, gateway.address).await;
        let reply = client.ask(method, params).await;
        assert!(reply.answer["result"].is_object() && !reply.is_error(), "{method}: {}", reply.answer);
    }
}

#[tokio::test]
async fn rest_and_cli_wait_for_the_first_start_too() {
    let home = cold();
    let gateway = home.start().await;
    let listed = gateway.http().get_json("/tools").await;
    let names: Vec<String> =
        listed["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
    assert!(slow_names(&names) > 0, "{listed}");

    let home = cold();
    let gateway = home.start().await;
    assert_eq!(gateway.http().get_json("/tools/slow_add").await["tool"], "add");

    let home = cold();
    let gateway = home.start().await;
    let body = r#"{"arguments":{"a":1,"b":2}}"#;
    let (status, answer) = gateway.http().post_json("/tools/slow_add/call", body).await;
    assert_eq!((status, &answer["result"]["structuredContent"]["sum"]), (200, &json!(3)), "{answer}");

    let home = cold();
    let _gateway = home.start().await;
    let mut command = home.command("tools");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("slow_add"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// After a failed first attempt, lists do not wait for the retries.
#[tokio::test]
async fn failed_server_does_not_delay_lists() {
    let home = Home::new(&[
        ("gone", json!({ "command": "no-such-command-anywhere" })),
        ("echo", hostile(&["echo"])),
    ]);
    let gateway = home.start().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    assert_eq!(client.names("tools/list", "tools").await, ["echo_echo", "echo_ok"]);
    gateway.wait_for_state("gone", "error").await;
    let start = Instant::now();
    client.names("tools/list", "tools").await;
    let reply = client.call("gone_ok", json!({})).await;
    assert!(start.elapsed() < BRISK, "it took {:?}", start.elapsed());
    assert_eq!(reply.answer["error"]["message"], "Unknown tool: gone_ok");
}

/// A server that never answers delays only the first list, for a few seconds.
#[tokio::test]
async fn silent_server_delays_only_the_first_list() {
    let home = Home::new(&[("silent", hostile(&["silent"])), ("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let started = Instant::now();
    let legacy = TestClient::of(TestEra::Legacy, gateway.address).await;
    let modern = TestClient::of(TestEra::Modern, gateway.address).await;
    let found = modern.ask("server/discover", json!({})).await;
    assert!(found.result()["capabilities"].is_object(), "{}", found.answer);
    assert!(started.elapsed() < BRISK, "the handshake took {:?}", started.elapsed());
    gateway.connected(&["echo"]).await;
    let start = Instant::now();
    assert_eq!(modern.call("echo_ok", json!({})).await.text(), "ok");
    assert!(start.elapsed() < Duration::from_secs(1), "a known name took {:?}", start.elapsed());

    assert_eq!(legacy.names("tools/list", "tools").await, ["echo_echo", "echo_ok"]);
    let waited = started.elapsed();
    assert!(waited > Duration::from_millis(2500) && waited < LONGEST, "the first list took {waited:?}");
    let start = Instant::now();
    assert_eq!(modern.names("tools/list", "tools").await, ["echo_echo", "echo_ok"]);
    // Unknown, forbidden and not yet listed tools get the same message.
    for (method, key, what) in [
        ("tools/call", "name", "tool"),
        ("prompts/get", "name", "prompt"),
        ("resources/read", "uri", "resource"),
    ] {
        for name in ["silent_ok", "absent_ok"] {
            let reply = modern.ask(method, json!({ key: name })).await;
            let message = format!("Unknown {what}: {name} (servers are still connecting)");
            assert_eq!(reply.answer["error"]["message"], message, "{}", reply.answer);
        }
    }
    let shown = gateway.http().get_json("/tools/silent_ok").await;
    assert_eq!(shown["title"], "there is no tool `silent_ok` (servers are still connecting)", "{shown}");
    assert!(start.elapsed() < BRISK, "later requests do not wait, but took {:?}", start.elapsed());
}

/// Lists do not wait for lazy servers, but an unknown lazy server is connected once to discover its tools.
#[tokio::test]
async fn lazy_server_is_discovered_once_without_delaying_lists() {
    let mut lazy = hostile(&["slow-start", "1000"]);
    lazy["lazy"] = json!(true);
    let home = Home::new(&[("lazy", lazy), ("echo", hostile(&["echo"]))]);
    {
        let gateway = home.start().await;
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        assert_eq!(client.names("tools/list", "tools").await, ["echo_echo", "echo_ok"]);
        let heard = poll(TEST_TIMEOUT, || async {
            client.names("tools/list", "tools").await.contains(&"lazy_ok".to_owned()).then_some(())
        });
        assert!(heard.await.is_some(), "{}", gateway.log());
        gateway.stop().await;
    }
    let gateway = home.start().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    assert!(client.names("tools/list", "tools").await.contains(&"lazy_ok".to_owned()));
    assert_eq!(gateway.server("lazy").await["state"], "disconnected", "it is disconnected after discovery");
    assert_eq!(client.call("lazy_ok", json!({})).await.text(), "ok");
}

/// Lists also wait for a server that is added while the gateway runs.
#[tokio::test]
async fn added_server_is_in_the_next_list() {
    let home = Home::new(&[("echo", hostile(&["echo"]))]);
    let gateway = home.start().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    assert_eq!(slow_names(&client.names("tools/list", "tools").await), 0);
    home.configure(json!({}), &[("slow", slow_fixture("modern")), ("echo", hostile(&["echo"]))]);
    let (status, report) = gateway.http().post_json("/servers/reload", "").await;
    assert_eq!(status, 200, "{report}");
    assert!(slow_names(&client.names("tools/list", "tools").await) > 0);
}

/// A server that starts slowly is not taken for a legacy server.
#[tokio::test]
async fn slow_modern_server_is_detected_at_the_first_attempt() {
    let slow = shell(&format!("sleep 2; exec {} --stdio --era modern", quoted(&binaries::fixture())));
    let home = Home::new(&[("slow", slow)]);
    let gateway = home.start().await;
    gateway.connected(&["slow"]).await;
    assert_eq!(gateway.server("slow").await["revision"], toolbooth_testkit::fixture::MODERN);
    assert!(!gateway.log().contains("retrying in"), "{}", gateway.log());
}
