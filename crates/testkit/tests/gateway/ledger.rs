//! A gateway with a server, `led`, that records its calls in a file.

use crate::token_users::{read, run};
use serde_json::{Value, json};
use std::process::Output;
use toolbooth_testkit::world::home::hostile;
use toolbooth_testkit::world::{Gateway, Home, Http, TEST_TIMEOUT, poll};

/// A gateway with a ledger server.
pub struct LedgerGateway {
    pub home: Home,
    pub gateway: Gateway,
}

/// The entry of the server in a configuration; the file is found by its name in the gateway's folder.
pub fn entry() -> Value {
    let mut entry = hostile(&["ledger", "ledger.txt"]);
    entry["inject"] = true.into();
    entry
}

impl LedgerGateway {
    /// Starts a gateway in `local` mode with these settings.
    pub async fn start(settings: Value) -> Self {
        let home = Home::with_settings(settings, &[]);
        Self::at(home, &entry()).await
    }

    /// Adds the ledger server to this configuration and starts a gateway.
    pub async fn at(home: Home, entry: &Value) -> Self {
        let mut entry = entry.clone();
        entry["args"][1] = home.path("ledger.txt").display().to_string().into();
        let config = std::fs::read_to_string(home.config()).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["servers"]["led"] = entry;
        home.write_config(&config.to_string());
        let gateway = home.start().await;
        Self { home, gateway }
    }

    /// Waits until the server is connected.
    pub async fn ready(self) -> Self {
        self.gateway.connected(&["led"]).await;
        self
    }

    /// The entries that the server has written.
    pub fn entries(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path("ledger.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs a command with this configuration.
    pub fn run(&self, words: &[&str]) -> Output {
        run(&self.home, words, None)
    }

    /// Runs a command that prints JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        read(&self.run(&[words, &["--json"]].concat()))
    }

    /// Kills the gateway and starts it again.
    pub async fn survive(self) -> Self {
        let Self { home, gateway } = self;
        gateway.kill().await;
        let gateway = home.start().await;
        Self { home, gateway }
    }

    /// Starts the gateway again after it was killed.
    pub async fn restarted(self) -> Self {
        let Self { home, gateway } = self;
        gateway.gone().await;
        let gateway = home.start().await;
        Self { home, gateway }
    }

    /// The user that the gateway identifies for this test.
    pub async fn user(&self) -> String {
        self.gateway.http().get_json("/me").await["user"].as_str().unwrap().to_owned()
    }
}

/// Calls `write_entry` over REST without waiting for approval; returns the id of the held call.
pub async fn held_write(http: &Http, text: &str) -> String {
    let body = json!({ "arguments": { "text": text }, "wait": 0 }).to_string();
    let (status, answer) = http.post_json("/tools/led_write_entry/call", &body).await;
    assert_eq!(status, 202, "{answer}");
    answer["held"].as_str().unwrap().to_owned()
}

/// Waits until a held call has ended.
pub async fn over(http: &Http, id: &str) -> Value {
    let path = format!("/approvals/{id}");
    let over = poll(TEST_TIMEOUT, || async {
        let held = http.get_json(&path).await;
        (!matches!(held["state"].as_str(), Some("pending" | "approved"))).then_some(held)
    });
    over.await.unwrap_or_else(|| panic!("held call {id} does not end"))
}

/// The standard output of a command without the final newline.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
