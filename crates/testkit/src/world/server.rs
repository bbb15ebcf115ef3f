//! The fixture as an HTTP server process.

use super::{TEST_TIMEOUT, binaries};
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
    _output: Lines<BufReader<ChildStdout>>,
}

impl FixtureServer {
    /// Starts a fixture of this era on a free port.
    pub async fn start(era: &str) -> Self {
        Self::on("127.0.0.1:0", era).await
    }

    /// Starts a fixture on an address.
    pub async fn on(address: &str, era: &str) -> Self {
        let mut command = Command::new(binaries::fixture());
        command.args(["--listen", address, "--era", era]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("the fixture runs");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = tokio::time::timeout(TEST_TIMEOUT, output.next_line()).await;
        let first = first.expect("the fixture starts in time").expect("it prints text").unwrap_or_default();
        let url =
            first.strip_prefix("listening ").unwrap_or_else(|| panic!("no address in {first:?}")).to_owned();
        Self { child, url, _output: output }
    }

    /// The address without a path, to start another fixture on it.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({ "url": self.url })
    }

    /// Kills it.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it is our child");
    }
}
