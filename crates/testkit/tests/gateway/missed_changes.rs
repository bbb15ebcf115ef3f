//! Missed list changes: the gateway detects changes that were announced without a subscriber or not at all.

use crate::callers::ERAS;
use serde_json::json;
use std::time::Duration;
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::{Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

fn listing(tool: &str) -> String {
    json!([{ "name": tool, "inputSchema": { "type": "object" } }]).to_string()
}

/// Waits until the gateway shows a tool of the server.
async fn shown(gateway: &Gateway, tool: &str) {
    let client = TestClient::of(TestEra::Modern, gateway.address).await;
    let name = format!("up_{tool}");
    let listed = || async { client.names("tools/list", "tools").await.contains(&name).then_some(()) };
    poll(TEST_TIMEOUT, listed).await.unwrap_or_else(|| panic!("`{name}` is not listed"));
}

/// Lists one tool at first and another one afterwards; `then` runs when the first list is sent.
fn change_after_first_list(upstream: &ScriptedServer, then: impl Fn() + Send + 'static) {
    let mut readings = 0;
    upstream.list_by(move || {
        readings += 1;
        match readings {
            1 => {
                then();
                listing("early")
            }
            _ => listing("late"),
        }
    });
}

#[tokio::test]
async fn change_announced_while_lists_are_read_is_detected() {
    for era in ERAS {
        let upstream = ScriptedServer::start(era).await;
        let teller = upstream.clone();
        change_after_first_list(&upstream, move || teller.announce("notifications/tools/list_changed"));
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        shown(&gateway, "late").await;
    }
}

#[tokio::test]
async fn change_before_a_slow_stream_opens_is_detected() {
    for era in ERAS {
        let upstream = ScriptedServer::start(era).await;
        upstream.opens_after(Duration::from_secs(3));
        change_after_first_list(&upstream, || {});
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        // Lists do not wait for the stream: they are read again when it opens.
        shown(&gateway, "early").await;
        assert!(!upstream.has_subscribers(), "{era:?}");
        shown(&gateway, "late").await;
    }
}

#[tokio::test]
async fn change_while_a_stream_is_broken_is_detected_on_reconnect() {
    for era in ERAS {
        let upstream = ScriptedServer::start(era).await;
        upstream.list(listing("early"));
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["up"]).await;
        poll(TEST_TIMEOUT, || async { upstream.has_subscribers().then_some(()) })
            .await
            .expect("the gateway subscribes");
        shown(&gateway, "early").await;
        let listings = upstream.seen("tools/list").len();
        assert_eq!(listings, 1, "{era:?}: a stream that opens in time causes no second listing");
        upstream.hang_up();
        upstream.list(listing("late"));
        shown(&gateway, "late").await;
        assert_eq!(upstream.seen("tools/list").len(), listings + 1, "{era:?}");
    }
}

/// A server that announces no changes is listed again every `discovery_interval`.
#[tokio::test]
async fn change_without_announcement_is_detected_by_listing_again() {
    for era in ERAS {
        let upstream = ScriptedServer::start(era).await;
        upstream.announces_nothing();
        upstream.list(listing("early"));
        let mut entry = upstream.entry();
        entry["discovery_interval"] = json!(1);
        let home = Home::new(&[("up", entry)]);
        let gateway = home.start().await;
        gateway.connected(&["up"]).await;
        shown(&gateway, "early").await;
        let client = TestClient::of(TestEra::Modern, gateway.address).await;
        let mut changes = client.listen(&[]).await;
        upstream.list(listing("late"));
        changes
            .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
            .await
            .expect("clients are notified");
        shown(&gateway, "late").await;
        assert!(!client.names("tools/list", "tools").await.contains(&"up_early".to_owned()), "{era:?}");
        assert_eq!(upstream.seen("tools/call").len(), 0);
    }
}
