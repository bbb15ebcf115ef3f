//! Headers of callers that a server is to be passed on, and those that it is not.

use hyper::Method;
use serde_json::json;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::{Gateway, Home, Upstream};

/// Calls a tool with headers, and tells what its server saw of them.
async fn seen(gateway: &Gateway, server: &Upstream, tool: &str, headers: &[(&str, &str)]) -> String {
    let path = format!("/tools/{tool}/call");
    let reply = gateway.http().send(Method::POST, &path, headers, r#"{"arguments":{}}"#).await;
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.json().await);
    server.seen("tools/call").pop().unwrap().headers
}

#[tokio::test]
async fn a_server_is_passed_on_the_headers_it_names_and_no_others() {
    for era in [Era::Modern, Era::Legacy] {
        let (named, other) = (Upstream::start(era).await, Upstream::start(era).await);
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
        let told = seen(&gateway, &named, "named_take", &sent).await;
        assert!(told.contains("x-team: blue\n"), "{told}");
        assert!(!told.contains("s3cret") && !told.contains("x-tenant") && !told.contains("x-lang"), "{told}");
        let told = seen(&gateway, &other, "other_take", &sent).await;
        assert!(!told.contains("blue") && !told.contains("s3cret"), "{told}");
        // The next request carries nothing of this one, and what comes twice means nothing.
        let told = seen(&gateway, &named, "named_take", &[("content-type", "application/json")]).await;
        assert!(!told.contains("x-team"), "{told}");
        let twice = [("content-type", "application/json"), ("x-tenant", "a"), ("x-tenant", "b")];
        let told = seen(&gateway, &named, "named_take", &twice).await;
        assert!(!told.contains("x-team"), "{told}");
        assert!(!gateway.log().contains("s3cret"));
    }
}
