//! Forwarding of caller headers to servers.

use hyper::Method;
use serde_json::json;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer};

/// Calls a tool with headers; returns the headers that its server received.
async fn seen(gateway: &Gateway, server: &ScriptedServer, tool: &str, headers: &[(&str, &str)]) -> String {
    let path = format!("/tools/{tool}/call");
    let reply = gateway.http().send(Method::POST, &path, headers, r#"{"arguments":{}}"#).await;
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.json().await);
    server.seen("tools/call").pop().unwrap().headers
}

#[tokio::test]
async fn only_configured_headers_are_forwarded() {
    for era in [TestEra::Modern, TestEra::Legacy] {
        let (named, other) = (ScriptedServer::start(era).await, ScriptedServer::start(era).await);
        let mut entry = named.entry();
        entry["forward_headers"] = json!({ "X-Tenant": "X-Team", "x-lang": "x-lang" });
        let home = Home::new(&[("named", entry), ("other", other.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["named", "other"]).await;
        let sent = [
            ("content-type", "application/json"),
            ("x-tenant", "blue"),
            ("authorization", "Bearer s3cret"),
            ("cookie", "id=s3cret"),
            ("x-else", "s3cret"),
        ];
        let response = seen(&gateway, &named, "named_take", &sent).await;
        assert!(response.contains("x-team: blue\n"), "{response}");
        assert!(
            !response.contains("s3cret") && !response.contains("x-tenant") && !response.contains("x-lang"),
            "{response}"
        );
        let response = seen(&gateway, &other, "other_take", &sent).await;
        assert!(!response.contains("blue") && !response.contains("s3cret"), "{response}");
        // The next request does not reuse these headers, and a repeated header is ignored.
        let response = seen(&gateway, &named, "named_take", &[("content-type", "application/json")]).await;
        assert!(!response.contains("x-team"), "{response}");
        let twice = [("content-type", "application/json"), ("x-tenant", "a"), ("x-tenant", "b")];
        let response = seen(&gateway, &named, "named_take", &twice).await;
        assert!(!response.contains("x-team"), "{response}");
        assert!(!gateway.log().contains("s3cret"));
    }
}
