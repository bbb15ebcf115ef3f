//! Settings that limit the tools of a server and the rows of the audit.

use serde_json::json;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Home, ScriptedServer, TEST_TIMEOUT, poll};

#[tokio::test]
async fn tools_over_the_server_limit_are_set_aside() {
    let server = ScriptedServer::start(TestEra::Modern).await;
    let tool = |name: &str| json!({ "name": name, "description": "x", "inputSchema": { "type": "object" } });
    server.list(json!([tool("a"), tool("b"), tool("denied"), tool("c"), tool("d")]).to_string());
    let mut entry = server.entry();
    entry["tools"] = json!({ "deny": ["denied"] });
    let settings = json!({ "limits": { "tools_per_server": 3 } });
    let home = Home::with_settings(settings, &[("many", entry)]);
    let gateway = home.start().await;
    gateway.connected(&["many"]).await;
    let many = gateway.server("many").await;
    assert_eq!(many["tools"], 3, "{many}");
    let aside = json!([{ "kind": "tool", "name": "d",
        "reason": "the server lists more than 3 tools, the limit of `limits.tools_per_server`" }]);
    assert_eq!(many["set_aside"], aside, "a denied tool does not count");
    let (status, problem) = gateway.http().post_json("/tools/many_d/call", r#"{"arguments":{}}"#).await;
    assert_eq!((status, &problem["code"]), (404, &json!("call.unknown-tool")), "{problem}");
}

#[tokio::test]
async fn audit_keeps_rows_as_configured() {
    let entry = || [("demo", json!({ "bundled": "demo" }))];
    let home = Home::with_settings(json!({}), &entry());
    let gateway = home.start().await;
    gateway.connected(&["demo"]).await;
    for _ in 0..3 {
        let called = gateway.http().post_json("/tools/demo_hash/call", r#"{"arguments":{"text":"x"}}"#).await;
        assert_eq!(called.0, 200);
    }
    assert_eq!(gateway.http().get_json("/audit").await["rows"].as_array().unwrap().len(), 3);
    gateway.stop().await;
    home.configure(json!({ "audit": { "keep_bytes": 1 } }), &entry());
    let gateway = home.start().await;
    // Old rows are purged in the background, shortly after the start.
    let short = poll(TEST_TIMEOUT, || async {
        (gateway.http().get_json("/audit").await["rows"].as_array().unwrap().len() < 3).then_some(())
    });
    short.await.expect("the oldest rows are gone");
    let (_, report) = gateway.http().post_json("/audit/verify", "").await;
    assert_eq!(report["ok"], true, "the remaining rows can still be verified: {report}");
    assert_ne!(report["purged_to"], 0, "{report}");
}
