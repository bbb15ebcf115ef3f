//! A scene: a gateway with a server of bad temper and a good one beside it.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::Era;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Client, Gateway, Home, PATIENCE, Told, eyes, poll};

/// How long a healthy server may take for one answer while its neighbour misbehaves, on a loaded machine.
pub const BRISK: Duration = Duration::from_secs(2);
/// More than a gateway ever needs here.
pub const MOST_MEMORY_MIB: u64 = 300;

/// A gateway with a server of bad temper, `bad`, and a good one, `good`.
pub struct Scene {
    pub _home: Home,
    pub gateway: Gateway,
    pub client: Client,
}

impl Scene {
    pub async fn new(bad: Value) -> Self {
        Self::with_settings(json!({}), bad).await
    }

    pub async fn with_settings(settings: Value, bad: Value) -> Self {
        let home = Home::with_settings(settings, &[("bad", bad), ("good", hostile(&["echo"]))]);
        let gateway = home.start().await;
        gateway.connected(&["good"]).await;
        let client = Client::with_capabilities(Era::Modern, gateway.address, json!({})).await;
        Self { _home: home, gateway, client }
    }

    /// Calls the good server a few times; none may take long.
    pub async fn good_is_brisk(&self) {
        for number in 0..5 {
            let start = Instant::now();
            let told = self.client.call("good_echo", json!({ "number": number })).await;
            assert_eq!(told.result()["structuredContent"]["number"], number);
            assert!(start.elapsed() < BRISK, "the good server took {:?}", start.elapsed());
        }
    }

    /// Makes a call on the bad server, and on the good one meanwhile; tells how long the bad one took.
    pub async fn provoke(&self, tool: &str, arguments: Value) -> (Told, Duration) {
        let start = Instant::now();
        let provoking = async {
            let told = self.client.call(&format!("bad_{tool}"), arguments).await;
            (told, start.elapsed())
        };
        let (provoked, ()) = tokio::join!(provoking, self.good_is_brisk());
        self.good_is_brisk().await;
        let held = eyes::peak_mib(self.gateway.pid());
        assert!(held < MOST_MEMORY_MIB, "the gateway held {held} MiB");
        provoked
    }

    /// Waits until the bad server answers as if nothing had been.
    pub async fn bad_recovers(&self) -> Duration {
        let start = Instant::now();
        let back = poll(PATIENCE, || async {
            let told = self.client.call("bad_ok", json!({})).await;
            (told.code().is_none() && !told.is_error() && told.text() == "ok").then_some(())
        });
        assert!(back.await.is_some(), "{}\n{}", self.gateway.server("bad").await, self.gateway.log());
        start.elapsed()
    }
}

/// The fault that a failed call tells of, with a sentence that names the server.
pub fn fault(told: &Told) -> &str {
    assert!(told.is_error(), "{}", told.answer);
    assert!(told.text().contains("`bad`"), "the sentence names the server: {}", told.text());
    told.fault()
}
