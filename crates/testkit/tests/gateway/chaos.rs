//! Chaos: servers flap, restart, list in other orders and change their minds, and the gateway itself starts anew.
//! No byte of any list changes, in any mode and either era, until a definition really does.

use crate::callers::ERAS;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Changes, Client, Gateway, Home, PATIENCE, Upstream, poll};

const LISTED: &str = r#"[{"name":"a","description":"A.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;
const REORDERED: &str = r#"[{"name":"b","inputSchema":{"type":"object"}}, {"inputSchema":{"properties":{"b":{"const":1.50},"z":{"type":"string"}},"type":"object"},"description":"A.","name":"a"}]"#;
const ANOTHER: &str = r#"[{"name":"a","description":"Another.","inputSchema":{"type":"object","properties":{"z":{"type":"string"},"b":{"const":1.50}}}},{"name":"b","inputSchema":{"type":"object"}}]"#;
/// A client of each mode.
const MODES: [&str; 3] = ["full", "summary", "search"];
/// How long a server must have listed the same before clients are told of it.
const TOLD_AFTER: Duration = Duration::from_millis(750);
/// Events, where nobody asks for more.
const FEW: usize = 40;

/// How many events there are to be: `TOOLBOOTH_CHAOS=1000` for all of it.
fn events() -> usize {
    std::env::var("TOOLBOOTH_CHAOS").ok().and_then(|count| count.parse().ok()).unwrap_or(FEW)
}

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn clients(gateway: &Gateway) -> Vec<Client> {
    let mut clients = Vec::new();
    for mode in MODES {
        for era in ERAS {
            clients.push(Client::called(mode, era, gateway.address).await);
        }
    }
    clients
}

/// What each client's list comes to.
async fn sums(gateway: &Gateway) -> Vec<String> {
    let mut sums = Vec::new();
    for client in clients(gateway).await {
        let digest = Sha256::digest(client.list_text("tools/list").await);
        sums.push(digest.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    sums
}

/// How often known servers have changed what clients are shown, as the metrics tell.
async fn changes(gateway: &Gateway) -> u64 {
    let reply = gateway.http().send(::http::Method::GET, "/metrics", &[], "").await;
    let text = String::from_utf8(reply.bytes().await.to_vec()).unwrap();
    let line = text.lines().find(|line| line.contains(r#"surface_changes_total{cause="changed"}"#)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Has the server tell of a change, and waits until its list was read.
async fn announced(upstream: &Upstream, tools: &str) {
    upstream.list(tools);
    let looked = upstream.seen("tools/list").len();
    upstream.announce("notifications/tools/list_changed");
    let read = || async { (upstream.seen("tools/list").len() > looked).then_some(()) };
    poll(PATIENCE, read).await.expect("the list is read");
}

async fn heard(upstream: &Upstream) {
    poll(PATIENCE, || async { upstream.is_heard().then_some(()) }).await.expect("somebody listens");
}

#[tokio::test]
async fn only_a_changed_definition_changes_a_list_and_once() {
    let upstream = Upstream::start(Era::Legacy).await;
    upstream.list(LISTED);
    let by_mode = json!({ "full": "full", "summary": "summary", "search": "search" });
    let home = Home::with_settings(
        json!({ "exposure": { "clients": by_mode, "always_load_tools": ["up_a"] } }),
        &[("up", upstream.entry()), ("local", hostile(&["echo"]))],
    );
    let mut gateway = home.start().await;
    gateway.connected(&["up", "local"]).await;
    heard(&upstream).await;
    let first = sums(&gateway).await;
    assert_eq!(first[0], sums(&gateway).await[0]);
    assert_ne!(first[0], first[2], "modes differ");
    let mut dice = Dice(7);
    for number in 0..events() {
        let (event, start) = (dice.roll(16), Instant::now());
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
                // A change of mind, taken back before anybody was told.
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
        if matches!(event, 12 | 13) && now != first && start.elapsed() > TOLD_AFTER {
            // Too slow a machine for a change of mind: clients were told, and are told otherwise soon.
            poll(PATIENCE, || async { (sums(&gateway).await == first).then_some(()) }).await;
            now = sums(&gateway).await;
        }
        assert_eq!(now, first, "event {number}, kind {event}");
        if matches!(event, 14 | 15) {
            gateway.connected(&["up"]).await;
            heard(&upstream).await;
        }
    }
    let mut streams: Vec<Changes> = Vec::new();
    for client in clients(&gateway).await {
        streams.push(client.listen(&[]).await);
    }
    let before = changes(&gateway).await;
    announced(&upstream, ANOTHER).await;
    for stream in &mut streams {
        stream.wait_for("notifications/tools/list_changed", PATIENCE).await.expect("everybody is told");
    }
    let then = sums(&gateway).await;
    assert!(then.iter().zip(&first).all(|(then, first)| then != first), "every list has the new description");
    assert_eq!(changes(&gateway).await, before + 1);
    announced(&upstream, ANOTHER).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for stream in &mut streams {
        let more = stream.gather(Duration::from_millis(50)).await;
        assert_eq!(more, Vec::<serde_json::Value>::new(), "once");
    }
    assert_eq!(sums(&gateway).await, then);
    assert_eq!(changes(&gateway).await, before + 1);
}
