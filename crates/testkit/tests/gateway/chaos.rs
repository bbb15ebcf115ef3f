//! Chaos: servers flap, restart, reorder their lists and revert changes, and the gateway restarts. In every mode and
//! era, no byte of a list changes until a definition changes.

use crate::callers::ERAS;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{ChangeFeed, Gateway, Home, ScriptedServer, TEST_TIMEOUT, TestClient, poll};

const LISTED: &str = r#"[{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;
const REORDERED: &str = r#"[{"name":"b","inputSchema":{"type":"object"}}, {"inputSchema":{"properties":{"b":{"const":1.50},"z":{"type":"string"}},"type":"object"},"description":"A.","name":"a"}]"#;
const ANOTHER: &str = r#"[{"name":"a","description":"Another.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;
/// A client of each mode.
const MODES: [&str; 3] = ["full", "summary", "search"];
/// How long a changed list must be stable before clients are notified.
const STABLE_AFTER: Duration = Duration::from_millis(750);
/// The default number of events.
const FEW: usize = 40;

/// The number of events; `TOOLBOOTH_CHAOS=1000` for a full run.
fn events() -> usize {
    std::env::var("TOOLBOOTH_CHAOS").ok().and_then(|count| count.parse().ok()).unwrap_or(FEW)
}

/// A deterministic random number generator.
struct ChaosRandom(u64);

impl ChaosRandom {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn clients(gateway: &Gateway) -> Vec<TestClient> {
    let mut clients = Vec::new();
    for mode in MODES {
        for era in ERAS {
            clients.push(TestClient::named(mode, era, gateway.address).await);
        }
    }
    clients
}

/// The digest of each client's list.
async fn sums(gateway: &Gateway) -> Vec<String> {
    let mut sums = Vec::new();
    for client in clients(gateway).await {
        let digest = Sha256::digest(client.list_text("tools/list").await);
        sums.push(digest.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    sums
}

/// The number of catalog changes of known servers, from the metrics.
async fn changes(gateway: &Gateway) -> u64 {
    let reply = gateway.http().send(::http::Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
    let line = text.lines().find(|line| line.contains(r#"surface_changes_total{cause="changed"}"#)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Announces a change and waits until the gateway has read the list.
async fn announced(upstream: &ScriptedServer, tools: &str) {
    upstream.list(tools);
    let looked = upstream.seen("tools/list").len();
    upstream.announce("notifications/tools/list_changed");
    let read = || async { (upstream.seen("tools/list").len() > looked).then_some(()) };
    poll(TEST_TIMEOUT, read).await.expect("the list is read");
}

async fn subscribed(upstream: &ScriptedServer) {
    poll(TEST_TIMEOUT, || async { upstream.has_subscribers().then_some(()) })
        .await
        .expect("the gateway subscribes");
}

#[tokio::test]
async fn lists_change_once_and_only_for_changed_definitions() {
    let upstream = ScriptedServer::start(TestEra::Legacy).await;
    upstream.list(LISTED);
    let by_mode = json!({ "full": "full", "summary": "summary", "search": "search" });
    let home = Home::with_settings(
        json!({ "exposure": { "clients": by_mode, "always_load_tools": ["up_a"] } }),
        &[("up", upstream.entry()), ("local", hostile(&["echo"]))],
    );
    let mut gateway = home.start().await;
    gateway.connected(&["up", "local"]).await;
    subscribed(&upstream).await;
    let first = sums(&gateway).await;
    assert_eq!(first[0], sums(&gateway).await[0]);
    assert_ne!(first[0], first[2], "modes differ");
    let mut random = ChaosRandom(7);
    for number in 0..events() {
        let (event, start) = (random.below(16), Instant::now());
        match event {
            0..=2 => drop(gateway.act("local", "restart").await),
            3 | 4 => drop(gateway.act("local", "disconnect").await),
            5 | 6 => drop(gateway.act("local", "connect").await),
            7..=9 => announced(&upstream, [LISTED, REORDERED][usize::from(event == 8)]).await,
            10 | 11 => {
                upstream.list(REORDERED);
                gateway.act("up", "refresh").await;
            }
            12 | 13 => {
                // A change that is reverted before clients are notified.
                announced(&upstream, ANOTHER).await;
                announced(&upstream, LISTED).await;
            }
            14 => drop(gateway.act("up", "restart").await),
            _ => {
                gateway.kill().await;
                gateway = home.start().await;
            }
        }
        let mut now = sums(&gateway).await;
        if matches!(event, 12 | 13) && now != first && start.elapsed() > STABLE_AFTER {
            // On a slow machine clients were notified before the revert, and are notified again soon.
            poll(TEST_TIMEOUT, || async { (sums(&gateway).await == first).then_some(()) }).await;
            now = sums(&gateway).await;
        }
        assert_eq!(now, first, "event {number}, kind {event}");
        if matches!(event, 14 | 15) {
            gateway.connected(&["up"]).await;
            subscribed(&upstream).await;
        }
    }
    let mut streams: Vec<ChangeFeed> = Vec::new();
    for client in clients(&gateway).await {
        streams.push(client.listen(&[]).await);
    }
    let before = changes(&gateway).await;
    announced(&upstream, ANOTHER).await;
    for stream in &mut streams {
        stream
            .wait_for("notifications/tools/list_changed", TEST_TIMEOUT)
            .await
            .expect("every client is notified");
    }
    let then = sums(&gateway).await;
    assert!(then.iter().zip(&first).all(|(then, first)| then != first), "every list has the new description");
    assert_eq!(changes(&gateway).await, before + 1);
    announced(&upstream, ANOTHER).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for stream in &mut streams {
        let more = stream.gather(Duration::from_millis(50)).await;
        assert_eq!(more, Vec::<serde_json::Value>::new(), "one notification");
    }
    assert_eq!(sums(&gateway).await, then);
    assert_eq!(changes(&gateway).await, before + 1);
}
