//! The fixture as a process that listens.

use super::{PATIENCE, binaries};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A fixture over HTTP; it is killed when dropped.
#[derive(Debug)]
pub struct FixtureServer {
    child: Child,
    /// Its endpoint.
    pub url: String,
    _said: Lines<BufReader<ChildStdout>>,
}

impl FixtureServer {
    /// Starts one that speaks this era, on a port of its own choosing.
    pub async fn start(era: &str) -> Self {
        Self::on("127.0.0.1:0", era).await
    }

    /// Starts one on an address.
    pub async fn on(address: &str, era: &str) -> Self {
        let mut command = Command::new(binaries::fixture());
        command.args(["--listen", address, "--era", era]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("the fixture runs");
        let mut said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = tokio::time::timeout(PATIENCE, said.next_line()).await;
        let first = first.expect("the fixture comes up in time").expect("it prints text").unwrap_or_default();
        let url =
            first.strip_prefix("listening ").unwrap_or_else(|| panic!("no address in {first:?}")).to_owned();
        Self { child, url, _said: said }
    }

    /// The address without path, to start another one in its place.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({ "url": self.url })
    }

    /// Ends it at once.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is our child");
    }
}
