//! A gateway with a hostile server and a good one.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolbooth_testkit::fixture::TestEra;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, TEST_TIMEOUT, TestClient, Transcript, poll, processes};

/// The longest answer time of a healthy server while another one misbehaves, on a loaded machine.
pub const BRISK: Duration = Duration::from_secs(2);
/// The memory limit of a gateway in these tests.
pub const MOST_MEMORY_MIB: u64 = 300;

/// A gateway with a hostile server, `bad`, and a good one, `good`.
pub struct Scene {
    pub _home: Home,
    pub gateway: Gateway,
    pub client: TestClient,
}

impl Scene {
    pub async fn new(bad: Value) -> Self {
        Self::with_settings(json!({}), bad).await
    }

    pub async fn with_settings(settings: Value, bad: Value) -> Self {
        let home = Home::with_settings(settings, &[("bad", bad), ("good", hostile(&["echo"]))]);
        let gateway = home.start().await;
        gateway.connected(&["good"]).await;
        let client = TestClient::with_capabilities(TestEra::Modern, gateway.address, json!({})).await;
        Self { _home: home, gateway, client }
    }

    /// Checks that a few calls of the good server are answered quickly.
    pub async fn good_is_brisk(&self) {
        for number in 0..5 {
            let start = Instant::now();
            let reply = self.client.call("good_echo", json!({ "number": number })).await;
            assert_eq!(reply.result()["structuredContent"]["number"], number);
            assert!(start.elapsed() < BRISK, "the good server took {:?}", start.elapsed());
        }
    }

    /// Calls the bad server and the good one concurrently; returns the bad server's answer and its duration.
    pub async fn provoke(&self, tool: &str, arguments: Value) -> (Transcript, Duration) {
        let start = Instant::now();
        let provoking = async {
            let reply = self.client.call(&format!("bad_{tool}"), arguments).await;
            (reply, start.elapsed())
        };
        let (provoked, ()) = tokio::join!(provoking, self.good_is_brisk());
        self.good_is_brisk().await;
        let held = processes::peak_mib(self.gateway.pid());
        assert!(held < MOST_MEMORY_MIB, "the gateway used {held} MiB");
        provoked
    }

    /// Waits until the bad server answers again; returns the time that took.
    pub async fn bad_recovers(&self) -> Duration {
        let start = Instant::now();
        let back = poll(TEST_TIMEOUT, || async {
            let reply = self.client.call("bad_ok", json!({})).await;
            (reply.code().is_none() && !reply.is_error() && reply.text() == "ok").then_some(())
        });
        assert!(back.await.is_some(), "{}\n{}", self.gateway.server("bad").await, self.gateway.log());
        start.elapsed()
    }
}

/// The fault code of a failed call, whose message must name the server.
pub fn fault(reply: &Transcript) -> &str {
    assert!(reply.is_error(), "{}", reply.answer);
    assert!(reply.text().contains("`bad`"), "the message names the server: {}", reply.text());
    reply.fault()
}
