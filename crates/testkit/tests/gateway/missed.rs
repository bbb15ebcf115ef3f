//! Changes that a server tells of while nobody hears, or does not tell of at all: they are found all the same.

use crate::callers::ERAS;
use serde_json::json;
use std::time::Duration;
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::{Client, Gateway, Home, PATIENCE, Upstream, poll};

fn listing(tool: &str) -> String {
    json!([{ "name": tool, "inputSchema": { "type": "object" } }]).to_string()
}

/// Waits until the gateway shows a tool of the server.
async fn shown(gateway: &Gateway, tool: &str) {
    let client = Client::of(Era::Modern, gateway.address).await;
    let name = format!("up_{tool}");
    let listed = || async { client.names("tools/list", "tools").await.contains(&name).then_some(()) };
    poll(PATIENCE, listed).await.unwrap_or_else(|| panic!("`{name}` is shown"));
}

/// Lists one tool at first, and another ever after; `then` is run as the first list goes out.
fn lists_anew(upstream: &Upstream, then: impl Fn() + Send + 'static) {
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
async fn a_change_told_while_the_lists_are_read_is_heard() {
    for era in ERAS {
        let upstream = Upstream::start(era).await;
        let teller = upstream.clone();
        lists_anew(&upstream, move || teller.announce("notifications/tools/list_changed"));
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        shown(&gateway, "late").await;
    }
}

#[tokio::test]
async fn a_change_before_a_slow_stream_opens_is_found() {
    for era in ERAS {
        let upstream = Upstream::start(era).await;
        upstream.opens_after(Duration::from_secs(3));
        lists_anew(&upstream, || {});
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        // Nobody waits for the stream: that it opens is worth a second look, not a delay.
        shown(&gateway, "early").await;
        assert!(!upstream.is_heard(), "{era:?}");
        shown(&gateway, "late").await;
    }
}

#[tokio::test]
async fn a_change_while_a_stream_is_broken_is_found_when_it_is_back() {
    for era in ERAS {
        let upstream = Upstream::start(era).await;
        upstream.list(listing("early"));
        let home = Home::new(&[("up", upstream.entry())]);
        let gateway = home.start().await;
        gateway.connected(&["up"]).await;
        poll(PATIENCE, || async { upstream.is_heard().then_some(()) }).await.expect("the gateway listens");
        shown(&gateway, "early").await;
        let looked = upstream.seen("tools/list").len();
        assert_eq!(looked, 1, "{era:?}: a stream that opens in time is no reason to look again");
        upstream.hang_up();
        upstream.list(listing("late"));
        shown(&gateway, "late").await;
        assert_eq!(upstream.seen("tools/list").len(), looked + 1, "{era:?}");
    }
}
