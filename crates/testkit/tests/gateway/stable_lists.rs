//! Stable lists: the bytes of a list change only if its meaning changes.

use serde_json::json;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::{fixture_on_stdio, hostile, quoted, shell};
use toolbooth_testkit::world::{
    FixtureServer, Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, binaries, poll,
};

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// The exact text of every list, in both eras.
async fn surface(gateway: &Gateway) -> Vec<String> {
    let mut lists = Vec::new();
    for era in [TestEra::Legacy, TestEra::Modern] {
        let client = TestClient::of(era, gateway.address).await;
        for method in LISTS {
            lists.push(client.list_text(method).await);
        }
    }
    lists
}

#[tokio::test]
async fn lists_keep_their_bytes_across_calls_sessions_and_restarts_of_servers() {
    let remote = FixtureServer::start("modern").await;
    let home = Home::new(&[
        ("remote", remote.entry()),
        ("local", fixture_on_stdio("legacy")),
        ("echo", hostile(&["echo"])),
    ]);
    let gateway = home.start().await;
    gateway.connected(&["remote", "local", "echo"]).await;
    let first = surface(&gateway).await;
    assert!(first[0].contains("local_echo") && first[0].contains("remote_echo"));
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let mut changes = client.listen(&[]).await;
    client.call("remote_echo", json!({ "message": 1 })).await;
    client.call("local_ask_name", json!({})).await;
    assert_eq!(surface(&gateway).await, first, "calls change nothing");
    for name in ["echo", "local", "remote"] {
        gateway.act(name, "restart").await;
        assert_eq!(surface(&gateway).await, first, "while `{name}` is disconnected");
        gateway.connected(&[name]).await;
        assert_eq!(surface(&gateway).await, first, "after `{name}` has reconnected");
    }
    gateway.act("echo", "disconnect").await;
    assert_eq!(surface(&gateway).await, first, "a disconnected server keeps its tools");
    assert_eq!(
        changes.gather(Duration::from_millis(300)).await,
        Vec::<serde_json::Value>::new(),
        "no client is notified"
    );
}

#[tokio::test]
async fn gateway_started_while_servers_are_down_shows_the_same_lists() {
    let remote = FixtureServer::start("modern").await;
    let address = remote.address().to_owned();
    let home = Home::new(&[]);
    let switch = home.path("up");
    let script = format!("test -e {} && exec {} echo; exit 7", quoted(&switch), quoted(&binaries::hostile()));
    std::fs::write(&switch, "").unwrap();
    home.configure(json!({}), &[("remote", remote.entry()), ("local", shell(&script))]);
    let first = {
        let gateway = home.start().await;
        gateway.connected(&["remote", "local"]).await;
        let first = surface(&gateway).await;
        gateway.stop().await;
        first
    };
    remote.kill().await;
    std::fs::remove_file(&switch).unwrap();

    let gateway = home.start().await;
    let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
    // The first answer, before the gateway knows that the servers are down.
    let tools = client.list_text("tools/list").await;
    assert_eq!(tools, first[4]);
    assert_eq!(surface(&gateway).await, first);
    gateway.wait_for_state("local", "error").await;
    gateway.wait_for_state("remote", "error").await;
    assert_eq!(surface(&gateway).await, first, "also after the connection attempts failed");
    for tool in ["local_ok", "remote_echo"] {
        let reply = client.call(tool, json!({})).await;
        assert!(reply.is_error(), "{}", reply.answer);
        // A retry may be running at this moment.
        let known = ["server.not-connected", "server.unreachable", "server.lost"];
        assert!(known.contains(&reply.fault()), "{tool}: {}", reply.answer);
        let name = tool.split_once('_').unwrap().0;
        assert!(reply.text().contains(&format!("`{name}`")), "the reason names the server: {}", reply.text());
    }

    let mut changes = client.listen(&[]).await;
    let _remote = FixtureServer::on(&address, "modern").await;
    std::fs::write(&switch, "").unwrap();
    for name in ["local", "remote"] {
        gateway.act(name, "connect").await;
        gateway.connected(&[name]).await;
    }
    assert_eq!(surface(&gateway).await, first, "after the servers have reconnected");
    assert_eq!(
        changes.gather(Duration::from_millis(300)).await,
        Vec::<serde_json::Value>::new(),
        "no client is notified"
    );
}

const ORDERED: &str = r#"[{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;
const OTHER_TOOLS_FIRST: &str = r#"[{"name":"b","inputSchema":{"type":"object"}},{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}}]"#;
const OTHER_SPACES: &str = r#"[ {"name": "a", "description": "A.", "inputSchema": {"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}}, {"name":"b","inputSchema":{"type":"object"}} ]"#;
const OTHER_KEYS_FIRST: &str = r#"[{"inputSchema":{"properties":{"b":{"const":1.50},"z":{"type":"string"}},"type":"object"},"description":"A.","name":"a"},{"name":"b","inputSchema":{"type":"object"}}]"#;
const ANOTHER_MEANING: &str = r#"[{"name":"a","description":"B.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;

/// Lists `ORDERED`, then the other text; fails if the bytes changed. Also checks that a real change is published.
async fn stays_after(other: &str) -> Result<(), String> {
    let upstream = ScriptedServer::start(TestEra::Modern).await;
    upstream.list(ORDERED);
    let home = Home::new(&[("srv", upstream.entry())]);
    let gateway = home.start().await;
    gateway.connected(&["srv"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let first = client.list_text("tools/list").await;
    assert!(
        first.contains(
            r#"{"name":"srv_a","description":"A.","inputSchema":{"type":"object","properties":{"z""#
        ),
        "{first}"
    );
    upstream.list(other);
    let looked = upstream.seen("tools/list").len();
    gateway.act("srv", "refresh").await;
    poll(TEST_TIMEOUT, || async { (upstream.seen("tools/list").len() > looked).then_some(()) })
        .await
        .expect("the list is read");
    // The list may be read shortly before its outcome is published.
    let mut then = String::new();
    for _ in 0..20 {
        then = client.list_text("tools/list").await;
        if then != first {
            return Err(format!("{first}\nbecame\n{then}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut changes = client.listen(&[]).await;
    upstream.list(ANOTHER_MEANING);
    gateway.act("srv", "refresh").await;
    changes
        .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
        .await
        .expect("a real change is announced");
    assert_ne!(client.list_text("tools/list").await, then);
    Ok(())
}

#[tokio::test]
async fn tool_order_does_not_change_the_list() {
    stays_after(OTHER_TOOLS_FIRST).await.unwrap();
}

#[tokio::test]
async fn whitespace_does_not_change_the_list() {
    stays_after(OTHER_SPACES).await.unwrap();
}

#[tokio::test]
async fn key_order_does_not_change_the_list() {
    stays_after(OTHER_KEYS_FIRST).await.unwrap();
}

/// Adding or removing a server does not rename tools of other servers.
#[tokio::test]
async fn added_server_does_not_rename_tools() {
    let home = Home::new(&[("a_b", hostile(&["echo"]))]);
    let gateway = home.start().await;
    gateway.connected(&["a_b"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let before = client.names("tools/list", "tools").await;
    // `a` with a tool `b_ok` would be `a_b_ok` too.
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    upstream.list(r#"[{"name":"b_ok","inputSchema":{"type":"object"}}]"#);
    home.configure(json!({}), &[("a_b", hostile(&["echo"])), ("a", upstream.entry())]);
    gateway.connected(&["a"]).await;
    let after = client.names("tools/list", "tools").await;
    assert_eq!(after.len(), before.len() + 1, "{after:?}");
    assert!(before.iter().all(|name| after.contains(name)), "{before:?} became {after:?}");
    assert_eq!(
        client.call("a_b_ok", json!({})).await.text(),
        "ok",
        "the name still belongs to its first owner"
    );
    // After a restart too, although the added server is first by name.
    gateway.kill().await;
    let gateway = home.start().await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    assert_eq!(client.names("tools/list", "tools").await, after, "from the cache");
    gateway.connected(&["a", "a_b"]).await;
    assert_eq!(client.names("tools/list", "tools").await, after, "from the servers");
    assert_eq!(client.call("a_b_ok", json!({})).await.text(), "ok");
}

/// A gateway that is configured as its own server does not list its own tools again.
#[tokio::test]
async fn gateway_cannot_be_its_own_server() {
    let home = Home::new(&[("demo", json!({ "bundled": "demo" }))]);
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let before = client.names("tools/list", "tools").await;
    let itself = json!({ "url": format!("http://{}/mcp", gateway.address) });
    let joined = json!({
        "command": binaries::toolbooth(),
        "args": ["stdio", "--data-dir", home.data()],
    });
    let demo = ("demo", json!({ "bundled": "demo" }));
    home.configure(json!({}), &[demo, ("by_url", itself), ("by_stdio", joined)]);
    for name in ["by_url", "by_stdio"] {
        gateway.wait_for_state(name, "error").await;
        let shown = gateway.server(name).await;
        assert_eq!(shown["code"], "server.is-this-gateway", "{shown}");
    }
    assert_eq!(client.names("tools/list", "tools").await, before);
}
